"""A timer of the kernel (timerfd) with nanosecond instants, for an event loop to watch.

uvloop's own timers count whole milliseconds: 200 streams of random phase would be written in clumps of five.
"""

import ctypes
import os
import time

_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK and TFD_CLOEXEC have the values of these
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME


class _Instant(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Setting(ctypes.Structure):
    _fields_ = (("interval", _Instant), ("value", _Instant))


class Ticker:
    """One timer; `fileno` becomes readable at the instant that was armed last."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd: int = self._libc.timerfd_create(time.CLOCK_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._setting = _Setting()

    def fileno(self) -> int:
        return self._fd

    def arm(self, instant: int) -> None:
        """Fire at `instant` (ns of `time.monotonic_ns`), at once when it is past; replaces what was armed."""
        value = self._setting.value
        value.seconds, value.nanoseconds = divmod(instant, 1_000_000_000)
        if self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(self._setting), None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def acknowledge(self) -> None:
        """Take the firing, so that the file is unreadable until the next."""
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # armed anew since it fired
            return
