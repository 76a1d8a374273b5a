"""Fixtures that open engines and clients and see that they are closed: a pytest plugin, named in the root conftest."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Protocol

import pytest

from tests.capture import Capture
from tests.fake_engine import FakeEngine, Script
from tests.raw_client import RawClient
from tests.replay import LockStep, ReplayEngine, Timed


class StartEngine(Protocol):
    """Start a fake engine; see FakeEngine for the arguments."""

    def __call__(
        self, *scripts: Script, default: Script | None = None, early: bool = False
    ) -> Awaitable[FakeEngine]: ...


class StartReplay(Protocol):
    """Start a replay engine; see ReplayEngine for the arguments."""

    def __call__(self, *captures: Capture, pace: Timed | LockStep | None = None) -> Awaitable[ReplayEngine]: ...


@pytest.fixture
async def start_engine() -> AsyncIterator[StartEngine]:
    """Starts fake engines; each is closed, and its faults raised, at the test's end."""
    async with AsyncExitStack() as stack:

        async def start(*scripts: Script, default: Script | None = None, early: bool = False) -> FakeEngine:
            return await stack.enter_async_context(FakeEngine(*scripts, default=default, early=early))

        yield start


@pytest.fixture
async def start_replay() -> AsyncIterator[StartReplay]:
    """Starts replay engines; each is closed, and its faults raised, at the test's end."""
    async with AsyncExitStack() as stack:

        async def start(*captures: Capture, pace: Timed | LockStep | None = None) -> ReplayEngine:
            return await stack.enter_async_context(ReplayEngine(*captures, pace=pace))

        yield start


@pytest.fixture
async def dial() -> AsyncIterator[Callable[[int], Awaitable[RawClient]]]:
    """Opens raw clients by port; each is closed at the test's end."""
    async with AsyncExitStack() as stack:

        async def connect(port: int) -> RawClient:
            return await stack.enter_async_context(await RawClient.connect(port))

        yield connect
