"""Start and stop what is measured: nginx, the aiohttp pass-through, stallwatch; each one process on the loopback."""

import http.client
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.processor import pinned

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 20.0
STOP_SECONDS = 10.0

# One process does all the work, as in the other two; `master_process off` also keeps the user that started it.
_NGINX = """\
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr error;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    tcp_nodelay on;
    upstream engine {{
        server 127.0.0.1:{upstream};
        keepalive 512;
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://engine;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 1h;
        }}
    }}
}}
"""


class StartError(Exception):
    """A proxy that cannot be run here; the text is one line for the user."""


class Running(NamedTuple):
    """A proxy that is ready."""

    pid: int
    port: int


class _Plan(NamedTuple):
    """How to start a proxy, and how to see that it is ready (True) or not yet."""

    command: list[str]
    ready: Callable[[], bool]


def free_port() -> int:
    """Return a port of the loopback that nobody uses at this moment."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def nginx_program() -> str | None:
    """Return the path of nginx; None when it is not installed. A user's PATH often lacks the sbin folders."""
    return shutil.which("nginx") or shutil.which("nginx", path="/usr/local/sbin:/usr/sbin:/sbin")


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _nginx(upstream: int, port: int, folder: Path) -> _Plan:
    program = nginx_program()
    if program is None:
        raise StartError("nginx is not installed (apt-get install nginx-light)")
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder, upstream=upstream, port=port))
    return _Plan([program, "-e", "stderr", "-p", str(folder), "-c", str(config)], lambda: _accepts(port))


def _aiohttp(upstream: int, port: int, _folder: Path) -> _Plan:
    options = ["--upstream", f"http://127.0.0.1:{upstream}", "--port", str(port)]
    return _Plan([sys.executable, "-m", "benchmarks.passthrough", *options], lambda: _accepts(port))


def _stallwatch(upstream: int, port: int, _folder: Path) -> _Plan:
    admin = free_port()
    options = ["--upstream", f"http://127.0.0.1:{upstream}"]
    options += ["--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}"]
    return _Plan([sys.executable, "-m", "exporter", "run", *options], lambda: _answers(admin, "/-/ready"))


# In the order of the table; the first is what the others are compared with.
PROXIES: dict[str, Callable[[int, int, Path], _Plan]] = {
    "nginx": _nginx,
    "aiohttp": _aiohttp,
    "stallwatch": _stallwatch,
}


@contextmanager
def process(command: list[str], processor: int | None, log: Path) -> Iterator["subprocess.Popen[str]"]:
    """Run a process of ours from the checkout: output readable, errors in `log`; it is ended after the block."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STALLWATCH_")}
    with log.open("w") as errors, pinned(processor):
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with child:
        try:
            yield child
        finally:
            child.terminate()
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()


def _last_words(log: Path) -> str:
    """Return the last line that says something; the frames that typer draws around a message are left out."""
    lines = [line.strip(" \u2502\u2500\u256d\u256e\u2570\u256f") for line in log.read_text().splitlines()]
    return next((line for line in reversed(lines) if line), "it said nothing")


@contextmanager
def running(name: str, upstream: int, processor: int | None, folder: Path) -> Iterator[Running]:
    """Run the named proxy before the engine's port; StartError when it does not become ready."""
    port = free_port()
    plan = PROXIES[name](upstream, port, folder)
    log = folder / f"{name}.log"
    with process(plan.command, processor, log) as child:
        deadline = time.monotonic() + START_SECONDS
        while not plan.ready():
            if child.poll() is not None:
                raise StartError(f"{name} did not start (exit code {child.returncode}): {_last_words(log)}")
            if time.monotonic() > deadline:
                raise StartError(f"{name} was not ready after {START_SECONDS:g} s")
            time.sleep(0.02)
        yield Running(child.pid, port)
