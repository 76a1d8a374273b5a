"""`stallwatch run`: the sidecar."""

import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

from exporter.cli.failure import CommandError


def run(
    upstream: Annotated[
        str | None, typer.Option(help="The engine: http://HOST[:PORT] or unix:/path.", allow_from_autoenv=False)
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Where clients connect: HOST:PORT or unix:/path.", allow_from_autoenv=False)
    ] = None,
    admin: Annotated[
        str | None, typer.Option(help="Where /metrics and the index are: HOST:PORT.", allow_from_autoenv=False)
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Configuration file (YAML).", envvar="STALLWATCH_CONFIG")] = None,
) -> None:
    """Relay requests to an engine, measure the answers, and serve the figures on the admin port.

    Defaults: upstream http://127.0.0.1:8000, listen 0.0.0.0:8080, admin 127.0.0.1:9719. Each option can also be set as
    STALLWATCH_UPSTREAM, STALLWATCH_LISTEN, STALLWATCH_ADMIN, STALLWATCH_CONFIG. SIGTERM drains: live streams end, new
    requests get 503.
    """
    from exporter import app, settings  # other commands need neither uvloop nor aiohttp

    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="stallwatch: %(message)s")
    try:
        code = app.main(settings.load(config, {"upstream": upstream, "listen": listen, "admin": admin}))
    except (settings.SettingsError, app.BindError) as error:
        raise CommandError("run", str(error), status=2) from error
    raise typer.Exit(code)
