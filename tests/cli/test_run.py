"""`stallwatch run` as a process: its ready line, its signals, and what it refuses."""

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.bodies import SSE_HEAD, C, chat
from tests.cli.command import run
from tests.http_bytes import LAST_CHUNK, chunk


class Sidecar(NamedTuple):
    process: subprocess.Popen[str]
    port: int
    admin: int

    def get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=30)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text


@contextmanager
def sidecar(engine: int, *options: str) -> Iterator[Sidecar]:
    command = [sys.executable, "-m", "exporter", "run", "--upstream", f"http://127.0.0.1:{engine}"]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr
        line = process.stderr.readline()
        assert line.startswith("stallwatch: listening on http://127.0.0.1:"), line
        listen, admin = (int(part.split(",")[0].rpartition(":")[2]) for part in line.split(" on ")[1:])
        yield Sidecar(process, listen, admin)
    finally:
        process.kill()
        process.communicate()


@contextmanager
def streaming(server: socket.socket, port: int) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A client in mid-stream: its socket, and the engine's."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
        client.sendall(chat())
        engine, _ = server.accept()
        with engine:
            engine.recv(65536)
            engine.sendall(SSE_HEAD + chunk(C("a")))
            seen = b""
            while C("a") not in seen:
                seen += client.recv(65536)
            yield client, engine


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        yield listener


def wait_draining(side: Sidecar) -> None:
    """Wait until the sidecar says on standard error that it drains."""
    assert side.process.stderr
    assert "draining for at most" in side.process.stderr.readline()


def test_a_drain_lets_the_stream_end(server: socket.socket) -> None:
    with sidecar(server.getsockname()[1]) as side, streaming(server, side.port) as (client, engine):
        assert side.get("/-/ready")[0] == 200
        side.process.send_signal(signal.SIGTERM)
        wait_draining(side)
        assert side.get("/-/ready")[0] == 503
        late = http.client.HTTPConnection("127.0.0.1", side.port, timeout=30)
        late.request("GET", "/health")
        answer = late.getresponse()
        assert answer.status == 503
        assert json.loads(answer.read())["error"]["type"] == "stallwatch_proxy_shutdown"
        engine.sendall(chunk(C("b")) + LAST_CHUNK)
        rest = b""
        while LAST_CHUNK not in rest:
            rest += client.recv(65536)
        assert side.process.wait(timeout=30) == 0
    assert C("b") in rest


def test_a_second_signal_ends_at_once(server: socket.socket) -> None:
    with sidecar(server.getsockname()[1]) as side, streaming(server, side.port):
        side.process.send_signal(signal.SIGTERM)
        wait_draining(side)
        side.process.send_signal(signal.SIGTERM)
        assert side.process.wait(timeout=30) == 1


def test_the_end_of_the_grace_time_cuts(server: socket.socket, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("timeouts: {drain: 200ms}\n")
    with sidecar(server.getsockname()[1], "--config", str(config)) as side, streaming(server, side.port) as (client, _):
        side.process.send_signal(signal.SIGINT)
        assert side.process.wait(timeout=30) == 0
        assert side.process.stderr
        assert "cut 1 streams" in side.process.stderr.read()
        assert LAST_CHUNK not in client.recv(65536)


@pytest.mark.parametrize("option", ["--listen", "--admin"])
def test_a_port_in_use_is_one_line(server: socket.socket, capfd: pytest.CaptureFixture[str], option: str) -> None:
    taken = f"127.0.0.1:{server.getsockname()[1]}"
    other = "--admin" if option == "--listen" else "--listen"
    command = [sys.executable, "-m", "exporter", "run", option, taken, other, "127.0.0.1:0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"stallwatch run: {option[2:]}: can't listen on http://{taken}: ")
    assert ended.stderr.count("\n") == 1


def test_a_bad_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    ended = run(capsys, "run", "--upstream", "engine:8000")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err == (
        "stallwatch run: option --upstream: expected http://HOST[:PORT] or unix:/path (https is not built yet), "
        "got 'engine:8000'\n"
    )


def test_a_bad_environment_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLWATCH_LISTEN", "8080")
    ended = run(capsys, "run")
    assert ended.status == 2
    assert ended.err == "stallwatch run: environment STALLWATCH_LISTEN: expected HOST:PORT or unix:/path, got '8080'\n"


def test_a_missing_config_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    ended = run(capsys, "run", "--config", "nowhere.yaml")
    assert ended.status == 2
    assert ended.err.startswith("stallwatch run: nowhere.yaml: can't be read: ")
    assert ended.err.count("\n") == 1
