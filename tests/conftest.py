"""Fixtures that any test may use: programs of the system, and one real Prometheus for the session.

- `program("promtool")` gives the path of a command; the test is skipped when it is not installed.
- `prometheus` is a running Prometheus (tests/prometheus_server.py), started at its first use, ended by its pid.
  A test adds its own target with `prometheus.scrape(job, "127.0.0.1:port")` and asks with `prometheus.query(expr)`;
  jobs are told apart by the label `job`, so tests share the server without seeing each other.

With CI=true a skipped test is a failed test: `.ci/run` must have installed everything.
"""

import os
import shutil
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.prometheus_server import PrometheusServer

pytest_plugins = ["tests.fixtures_wire"]

IN_CI = os.environ.get("CI", "").lower() in {"1", "true"}

# No deadline: the machines are shared, and a slow example is no fault. In CI the same examples each time.
settings.register_profile("stallwatch", deadline=None, derandomize=IN_CI)
settings.load_profile("stallwatch")


@pytest.fixture(scope="session")
def program() -> Callable[[str], str]:
    """Give the path of a system command, or skip the test and say which Debian package to install."""

    def find(command: str) -> str:
        path = shutil.which(command, path=os.environ.get("PATH", "") + ":/usr/sbin")
        if path is None:
            pytest.skip(f"{command} is not installed (tests/debian-packages names its Debian package)")
        return path

    return find


@pytest.fixture(scope="session")
def prometheus(program: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrometheusServer]:
    """One Prometheus on a free loopback port that scrapes and evaluates every 250 ms."""
    folder: Path = tmp_path_factory.mktemp("prometheus")
    server = PrometheusServer(program("prometheus"), folder)
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn a skip into a failure in CI; an expected failure stays what it is."""
    report = yield
    if IN_CI and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Turn the skip of a whole module into a failure in CI."""
    report = yield
    if IN_CI and report.skipped:
        report.outcome = "failed"
    return report
