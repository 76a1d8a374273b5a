import pytest

from exporter.core.labels import Models, generates, path_of, route_of, speaks_lines, streams_by_default


@pytest.mark.parametrize(
    ("target", "path"),
    [
        (b"/v1/models", b"/v1/models"),
        (b"/v1/models?x=1", b"/v1/models"),
        (b"/v1/models?", b"/v1/models"),
        (b"http://evil.example/v1/models?x", b"/v1/models"),
        (b"https://evil.example", b""),
        (b"http://evil.example?x=/health", b""),
        (b"*", b"*"),
        (b"//a", b"//a"),
    ],
)
def test_the_path_of_a_target(target: bytes, path: bytes) -> None:
    assert path_of(target) == path


@pytest.mark.parametrize(
    ("path", "route"),
    [
        (b"/v1/chat/completions", "/v1/chat/completions"),
        (b"/v1/chat/completions/", "other"),
        (b"/v1/Chat/completions", "other"),
        (b"/v1/x42", "other"),
        (b"\xff\xfe", "other"),
        (b"/health", "/health"),
    ],
)
def test_c37_routes_are_a_fixed_list(path: bytes, route: str) -> None:
    assert route_of(path) == route


def test_generating_paths() -> None:
    assert generates(b"/v1/messages")
    assert generates(b"/v2/models/llama/generate_stream")
    assert generates(b"/v2/models/llama/generate")
    assert not generates(b"/v2/models//generate")
    assert not generates(b"/v1/embeddings")
    assert not generates(b"/v2/models/llama/infer")


def test_defaults_of_a_path() -> None:
    assert streams_by_default(b"/api/chat")
    assert streams_by_default(b"/generate_stream")
    assert not streams_by_default(b"/v1/chat/completions")
    assert speaks_lines(b"/api/generate")
    assert not speaks_lines(b"/generate")


def test_c37_models_are_let_in_when_answered_until_the_cap() -> None:
    models = Models(("a",), 3)
    assert models.label("a", answered=False) == ("a", False)
    assert models.label("b", answered=False) == ("other", False)
    assert models.label("b", answered=True) == ("b", False)
    assert models.label("b", answered=False) == ("b", False)
    assert models.label("c", answered=True) == ("c", False)
    assert models.label("d", answered=True) == ("other", True)
    assert models.label("a", answered=True) == ("a", False)
    assert models.label(None, answered=True) == ("other", False)
    assert models.label("other", answered=True) == ("other", False)
