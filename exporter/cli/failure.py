"""How a command says that it can't go on: one line on standard error, and an exit status."""

import typer


class CommandError(Exception):
    """A command's end with a message for its user. `status` is 1 for a failure, 2 for what the user can correct."""

    def __init__(self, command: str, message: str, status: int = 1) -> None:
        super().__init__(message)
        self.command = command
        self.status = status


def usage_line(error: typer.TyperException) -> str:
    """A typer error as `stallwatch COMMAND: option --x: what was expected`, on one line."""
    context = getattr(error, "ctx", None)
    prefix = context.command_path if context is not None else "stallwatch"
    names = getattr(getattr(error, "param", None), "opts", None)
    message = f"option {names[-1]}: {error.message}" if names and error.message else error.format_message()
    return f"{prefix}: {' '.join(message.split())}"
