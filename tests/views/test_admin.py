"""The admin port over real sockets: what each path answers, who may POST, and that a real Prometheus reads it."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
import uvloop
from aiohttp import web

from exporter.core.family import Family
from exporter.names import BUILD_INFO
from exporter.views.admin import About, make_app, name_the_server, serve
from exporter.views.exposition import OPENMETRICS, TEXT, render
from tests.prometheus_server import PrometheusServer
from tests.views.family_samples import MS, every_metric

ABOUT = About(version="1.2.3", listen="0.0.0.0:8080", upstream="http://engine:8000/<b>")
FORBIDDEN = "POST needs a loopback client, an IP address or localhost as Host and no foreign Origin"


@dataclass
class Board:
    """Stands for the core: gives families, or fails; can be not ready."""

    ready: bool = True
    broken: bool = False
    scrapes: int = field(default=0)

    def families(self) -> Iterable[Family]:
        self.scrapes += 1
        if self.broken:
            raise RuntimeError("the board is broken")
        return every_metric()


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: str

    def error(self) -> tuple[int, str]:
        error = json.loads(self.body)["error"]
        assert error["type"] == "stallwatch_admin"
        return error["code"], error["message"]


class Admin(NamedTuple):
    """A running admin port and a client that adds no header of its own but Host."""

    port: int
    client: aiohttp.ClientSession
    board: Board

    async def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        url = f"http://127.0.0.1:{self.port}{path}"
        async with self.client.request(method, url, headers=headers) as response:
            return Answer(response.status, dict(response.headers), await response.text())


@asynccontextmanager
async def running(
    board: Board | None = None, token: str | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Admin]:
    board = board or Board()
    app = make_app(board.families, lambda: board.ready, token, ABOUT)
    runner = await serve(app, host, 0)
    try:
        async with aiohttp.ClientSession() as client:
            yield Admin(runner.addresses[0][1], client, board)
    finally:
        await runner.cleanup()


@pytest.fixture
async def admin() -> AsyncIterator[Admin]:
    async with running() as started:
        yield started


async def raw(port: int, request: bytes) -> bytes:
    """Send bytes and read the answer to its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize("path", ["/metrics", "/metrics/stallwatch"])
async def test_metrics_in_both_formats(admin: Admin, path: str) -> None:
    plain = await admin.ask(path)
    assert (plain.status, plain.headers["Content-Type"]) == (200, TEXT.content_type)
    assert plain.body == render(every_metric(), TEXT).decode()
    rich = await admin.ask(path, Accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert (rich.status, rich.headers["Content-Type"]) == (200, OPENMETRICS.content_type)
    assert rich.body == render(every_metric(), OPENMETRICS).decode()
    assert admin.board.scrapes == 2


async def test_head_of_metrics_has_the_headers_and_no_body(admin: Admin) -> None:
    full = await admin.ask("/metrics")
    head = await admin.ask("/metrics", "HEAD")
    assert (head.status, head.body) == (200, "")
    assert head.headers["Content-Length"] == str(len(full.body.encode()))


async def test_health_and_readiness(admin: Admin) -> None:
    assert (await admin.ask("/-/ready"))[::2] == (200, "ready\n")
    admin.board.ready = False
    assert (await admin.ask("/-/ready"))[::2] == (503, "not ready\n")
    assert (await admin.ask("/-/healthy"))[::2] == (200, "healthy\n")


async def test_the_index_lists_the_endpoints_and_escapes_what_it_shows(admin: Admin) -> None:
    page = await admin.ask("/")
    assert page.headers["Content-Type"].startswith("text/html")
    for path in ("/metrics", "/metrics/stallwatch", "/-/healthy", "/-/ready"):
        assert f'href="{path}"' in page.body
        assert (await admin.ask(path)).status == 200
    assert "http://engine:8000/&lt;b&gt;" in page.body
    assert "1.2.3" in page.body


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/live", "the live page is not built yet"),
        ("/live/events", "the live page is not built yet"),
        ("/metrics/engine", "the engine's own metrics are not merged yet"),
        ("/nothing", "no such page"),
        ("/metrics/", "no such page"),
    ],
)
async def test_what_is_not_there_says_so(admin: Admin, path: str, message: str) -> None:
    answer = await admin.ask(path)
    assert answer.error() == (404, message)
    assert answer.status == 404
    assert answer.headers["Content-Type"].startswith("application/json")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "POST"])
async def test_other_methods_are_refused(admin: Admin, method: str) -> None:
    answer = await admin.ask("/metrics", method)
    assert answer.error() == (405, f"{method} is not allowed here")
    assert answer.headers["Allow"] == "GET,HEAD"
    assert "Access-Control-Allow-Origin" not in answer.headers


async def test_a_fault_of_ours_is_a_500_in_json_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with running(Board(broken=True)) as admin:
        answer = await admin.ask("/metrics")
        assert answer.error() == (500, "internal error, see the log")
        assert (await admin.ask("/-/healthy")).status == 200
    assert "the board is broken" in caplog.text


async def test_a_local_post_reaches_the_page(admin: Admin) -> None:
    answer = await admin.ask("/-/reload", "POST")
    assert answer.status == 501
    assert answer.error() == (501, "reloading the configuration is not built yet")


@pytest.mark.parametrize("path", ["/-/reload", "/metrics", "/nothing", "/"])
async def test_a_rebound_name_can_post_to_nothing(admin: Admin, path: str) -> None:
    """DNS rebinding: the page of evil.com has its name pointed at 127.0.0.1, so peer and Origin look alike."""
    own = f"evil.com:{admin.port}"
    answer = await admin.ask(path, "POST", Host=own, Origin=f"http://{own}")
    assert (answer.status, answer.error()) == (403, (403, FORBIDDEN))


