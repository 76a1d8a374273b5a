"""Which processor each part runs on, and how much processor time a process has used and waited for (Linux)."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class Places(NamedTuple):
    """The processor of each part; None leaves a part to the kernel's scheduler."""

    proxy: int | None
    engine: int | None
    client: int | None

    def __str__(self) -> str:
        if self.proxy is None:
            return "nothing is pinned: one processor, or pinning is not permitted"
        if self.engine == self.client:
            return f"proxy pinned to processor {self.proxy}, engine and client to processor {self.client}"
        return f"proxy pinned to processor {self.proxy}, engine to {self.engine}, client to {self.client}"


def places() -> Places:
    """Choose from the processors this process may use: the proxy has one for itself, the load has the others."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) == 1:
        return Places(None, None, None)
    try:
        os.sched_setaffinity(0, processors)
    except OSError:
        return Places(None, None, None)
    client, *middle, proxy = processors
    return Places(proxy, middle[0] if middle else client, client)


@contextmanager
def pinned(processor: int | None) -> Iterator[None]:
    """Run the block, and whatever it starts, on one processor; afterwards this process is where it was before."""
    if processor is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {processor})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def used(pid: int) -> int:
    """Return the processor time, user and system, of all threads of a process so far, in ns.

    This is the process's CPU clock (`clock_getcpuclockid(3)`, whose number is made from the pid as here): the kernel's
    exact run time, where /proc/PID/stat counts in steps of 10 ms. OSError when there is no such process.
    """
    return time.clock_gettime_ns((~pid << 3) | 2)


def waited(pid: int) -> int:
    """Return how long a process's first thread could have run but others had its processor, so far, in ns.

    Second field of /proc/PID/schedstat (kernel: Documentation/scheduler/sched-stats). OSError when there is no such
    process.
    """
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1])
