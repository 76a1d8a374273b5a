"""The sidecar runs on uvloop here, as in production."""

import asyncio
from collections.abc import Callable, Mapping

import uvloop

from tests.sidecar_cases.running import start_sidecar

__all__ = ["start_sidecar"]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The product's loop."""
    return {"uvloop": uvloop.new_event_loop}
