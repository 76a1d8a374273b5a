"""The only place that wires parts together: the sidecar from its settings, started, run, drained and stopped."""

import asyncio
import logging
import platform
import signal
from collections.abc import Iterator

import uvloop

from exporter import __version__
from exporter.core.aggregates import Board
from exporter.core.config import CoreConfig
from exporter.core.family import Family
from exporter.relay.clock import now
from exporter.relay.limits import Limits
from exporter.relay.pool import Address
from exporter.relay.server import Relay
from exporter.settings import Place, Settings, read_token
from exporter.views.admin import About, make_app, serve

log = logging.getLogger("stallwatch")

_SLICE = 1_000_000  # ns a tick may work at a time


class BindError(Exception):
    """An address that can't be listened on; its text is one line for the user."""


class Sidecar:
    """Relay, core and admin port in one event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._token = read_token(settings)
        self.board = Board(core_config(settings), now())
        self._relay = Relay(
            Address(*settings.upstream),
            relay_limits(settings),
            self.board.relay,
            self.board.open,
            preserve_host=settings.preserve_host,
            each_beat=self._tick,
        )
        self.listen = settings.listen  # with the bound port, once started
        self.admin = settings.admin

    async def start(self) -> None:
        """Listen on both ports. BindError when a port can't be had."""
        settings = self._settings
        admin = make_app(self._families, lambda: self._relay.ready, self._token, _about(settings))
        try:
            self._runner = await serve(admin, settings.admin.host, settings.admin.port)
        except (OSError, ValueError) as error:
            raise _bind_error("admin", settings.admin, error) from error
        try:
            bound = await self._relay.listen(Address(*settings.listen))
        except (OSError, ValueError) as error:
            await self._runner.cleanup()
            raise _bind_error("listen", settings.listen, error) from error
        self.listen = Place(bound.host, bound.port, bound.path)
        self.admin = Place(settings.admin.host, self._runner.addresses[0][1])

    def __str__(self) -> str:
        return f"listening on {url(self.listen)}, admin on {url(self.admin)}, upstream {url(self._settings.upstream)}"

    def _families(self) -> Iterator[Family]:
        self._relay.settle()
        return self.board.families(now())

    def _tick(self) -> None:
        end = now() + _SLICE
        self.board.tick(now(), lambda: now() < end)

    async def stop(self, drain: bool) -> int:
        """Drain, or not, and close everything; return how many exchanges were cut."""
        cut = await self._relay.drain() if drain else 0
        await self._relay.close()
        await self._runner.cleanup()
        return cut


async def run(settings: Settings) -> int:
    """Run the sidecar until SIGTERM or SIGINT; return the exit code. A second signal ends it at once."""
    loop = asyncio.get_running_loop()
    sidecar = Sidecar(settings)
    await sidecar.start()
    log.info("%s", sidecar)
    asked = asyncio.Event()
    again = asyncio.Event()

    def ask() -> None:
        (again if asked.is_set() else asked).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    await asked.wait()
    grace = settings.timeouts.drain
    log.info("draining for at most %s; a second signal ends at once", "ever" if grace is None else f"{grace:g} s")
    stopping = loop.create_task(sidecar.stop(drain=True))
    hurry = loop.create_task(again.wait())
    await asyncio.wait({stopping, hurry}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        stopping.cancel()
        await asyncio.gather(stopping, return_exceptions=True)
        await sidecar.stop(drain=False)
        return 1
    hurry.cancel()
    if cut := stopping.result():
        log.warning("cut %d streams at the end of the drain", cut)
    return 0


def main(settings: Settings) -> int:
    """Run the sidecar on uvloop; return the exit code."""
    return uvloop.run(run(settings))


def core_config(settings: Settings) -> CoreConfig:
    """Return what the core needs of the settings."""
    return CoreConfig(
        model_allow=settings.models.allow,
        model_cap=settings.models.max,
        event_limit=settings.limits.event,
        request_tap=settings.limits.request_tap,
        version=__version__,
        python=platform.python_version(),
    )


def relay_limits(settings: Settings) -> Limits:
    """Return what the relay needs of the settings."""
    return Limits(
        head=settings.limits.head,
        stream_buffer=settings.limits.stream_buffer,
        connections=settings.limits.connections,
        connect=settings.timeouts.connect,
        client_head=settings.timeouts.head,
        client_idle=settings.timeouts.client_idle,
        upstream_idle=settings.timeouts.upstream_idle,
        idle=settings.timeouts.idle,
        total=settings.timeouts.total,
        drain=settings.timeouts.drain,
    )


def url(place: Place) -> str:
    """Return a place as a URL for people."""
    if place.path is not None:
        return f"unix:{place.path}"
    host = f"[{place.host}]" if ":" in place.host else place.host
    return f"http://{host}:{place.port}"


def _bind_error(key: str, place: Place, error: Exception) -> BindError:
    return BindError(f"{key}: can't listen on {url(place)}: {getattr(error, 'strerror', None) or error}")


def _about(settings: Settings) -> About:
    return About(version=__version__, listen=url(settings.listen), upstream=url(settings.upstream))
