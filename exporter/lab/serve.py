"""Run the simulated engine's server until a signal or a stop event ends it."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from exporter.lab.engine import Engine
from exporter.lab.engine_http import build_app

DRAIN = 0.2  # s that streams under way may still take at the end; then they are cut


@asynccontextmanager
async def serving(engine: Engine, host: str, port: int) -> AsyncIterator[str]:
    """Serve the engine while inside; yields its address `http://HOST:PORT`, with the port really bound.

    OSError when the address can't be bound.
    """
    runner = web.AppRunner(build_app(engine), access_log=None, handler_cancellation=True, shutdown_timeout=DRAIN)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0]
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        steps = asyncio.create_task(engine.run())
        try:
            yield f"http://{name}:{bound[1]}"
        finally:
            steps.cancel()
            with suppress(asyncio.CancelledError):
                await steps
    finally:
        await runner.cleanup()


async def serve(engine: Engine, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is told the address. OSError when it can't be bound."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serving(engine, host, port) as address:
        ready(address)
        await stop.wait()
