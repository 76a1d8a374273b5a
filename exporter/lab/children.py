"""Child processes that end with their parent: started in their own group, ended by pid, killed when the parent dies.

A terminal's Ctrl-C reaches the parent only, which then ends its children in order.
"""

import asyncio
import ctypes
import os
import signal
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

GRACE = 5.0  # s a child may take to end after SIGTERM
_PR_SET_PDEATHSIG = 1


class ChildError(Exception):
    """A child ended when it should not, or did not become ready."""


class Child:
    """One running `python -m exporter` process.

    Its standard error is read all the time; of what it says after the ready line, the last lines are kept.
    """

    def __init__(self, name: str, process: asyncio.subprocess.Process, ready: str) -> None:
        self.name = name
        self.process = process
        self._tail: deque[str] = deque(maxlen=5)
        self._ready_prefix = ready
        self._ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reader = asyncio.create_task(self._read())

    async def ready(self, seconds: float) -> str:
        """The rest of the line on standard error that begins with the ready text. ChildError when it does not come."""
        died = asyncio.create_task(self.died())
        try:
            either: set[asyncio.Future[Any]] = {self._ready, died}
            await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if self._ready.done():
                return self._ready.result()
            if died.done():
                died.result()
            raise ChildError(f"the {self.name} was not ready within {seconds:g} s")
        finally:
            died.cancel()

    async def died(self) -> None:
        """Wait for its end, which is then a ChildError with the last line it wrote."""
        status = await self.process.wait()
        await asyncio.wait({self._reader}, timeout=1)
        said = f": {self._tail[-1]}" if self._tail else ""
        raise ChildError(f"the {self.name} ended with status {status}{said}")

    async def stop(self) -> None:
        """End it: SIGTERM, and SIGKILL after the grace time."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                self.process.send_signal(number)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.process.wait(), GRACE)
                break
        await self._reader

    async def _read(self) -> None:
        assert self.process.stderr is not None
        async for raw in self.process.stderr:
            line = raw.decode(errors="replace").rstrip()
            if line.startswith(self._ready_prefix) and not self._ready.done():
                self._ready.set_result(line.removeprefix(self._ready_prefix))
            elif line:
                self._tail.append(line)


async def start(name: str, arguments: Sequence[str], ready: str) -> Child:
    """Start `python -m exporter ARGUMENTS`; `ready` begins the line that says it is ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "exporter",
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        process_group=0,
        preexec_fn=_tied_to(os.getpid()),
    )
    return Child(name, process, ready)


def _tied_to(parent: int) -> Callable[[], None]:
    """What a child runs before it becomes the program: ask the kernel to kill it when its parent is gone (Linux)."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)

    def tie() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the kernel knew
            os._exit(1)

    return tie


def choose_port(host: str, preferred: int) -> int:
    """The preferred port if it can be bound now, else a free one."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((host, port))
                probe.listen()
                return int(probe.getsockname()[1])
    raise ChildError(f"no free port on {host}")
