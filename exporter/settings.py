"""The configuration: read once from option, environment and file, checked, then frozen.

Precedence: option, environment (`STALLWATCH_...`), file, default. Unknown keys are refused with the nearest right one
named. Every mistake is one `SettingsError` that names the file, the key and what was expected.
"""

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

_SIZES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_TIMES = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]+)")


class SettingsError(Exception):
    """A configuration that can't be used; its text is one line for the user."""


class Place(NamedTuple):
    """Where to listen or connect: host and port, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str | None = None


def _quantity(value: object, units: Mapping[str, float], example: str) -> float:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] not in units:
        raise ValueError(f"expected a number with its unit, such as {example} ({', '.join(units)})")
    return float(match[1]) * units[match[2]]


def _size(value: object) -> object:
    size = _quantity(value, _SIZES, "64KiB") if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int | float) or size < 1:
        raise ValueError("expected a size above 0, such as 64KiB")
    return int(size)


def _seconds(value: object) -> float:
    seconds = _quantity(value, _TIMES, "5s")
    if seconds <= 0:
        raise ValueError("expected a time above 0, such as 5s")
    return seconds


def _seconds_or_off(value: object) -> float | None:
    return None if value in (None, False, "off") else _seconds(value)


_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}(?:%[A-Za-z0-9]+)?\]")


def _place(value: object, lowest: int = 0) -> Place:
    expected = "expected HOST:PORT or unix:/path"
    if isinstance(value, Place):
        return value
    if not isinstance(value, str):
        raise ValueError(expected)
    if value.startswith("unix:/"):
        return Place(path=value.removeprefix("unix:"))
    host, colon, port = value.rpartition(":")
    if not colon or not _HOST.fullmatch(host) or not re.fullmatch(r"[0-9]{1,5}", port):
        raise ValueError(expected)
    if not lowest <= int(port) <= 65535:
        raise ValueError(f"{expected}, with a port from {lowest} to 65535")
    return Place(host.strip("[]"), int(port))


def _tcp_place(value: object) -> Place:
    place = _place(value)
    if place.path is not None:
        raise ValueError("expected HOST:PORT")
    return place


def _engine(value: object) -> Place:
    if isinstance(value, Place):
        return value
    if not isinstance(value, str) or not re.match(r"(?i:http://)|unix:/", value):
        raise ValueError("expected http://HOST[:PORT] or unix:/path (https is not built yet)")
    if value.startswith("unix:/"):
        return _place(value)
    authority = value[len("http://") :].removesuffix("/")
    try:
        return _place(authority if re.search(r":[^\]:]*$", authority) else f"{authority}:80", lowest=1)
    except ValueError as error:
        raise ValueError("expected http://HOST[:PORT] without a path or user name") from error


def _names(value: object) -> object:
    if not isinstance(value, list | tuple) or not all(isinstance(name, str) and name for name in value):
        raise ValueError("expected a list of model names, such as [small, big]")
    return tuple(value)


def _head_size(value: object) -> object:
    size = _size(value)
    if not isinstance(size, int) or size < 1024:
        raise ValueError("expected a size of at least 1KiB")
    return size


Size = Annotated[int, BeforeValidator(_size)]
HeadSize = Annotated[int, BeforeValidator(_head_size)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Seconds = Annotated[float, BeforeValidator(_seconds)]
SecondsOrOff = Annotated[float | None, BeforeValidator(_seconds_or_off)]
ListenPlace = Annotated[Place, BeforeValidator(_place)]
AdminPlace = Annotated[Place, BeforeValidator(_tcp_place)]
EnginePlace = Annotated[Place, BeforeValidator(_engine)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)


class Models(_Frozen):
    """Which values the label `model` may take."""

    allow: Names = ()
    max: int = Field(20, ge=1, le=1000)


class LimitSettings(_Frozen):
    """Sizes in bytes."""

    head: HeadSize = 64 << 10
    stream_buffer: Size = 1 << 20
    event: Size = 1 << 20
    request_tap: Size = 1 << 20
    connections: int = Field(10_000, ge=1)


class Timeouts(_Frozen):
    """Times in seconds; `None` is no limit."""

    connect: Seconds = 5.0
    head: Seconds = 30.0
    client_idle: Seconds = 75.0
    upstream_idle: Seconds = 3.0
    idle: SecondsOrOff = None
    total: SecondsOrOff = None
    drain: SecondsOrOff = 600.0


class Settings(_Frozen):
    """The whole configuration of `stallwatch run`."""

    listen: ListenPlace = Place("0.0.0.0", 8080)
    admin: AdminPlace = Place("127.0.0.1", 9719)
    admin_token_file: str | None = None
    upstream: EnginePlace = Place("127.0.0.1", 8000)
    preserve_host: bool = True
    models: Models = Models()
    limits: LimitSettings = LimitSettings()
    timeouts: Timeouts = Timeouts()


# What a user may set by option or environment instead of the file.
OPTIONS = ("upstream", "listen", "admin")


def load(
    file: Path | None, options: Mapping[str, str | None], environment: Mapping[str, str] | None = None
) -> Settings:
    """Read the configuration. SettingsError names the first thing that is wrong."""
    environment = os.environ if environment is None else environment
    content = {} if file is None else _read(file)
    sources = {key: f"{file}: {key}" for key in content}
    for key in OPTIONS:
        variable = f"STALLWATCH_{key.upper()}"
        if (option := options.get(key)) is not None:
            content[key], sources[key] = option, f"option --{key}"
        elif variable in environment:
            content[key], sources[key] = environment[variable], f"environment {variable}"
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        raise SettingsError(_one_line(error, sources, str(file))) from error


def read_token(settings: Settings) -> str | None:
    """Return the admin token, `None` when no file is named. SettingsError when the file can't be used."""
    if settings.admin_token_file is None:
        return None
    try:
        token = Path(settings.admin_token_file).read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"admin_token_file: {settings.admin_token_file} can't be read: {error}") from error
    if not token or not token.isascii():
        raise SettingsError(f"admin_token_file: {settings.admin_token_file}: expected a token of ASCII characters")
    return token


