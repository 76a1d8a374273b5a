"""The command `stallwatch`: one file per sub-command, listed in `COMMANDS`.

Results go to standard output, everything else to standard error. A usage error is one line naming the option and what
was expected, with exit status 2. Files of this package import their rooms inside the commands: `--help` stays fast.
"""

import sys
from typing import Annotated

import typer

from exporter import __version__
from exporter.cli.demo import demo
from exporter.cli.engine import engine
from exporter.cli.failure import CommandError, usage_line
from exporter.cli.run import run
from exporter.cli.simulate import simulate

# Every sub-command; its name is the function's.
COMMANDS = (run, demo, engine, simulate)


def build_app() -> typer.Typer:
    """The command line, with plain text help; every option can also be given as STALLWATCH_COMMAND_OPTION."""
    app = typer.Typer(
        name="stallwatch",
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=False,
    )
    app.callback(invoke_without_command=True)(root)
    for command in COMMANDS:
        app.command()(command)
    return app


def root(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", allow_from_autoenv=False)
    ] = False,
) -> None:
    """See what the users of an LLM inference server feel: TTFT, stalls and goodput, measured on the wire."""
    if version:
        typer.echo(f"stallwatch {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        raise CommandError("", "expected a command, see stallwatch --help", status=2)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and leave with its exit status: 0, 1 for a failure, 2 for a usage error."""
    try:
        status = build_app()(
            args=arguments, prog_name="stallwatch", standalone_mode=False, auto_envvar_prefix="STALLWATCH"
        )
    except typer.TyperException as error:
        typer.echo(usage_line(error), err=True)
        status = error.exit_code
    except CommandError as error:
        typer.echo(f"{f'stallwatch {error.command}'.strip()}: {error}", err=True)
        status = error.status
    except typer.Abort:
        status = 130
    sys.exit(status if isinstance(status, int) else 0)
