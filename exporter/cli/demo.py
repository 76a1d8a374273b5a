"""`stallwatch demo`: engine, load, sidecar and a live view in one command."""

import asyncio
import signal
import sys
from typing import Annotated

import typer

from exporter.cli import options as read
from exporter.cli.failure import CommandError


def demo(
    *,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for",
            parser=read.seconds,
            metavar="SECONDS",
            envvar="STALLWATCH_DEMO_FOR",
            help="End after this time; without it the demo goes on until Ctrl-C.",
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        int, typer.Option(parser=read.count, metavar="N", help="The engine's max_num_batched_tokens at first.")
    ] = 8192,
    then: Annotated[
        int, typer.Option(parser=read.count, metavar="M", help="What it becomes half-way (after 30 s without --for).")
    ] = 512,
    load: Annotated[bool, typer.Option("--load/--no-load", help="Send the mixed load, or leave it to you.")] = True,
) -> None:
    """See stalls without a GPU: a simulated engine, a mixed load and the sidecar, all on this machine.

    Eight chats stream while a long prompt comes in now and then. With the large budget the engine takes the prompt in
    few long steps, and every chat freezes; with the small one it is cut small, the chats go on and the long prompt
    waits longer. Half-way the budget changes; at the end both are shown side by side on standard output.

    The engine is a model, not a benchmark: its costs are chosen to show the effect, not measured.
    """
    from exporter.lab.children import ChildError
    from exporter.lab.demo import Demo, Phase, Plan
    from exporter.lab.demo_view import LiveScreen, summary

    async def run() -> list[Phase]:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        with LiveScreen(sys.stderr) as screen:
            return await Demo(Plan(seconds, budget, then, load), screen, stop).run()

    try:
        phases = asyncio.run(run())
    except ChildError as error:
        raise CommandError("demo", str(error)) from None
    if phases:
        typer.echo(summary(phases))