@pytest.mark.parametrize("origin", ["null", "http://evil.com", "http://localhost.evil.com", "https://127.0.0.1"])
async def test_a_page_from_elsewhere_cannot_post(admin: Admin, origin: str) -> None:
    assert (await admin.ask("/-/reload", "POST", Origin=origin)).status == 403


async def test_our_own_page_can_post(admin: Admin) -> None:
    assert (await admin.ask("/-/reload", "POST", Origin=f"http://127.0.0.1:{admin.port}")).status == 501


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (b"Host: 127.0.0.1\r\n", b"501"),
        (b"", b"403"),
        (b"Host: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.com\r\n", b"403"),
        (b"Host: localhost.evil.com\r\n", b"403"),
    ],
)
async def test_posts_of_odd_shape(admin: Admin, headers: bytes, status: bytes) -> None:
    answer = await raw(admin.port, b"POST /-/reload HTTP/1.0\r\nContent-Length: 0\r\n" + headers + b"\r\n")
    assert answer.split(b" ")[1] == status


async def test_the_token_opens_posts_under_any_host() -> None:
    async with running(token="s3cret") as admin:
        named = {"Host": "stallwatch.example", "Origin": "http://elsewhere.example"}
        assert (await admin.ask("/-/reload", "POST", **named)).status == 403
        assert (await admin.ask("/-/reload", "POST", **named, Authorization="Bearer wrong")).status == 403
        assert (await admin.ask("/-/reload", "POST", **named, Authorization="Bearer s3cret")).status == 501
        assert (await admin.ask("/-/reload", "POST")).status == 501


def test_an_empty_token_is_refused() -> None:
    with pytest.raises(ValueError, match="must not be empty"):
        make_app(Board().families, lambda: True, "", ABOUT)


async def test_gets_are_open_whatever_the_host(admin: Admin) -> None:
    assert (await admin.ask("/metrics", Host="stallwatch.example", Origin="http://elsewhere.example")).status == 200


async def test_a_unix_socket_peer_is_local(tmp_path: Path) -> None:
    runner = web.AppRunner(make_app(Board().families, lambda: True, None, ABOUT), access_log=None)
    await runner.setup()
    name_the_server(runner)
    path = str(tmp_path / "admin")
    try:
        await web.UnixSite(runner, path).start()
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(path)) as client:
            async with client.post("http://localhost/-/reload") as response:
                assert response.status == 501
            async with client.post("http://evil.com/-/reload") as response:
                assert response.status == 403
    finally:
        await runner.cleanup()


def test_the_guard_knows_peers_on_uvloop_too(tmp_path: Path) -> None:
    """The sidecar runs on uvloop, whose transports describe their sockets in their own way."""

    async def post() -> None:
        async with running() as admin:
            assert (await admin.ask("/-/reload", "POST")).status == 501
            assert (await admin.ask("/-/reload", "POST", Host="evil.com")).status == 403
        await test_a_unix_socket_peer_is_local(tmp_path)

    uvloop.run(post())


async def test_a_runner_must_be_set_up_before_it_is_named() -> None:
    with pytest.raises(RuntimeError, match="not set up"):
        name_the_server(web.AppRunner(web.Application()))


async def test_ipv6_loopback() -> None:
    async with running(host="::1") as admin:
        url = f"http://[::1]:{admin.port}/-/reload"
        async with admin.client.post(url, headers={"Origin": f"http://[::1]:{admin.port}"}) as response:
            assert response.status == 501
        async with admin.client.post(url, headers={"Host": "ip6.evil.com"}) as response:
            assert response.status == 403


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"GET /nothing HTTP/1.0\r\nHost: localhost\r\n\r\n",
        b"POST /nothing HTTP/1.0\r\nHost: evil.com\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nbroken header\r\n\r\n",
        b"\x16\x03\x01 rubbish\r\n\r\n",
    ],
)
async def test_no_answer_names_a_library(admin: Admin, request_bytes: bytes) -> None:
    answer = await raw(admin.port, request_bytes)
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert head.startswith(b"http/1.")
    assert b"server: stallwatch" in head.split(b"\r\n")
    assert b"python" not in head
    assert b"aiohttp" not in head


async def test_an_address_in_use_is_an_os_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        app = make_app(Board().families, lambda: True, None, ABOUT)
        with pytest.raises(OSError, match="in use"):
            await serve(app, "127.0.0.1", taken.getsockname()[1])


async def test_a_real_prometheus_scrapes_it(admin: Admin, prometheus: PrometheusServer) -> None:
    prometheus.scrape("admin", f"127.0.0.1:{admin.port}")
    try:
        await asyncio.to_thread(prometheus.wait_for, 'up{job="admin"} == 1')
        within = 'stallwatch_output_gap_seconds_bucket{job="admin",le="0.1"}'
        (bucket,) = await asyncio.to_thread(prometheus.wait_for, within)
        assert (bucket.value, bucket.labels["model"], bucket.labels["slo_class"]) == (2, "m1", "x")
        (total,) = await asyncio.to_thread(prometheus.query, 'stallwatch_output_gap_seconds_sum{job="admin"}')
        assert total.value == (1 + 100 + 101) * MS / 10**9
        (info,) = await asyncio.to_thread(prometheus.query, f'stallwatch_{BUILD_INFO.name}{{job="admin"}}')
        assert info.value == 1.5e9
    finally:
        prometheus.forget("admin")