class _Loader(yaml.SafeLoader):
    """A SafeLoader that refuses a key given twice; YAML would let the last one win without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        if twice := next((key for key in keys if keys.count(key) > 1), None):
            raise yaml.MarkedYAMLError(problem=f"the key {twice} is given twice", problem_mark=node.start_mark)
        return super().construct_mapping(node, deep)


def _read(file: Path) -> dict[str, Any]:
    try:
        content = yaml.load(file.read_text(), _Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: can't be read: {error}") from error
    except yaml.YAMLError as error:
        raise SettingsError(f"{file}: expected YAML: {' '.join(str(error).split())}") from error
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise SettingsError(f"{file}: expected a mapping of keys, such as `upstream: http://127.0.0.1:8000`")
    return content


def _one_line(error: ValidationError, sources: Mapping[str, str], file: str) -> str:
    first = error.errors(include_url=False)[0]
    path = [str(part) for part in first["loc"]]
    where = sources.get(path[0], f"{file}: {path[0]}") if len(path) == 1 else f"{file}: {'.'.join(path)}"
    if first["type"] == "extra_forbidden":
        near = difflib.get_close_matches(path[-1], _keys_beside(path), n=1, cutoff=0.5)
        return f"{where}: unknown key" + (f"; did you mean {near[0]}?" if near else "")
    message = first["msg"].removeprefix("Value error, ")
    return f"{where}: {message[:1].lower()}{message[1:]}, got {first['input']!r}"


def _keys_beside(path: list[str]) -> list[str]:
    model: type[BaseModel] = Settings
    for part in path[:-1]:
        inner = model.model_fields[part].annotation if part in model.model_fields else None
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
    return list(model.model_fields)
