"""The configuration: each bad example is a file in tests/settings, and its error one line that says what to write."""

from pathlib import Path

import pytest

from exporter.settings import Place, Settings, SettingsError, load, read_token

FILES = Path(__file__).parent / "settings"

# File -> the key its error must name, and what it must say was expected.
BAD = {
    "unknown-key": ("upstram", "unknown key; did you mean upstream?"),
    "unknown-inner-key": ("timeouts.conect", "unknown key; did you mean connect?"),
    "unknown-key-like-none": ("zzz", "unknown key"),
    "bad-listen": ("listen", "expected HOST:PORT or unix:/path, got '8080'"),
    "bad-port": ("admin", "expected HOST:PORT or unix:/path, with a port from 0 to 65535, got '127.0.0.1:99999'"),
    "upstream-with-path": ("upstream", "expected http://HOST[:PORT] without a path or user name"),
    "upstream-https": ("upstream", "https is not built yet"),
    "time-without-unit": ("timeouts.connect", "expected a number with its unit, such as 5s (ms, s, m, h, d), got 5"),
    "time-zero": ("timeouts.drain", "expected a time above 0"),
    "size-unknown-unit": ("limits.head", "expected a number with its unit, such as 64KiB (B, KiB, MiB, GiB)"),
    "size-zero": ("limits.event", "expected a size above 0, such as 64KiB, got 0"),
    "wrong-type": ("preserve_host", "got 'maybe'"),
    "connections-zero": ("limits.connections", "greater than or equal to 1, got 0"),
    "key-twice": ("", "the key listen is given twice"),
    "upstream-half-bracket": ("upstream", "expected http://HOST[:PORT] without a path or user name"),
    "upstream-port-zero": ("upstream", "expected http://HOST[:PORT]"),
    "upstream-two-hosts": ("upstream", "expected http://HOST[:PORT]"),
    "upstream-signed-port": ("upstream", "expected http://HOST[:PORT]"),
    "listen-half-bracket": ("listen", "expected HOST:PORT or unix:/path, got '[::1'"),
    "listen-empty-label": ("listen", "expected HOST:PORT or unix:/path"),
    "models-no-list": ("models.allow", "expected a list of model names, such as [small, big], got 'x'"),
    "head-tiny": ("limits.head", "expected a size of at least 1KiB, got 1"),
    "admin-unix": ("admin", "expected HOST:PORT, got 'unix:/run/admin'"),
    "not-yaml": ("", "expected YAML"),
    "not-a-mapping": ("", "expected a mapping of keys"),
}


def test_every_bad_file_is_listed() -> None:
    assert {path.stem for path in FILES.glob("*.yaml")} == {*BAD, "good"}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line(name: str) -> None:
    file = FILES / f"{name}.yaml"
    with pytest.raises(SettingsError) as refused:
        load(file, {}, {})
    key, said = BAD[name]
    text = str(refused.value)
    assert text.startswith(f"{file}: {key}")
    assert said in text
    assert "\n" not in text


def test_a_good_file() -> None:
    settings = load(FILES / "good.yaml", {}, {})
    assert settings.listen == Place("::1", 8081)
    assert settings.upstream == Place("localhost", 80)
    assert settings.models.allow == ("small", "big")
    assert (settings.limits.head, settings.limits.event) == (32768, 100_000)
    assert settings.timeouts.connect == 0.5
    assert settings.timeouts.idle == 600
    assert settings.timeouts.total is None
    assert settings.timeouts.drain == 5400


def test_defaults_are_those_of_the_contract(tmp_path: Path) -> None:
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    for settings in (load(None, {}, {}), load(empty, {}, {})):
        assert settings == Settings()
        assert settings.listen == Place("0.0.0.0", 8080)
        assert settings.admin == Place("127.0.0.1", 9719)
        assert settings.upstream == Place("127.0.0.1", 8000)


def test_option_beats_environment_beats_file() -> None:
    file = FILES / "good.yaml"
    environment = {"STALLWATCH_ADMIN": "127.0.0.1:1", "STALLWATCH_LISTEN": "127.0.0.1:2"}
    settings = load(file, {"admin": "127.0.0.1:3", "listen": None}, environment)
    assert settings.admin.port == 3
    assert settings.listen.port == 2
    assert settings.upstream == Place("localhost", 80)


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        ({"listen": "nowhere"}, {}, "option --listen: expected HOST:PORT"),
        ({}, {"STALLWATCH_UPSTREAM": "8000"}, "environment STALLWATCH_UPSTREAM: expected http://HOST"),
    ],
)
def test_a_bad_option_is_named_as_the_user_gave_it(
    options: dict[str, str | None], environment: dict[str, str], said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        load(None, options, environment)


def test_places() -> None:
    assert load(None, {"upstream": "unix:/run/engine.sock"}, {}).upstream == Place(path="/run/engine.sock")
    assert load(None, {"upstream": "http://[::1]:8000/"}, {}).upstream == Place("::1", 8000)
    assert load(None, {"listen": "unix:/run/a"}, {}).listen == Place(path="/run/a")


def test_a_scheme_in_capitals_and_no_limit_on_the_drain(tmp_path: Path) -> None:
    assert load(None, {"upstream": "HTTP://A:81"}, {}).upstream == Place("A", 81)
    file = tmp_path / "off.yaml"
    file.write_text("timeouts: {drain: off}")
    assert load(file, {}, {}).timeouts.drain is None


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().preserve_host = False  # type: ignore[misc]


def test_a_missing_file_is_said() -> None:
    with pytest.raises(SettingsError, match=r"missing\.yaml: can't be read"):
        load(Path("missing.yaml"), {}, {})


def test_token(tmp_path: Path) -> None:
    assert read_token(Settings()) is None
    file = tmp_path / "token"
    file.write_text("secret\n")
    assert read_token(Settings(admin_token_file=str(file))) == "secret"
    for content in ("", "ä"):
        file.write_text(content)
        with pytest.raises(SettingsError, match="expected a token of ASCII"):
            read_token(Settings(admin_token_file=str(file)))
    with pytest.raises(SettingsError, match="can't be read"):
        read_token(Settings(admin_token_file=str(tmp_path / "none")))
