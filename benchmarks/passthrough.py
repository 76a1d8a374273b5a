"""The usual way to write such a proxy in Python: an aiohttp server and an aiohttp client, on uvloop.

    python -m benchmarks.passthrough --upstream http://127.0.0.1:P --port L

It reads each response as it comes (`iter_any`), writes it on, inflates nothing, logs nothing and looks at nothing.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator

import aiohttp
import uvloop
from aiohttp import web

_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "content-length"})


def _kept(headers: "aiohttp.typedefs.LooseHeaders") -> dict[str, str]:
    return {str(name): str(value) for name, value in dict(headers).items() if str(name).lower() not in _HOP_BY_HOP}


class PassThrough:
    """The handler, and its client session."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._session: aiohttp.ClientSession | None = None

    async def session(self, _app: web.Application) -> AsyncIterator[None]:
        connector = aiohttp.TCPConnector(limit=0)
        no_limit = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False, timeout=no_limit) as session:
            self._session = session
            yield

    async def handle(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None
        url = self._upstream + request.path_qs
        body = await request.read()
        async with self._session.request(request.method, url, headers=_kept(request.headers), data=body) as answer:
            response = web.StreamResponse(status=answer.status, headers=_kept(answer.headers))
            await response.prepare(request)
            async for data in answer.content.iter_any():
                await response.write(data)
            await response.write_eof()
            return response


async def _serve(upstream: str, port: int) -> None:
    proxy = PassThrough(upstream)
    app = web.Application(client_max_size=1 << 30)
    app.cleanup_ctx.append(proxy.session)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.passthrough")
    parser.add_argument("--upstream", required=True, help="URL of the engine, without a path")
    parser.add_argument("--port", type=int, required=True, help="port to listen on, on the loopback")
    arguments = parser.parse_args()
    uvloop.run(_serve(arguments.upstream, arguments.port))


if __name__ == "__main__":
    main()
