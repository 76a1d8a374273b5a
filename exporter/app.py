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

_TICK = 0.02  # seconds between looks at what became certain
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
            settings.preserve_host,
        )
        self._tick_timer: asyncio.TimerHandle | None = None
        self.listen = settings.listen  # with the bound port, once started
        self.admin = settings.admin

    async def start(self) -> None:
        """Listen on both ports. BindError when a port can't be had."""
        settings = self._settings
        admin = make_app(self._families, lambda: self._relay.ready, self._token, _about(settings))
        try:
            self._runner = await serve(admin, settings.admin.host, settings.admin.port)
        except OSError as error:
            raise BindError(f"admin: can't listen on {url(settings.admin)}: {error.strerror or error}") from error
        try:
            bound = await self._relay.listen(Address(*settings.listen))
        except OSError as error:
            await self._runner.cleanup()
            raise BindError(f"listen: can't listen on {url(settings.listen)}: {error.strerror or error}") from error
        self.listen = Place(bound.host, bound.port, bound.path)
        self.admin = Place(settings.admin.host, self._runner.addresses[0][1])
        self._tick()

    def __str__(self) -> str:
        return f"listening on {url(self.listen)}, admin on {url(self.admin)}, upstream {url(self._settings.upstream)}"

    def _families(self) -> Iterator[Family]:
        self._relay.look()
        return self.board.families(now())

    def _tick(self) -> None:
        self._relay.look()
        end = now() + _SLICE
        self.board.tick(now(), lambda: now() < end)
        self._tick_timer = asyncio.get_running_loop().call_later(_TICK, self._tick)

    async def stop(self, drain: bool) -> int:
        """Drain, or not, and close everything; return how many exchanges were cut."""
        cut = await self._relay.drain() if drain else 0
        if self._tick_timer is not None:
            self._tick_timer.cancel()
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
    log.info("draining for at most %g s; a second signal ends at once", settings.timeouts.drain)
    stopping = loop.create_task(sidecar.stop(drain=True))
    hurry = loop.create_task(again.wait())
    await asyncio.wait({stopping, hurry}, return_when=asyncio.FIRST_COMPLETED)
    if not stopping.done():
        stopping.cancel()
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


def _about(settings: Settings) -> About:
    return About(version=__version__, listen=url(settings.listen), upstream=url(settings.upstream))
