"""The admin port: metrics, health, readiness and an index page. It reads, and decides nothing.

GET and HEAD are open; every POST passes the guard (exporter/views/guard.py) before anything else, unknown paths
included; other methods are 405. Errors are JSON. No answer names the version of a library.
"""

import asyncio
import html
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.typedefs import Handler, Middleware

from exporter.core.family import Family
from exporter.views import exposition, guard

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class About:
    """What the index page says of this sidecar: its version, where it listens, the engine it stands before."""

    version: str
    listen: str
    upstream: str


class _Link(NamedTuple):
    """A row of the index page."""

    path: str
    text: str


_LINKS = (
    _Link("/metrics", "all metrics, for Prometheus"),
    _Link("/metrics/stallwatch", "the metrics of stallwatch alone"),
    _Link("/-/healthy", "200 while the process answers"),
    _Link("/-/ready", "200 while requests are taken, 503 before listening and while draining"),
)

# Paths of the contract that a later version fills: (method, path, status, what the answer says).
_NOT_BUILT = (
    ("GET", "/live", 404, "the live page is not built yet"),
    ("GET", "/live/events", 404, "the live page is not built yet"),
    ("GET", "/metrics/engine", 404, "the engine's own metrics are not merged yet"),
    ("POST", "/-/reload", 501, "reloading the configuration is not built yet"),
)


def make_app(
    families: Callable[[], Iterable[Family]], ready: Callable[[], bool], token: str | None, about: About
) -> web.Application:
    """Build the admin application. `families` gives the metrics of this instant, once per scrape.

    `ready` is asked at each /-/ready. `token` is the admin token or None; ValueError when it is empty, since an empty
    bearer would then open every POST.
    """
    if token is not None and not token:
        raise ValueError("the admin token must not be empty")

    async def metrics(request: web.Request) -> web.StreamResponse:
        form = exposition.choose(", ".join(request.headers.getall("Accept", [])))
        body = exposition.render(families(), form)
        return web.Response(body=body, headers={"Content-Type": form.content_type, "Vary": "Accept"})

    async def is_ready(_: web.Request) -> web.StreamResponse:
        return web.Response(text="ready\n") if ready() else web.Response(status=503, text="not ready\n")

    async def is_healthy(_: web.Request) -> web.StreamResponse:
        return web.Response(text="healthy\n")

    async def index(_: web.Request) -> web.StreamResponse:
        return web.Response(text=_index_page(about), content_type="text/html")

    app = web.Application(middlewares=[_errors_as_json, _guard_posts(token)])
    app.router.add_get("/", index)
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/metrics/stallwatch", metrics)
    app.router.add_get("/-/healthy", is_healthy)
    app.router.add_get("/-/ready", is_ready)
    for method, path, status, message in _NOT_BUILT:
        add = app.router.add_get if method == "GET" else app.router.add_post
        add(path, _always(status, message))
    return app


async def serve(app: web.Application, host: str, port: int) -> web.AppRunner:
    """Serve an application of `make_app` on host:port (0: any free port); the runner's `addresses` say where.

    `await runner.cleanup()` ends it; an open scrape may take one second more. OSError when the address can't be bound.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    name_the_server(runner)
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner


def name_the_server(runner: web.AppRunner) -> None:
    """Make every answer of a set-up runner carry `Server: stallwatch`, those to broken HTTP included."""
    if runner.server is None:
        raise RuntimeError("the runner is not set up yet")
    runner.server.request_factory = _make_request


class _Request(web.Request):
    """A request whose answers name stallwatch as the server, not the library and its version.

    The public signal `on_response_prepare` is not sent for the answers that aiohttp makes itself to what is no HTTP.
    """

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        response.headers["Server"] = "stallwatch"
        await super()._prepare_hook(response)


def _make_request(
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: web.RequestHandler,
    writer: AbstractStreamWriter,
    task: "asyncio.Task[None]",
) -> web.Request:
    return _Request(message, payload, protocol, writer, task, asyncio.get_running_loop())


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "stallwatch_admin", "code": status}}, status=status)


@web.middleware
async def _errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer unknown paths, other methods and our own faults as JSON."""
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as refusal:
        answer = _error(405, f"{request.method} is not allowed here")
        answer.headers["Allow"] = refusal.headers["Allow"]
        return answer
    except web.HTTPException as refusal:
        return _error(refusal.status, "no such page" if refusal.status == 404 else refusal.reason)
    except Exception:
        _LOG.exception("the admin port failed to answer %s %s", request.method, request.path)
        return _error(500, "internal error, see the log")


def _guard_posts(token: str | None) -> Middleware:
    """Give the middleware that lets a POST pass only when the guard allows it."""

    @web.middleware
    async def guard_posts(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method == "POST":
            get = request.headers.getall
            if not guard.allows(
                guard.peer_of(request.transport), get("Host", []), get("Origin", []), get("Authorization", []), token
            ):
                return _error(
                    403, "POST needs a loopback client, an IP address or localhost as Host and no foreign Origin"
                )
        return await handler(request)

    return guard_posts


def _always(status: int, message: str) -> Handler:
    async def answer(_: web.Request) -> web.StreamResponse:
        return _error(status, message)

    return answer


def _index_page(about: About) -> str:
    rows = "\n".join(f'<li><a href="{link.path}">{link.path}</a> {html.escape(link.text)}</li>' for link in _LINKS)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>stallwatch</title>
<h1>stallwatch {html.escape(about.version)}</h1>
<p>Watching the engine at <code>{html.escape(about.upstream)}</code>;
clients are served on <code>{html.escape(about.listen)}</code>.</p>
<ul>
{rows}
</ul>
</html>
"""
