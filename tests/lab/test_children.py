"""Child processes: ready lines, deaths told in their own words, and no orphan whatever happens to the parent."""

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys

import pytest

from exporter.lab.children import ChildError, choose_port, start

ENGINE = ["engine", "--port", "0"]
READY = "stallwatch engine: listening on "


async def test_ready_and_stop() -> None:
    child = await start("engine", ENGINE, READY)
    assert (await child.ready(30)).startswith("http://127.0.0.1:")
    assert os.getpgid(child.process.pid) == child.process.pid
    await child.stop()
    assert child.process.returncode == 0
    await child.stop()  # again is no error


async def test_a_death_is_told_with_its_last_words() -> None:
    child = await start("engine", ["engine", "--port", "x"], READY)
    with pytest.raises(ChildError, match="the engine ended with status 2: stallwatch engine: option --port: expected"):
        await child.ready(30)
    await child.stop()


async def test_a_child_that_is_never_ready() -> None:
    child = await start("engine", ENGINE, "something it never says")
    with pytest.raises(ChildError, match=r"the engine was not ready within 0\.01 s"):
        await child.ready(0.01)
    await child.stop()


async def test_a_child_that_does_not_listen_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("exporter.lab.children.GRACE", 0.1)
    child = await start("engine", ENGINE, READY)
    await child.ready(30)
    child.process.send_signal(signal.SIGSTOP)  # a stopped process takes no SIGTERM
    await child.stop()
    assert child.process.returncode == -signal.SIGKILL


PARENT = """
import asyncio
from exporter.lab.children import start

async def main():
    child = await start("engine", ["engine", "--port", "0"], "stallwatch engine: listening on ")
    await child.ready(30)
    print(child.process.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_a_killed_parent_leaves_no_child() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    assert parent.stdout
    pid = int(parent.stdout.readline())
    watch = os.pidfd_open(pid)
    parent.kill()
    parent.communicate()
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    assert poll.poll(30_000), "the child outlived its parent"
    os.close(watch)


def test_a_free_port_is_kept_and_a_taken_one_replaced() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        other = choose_port("127.0.0.1", port)
        assert other != port
    assert choose_port("127.0.0.1", other) == other


def test_an_address_that_is_not_ours_has_no_port() -> None:
    with pytest.raises(ChildError, match=r"no free port on 203\.0\.113\.1"):
        choose_port("203.0.113.1", 1)


async def test_died_waits_for_the_end() -> None:
    child = await start("engine", ENGINE, READY)
    await child.ready(30)
    death = asyncio.create_task(child.died())
    child.process.kill()
    with pytest.raises(ChildError, match=r"the engine ended with status -9$"):
        await death
    await child.stop()
