"""Relay tests run on uvloop, as the product does."""

import asyncio
from collections.abc import Callable, Mapping

import uvloop

from tests.relay.recording import start_relay

__all__ = ["start_relay"]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The product's loop."""
    return {"uvloop": uvloop.new_event_loop}
