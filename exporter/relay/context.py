"""What every connection of one relay shares: limits, figures, how to open a tap, the pool, and whether it drains."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from exporter.core.relay_figures import RelayFigures
from exporter.core.tap import Tap
from exporter.relay.limits import Limits
from exporter.relay.look_queue import LookQueue

if TYPE_CHECKING:
    from exporter.relay.downstream import Downstream
    from exporter.relay.pool import Pool


@dataclass(slots=True)
class Context:
    """One relay's shared state. `open_tap` begins an exchange at a stamp."""

    loop: asyncio.AbstractEventLoop
    limits: Limits
    figures: RelayFigures
    open_tap: Callable[[int], Tap]
    pool: Pool
    looks: LookQueue
    host: bytes  # the engine's own name, for requests that bring none
    preserve_host: bool = True
    draining: bool = False
    clients: set[Downstream] = field(default_factory=set)
