"""The whole sidecar in the test's own loop, before any engine, and its metrics read over HTTP as Prometheus does."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from exporter.app import Sidecar
from exporter.settings import Settings

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


class Metrics:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self.samples: Samples = {
            (sample.name.removeprefix("stallwatch_"), tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    def total(self, name: str, **labels: str) -> float:
        """The sum of all samples of this name whose labels include these."""
        return sum(
            value
            for (sample, given), value in self.samples.items()
            if sample == name and labels.items() <= dict(given).items()
        )

    def within(self, name: str, edge: float, **labels: str) -> float:
        """How many samples of a histogram are at most `edge`, which must be one of its edges."""
        found = [
            value
            for (sample, given), value in self.samples.items()
            if sample == f"{name}_bucket" and float(dict(given)["le"]) == edge and labels.items() <= dict(given).items()
        ]
        assert found, f"{name} has no edge {edge}"
        return sum(found)


class RunningSidecar:
    """A sidecar under test; `port` is where clients connect."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.sidecar = sidecar
        self.port = sidecar.listen.port
        self.admin = f"http://127.0.0.1:{sidecar.admin.port}"

    async def metrics(self) -> Metrics:
        """Scrape /metrics."""
        async with ClientSession() as session, session.get(f"{self.admin}/metrics") as answer:
            assert answer.status == 200
            return Metrics(await answer.text())

    async def idle(self, ended: int) -> Metrics:
        """Wait until `ended` requests have ended and nothing is in flight; return that scrape."""
        async with asyncio.timeout(30):
            while True:
                metrics = await self.metrics()
                if metrics.total("requests_total") >= ended and not metrics.total("requests_in_flight"):
                    return metrics
                await asyncio.sleep(0.005)


StartSidecar = Callable[..., Awaitable[RunningSidecar]]


@pytest.fixture
async def start_sidecar() -> AsyncIterator[StartSidecar]:
    """Starts sidecars before an engine's port; settings are given as in the file. Each is stopped at the test's end."""
    async with AsyncExitStack() as stack:

        async def start(engine_port: int, **settings: Any) -> RunningSidecar:
            places = {"listen": "127.0.0.1:0", "admin": "127.0.0.1:0", "upstream": f"http://127.0.0.1:{engine_port}"}
            sidecar = Sidecar(Settings.model_validate(places | settings))
            await sidecar.start()
            stack.push_async_callback(sidecar.stop, drain=False)
            return RunningSidecar(sidecar)

        yield start
