"""Reading requests and shaping answers, without a server."""

import json
from typing import Any

import msgspec
import pytest

from exporter.lab.openai_api import ApiError, Delta, Shape, read_request, word

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hello there"}]}


def read(fields: object, *, chat: bool = True) -> Any:
    return read_request(json.dumps(fields).encode(), chat=chat, model="sim")


@pytest.mark.parametrize(
    ("content", "tokens"),
    [
        ("", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("é" * 4, 2),
        (None, 1),
        ([{"type": "text", "text": "x" * 9}, {"image": 1}], 3),
    ],
)
def test_chat_prompt_tokens_are_bytes_by_four(content: object, tokens: int) -> None:
    assert read({"messages": [{"content": content}]}).prompts == (tokens,)


def test_all_messages_make_one_prompt() -> None:
    assert read({"messages": [{"content": "abcde"}, {"content": "abc"}]}).prompts == (2,)


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [("abcde", (2,)), (["abcde", "a"], (2, 1)), ([5, 6, 7], (3,)), ([[5, 6], [7]], (2, 1))],
)
def test_completion_prompts(prompt: object, tokens: tuple[int, ...]) -> None:
    assert read({"prompt": prompt}, chat=False).prompts == tokens


def test_defaults() -> None:
    generation = read(CHAT)
    assert (generation.n, generation.output, generation.finish_reason) == (1, 128, "stop")
    assert (generation.stream, generation.include_usage) == (False, False)


def test_limits_and_unknown_fields() -> None:
    extra = {"model": "sim", "max_tokens": 7, "max_completion_tokens": 3, "n": 2, "ignore_eos": True, "seed": 1}
    generation = read({**CHAT, **extra, "stream": True, "stream_options": {"include_usage": True}})
    assert (generation.n, generation.output, generation.finish_reason) == (2, 3, "length")
    assert (generation.stream, generation.include_usage) == (True, True)
    assert read({**CHAT, "max_tokens": 7, "max_completion_tokens": None}).output == 7


@pytest.mark.parametrize(
    ("fields", "chat", "status", "param", "message"),
    [
        ([1], True, 400, "body", "the body must be a JSON object"),
        ({"model": "gpt"}, True, 404, "model", "The model `gpt` does not exist. Valid aliases: sim."),
        ({}, True, 400, "messages", "at least one message"),
        ({"messages": []}, True, 400, "messages", "at least one message"),
        ({"messages": ["x"]}, True, 400, "messages", "must be an object"),
        ({**CHAT, "max_tokens": -3}, True, 400, "max_tokens", "max_tokens must be at least 1, got -3."),
        ({**CHAT, "max_tokens": True}, True, 400, "max_tokens", "must be a whole number"),
        ({**CHAT, "max_completion_tokens": 1.5}, True, 400, "max_completion_tokens", "must be a whole number"),
        ({**CHAT, "n": 0}, True, 400, "n", "n must be at least 1"),
        ({**CHAT, "n": 129}, True, 400, "n", "n must be at most 128, got 129."),
        ({"prompt": []}, False, 400, "prompt", "prompt must be a string"),
        ({"prompt": [1, "a"]}, False, 400, "prompt", "prompt must be a string"),
        ({}, False, 400, "prompt", "prompt must be a string"),
    ],
)
def test_refusals(fields: object, chat: bool, status: int, param: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        read(fields, chat=chat)
    error = json.loads(caught.value.body())["error"]
    assert (caught.value.status, error["code"], error["param"]) == (status, status, param)
    assert message in error["message"]


@pytest.mark.parametrize("body", [b"", b'{"mess', b"\xff\xfe"])
def test_bad_json(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        read_request(body, chat=True, model="sim")
    assert caught.value.status == 400
    assert "JSON decode error" in str(caught.value)


def events(data: bytes) -> list[Any]:
    return [msgspec.json.decode(part.removeprefix(b"data: ")) for part in data.split(b"\n\n") if part]


def test_chat_chunks_look_like_vllms() -> None:
    shape = Shape(read({**CHAT, "n": 2}), number="ab12", created=1795984927, model="sim")
    roles = events(shape.opening())
    assert [role["choices"][0]["index"] for role in roles] == [0, 1]
    assert roles[0] == {
        "id": "chatcmpl-ab12",
        "object": "chat.completion.chunk",
        "created": 1795984927,
        "model": "sim",
        "choices": [
            {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
        ],
    }
    (middle,) = events(shape.token(Delta(1, 4, False), None))
    assert middle["choices"] == [
        {"index": 1, "delta": {"content": word(1, 4)}, "logprobs": None, "finish_reason": None, "token_ids": None}
    ]
    (last,) = events(shape.token(Delta(1, 5, True), "vllm-sim-0"))
    assert (last["choices"][0]["finish_reason"], last["system_fingerprint"]) == ("stop", "vllm-sim-0")


def test_completion_chunks_look_like_vllms() -> None:
    shape = Shape(read({"prompt": "abcde", "max_tokens": 1}, chat=False), number="1", created=7, model="sim")
    assert shape.opening() == b""
    (only,) = events(shape.token(Delta(0, 0, True), None))
    assert (only["id"], only["object"]) == ("cmpl-1", "text_completion")
    expected = {"index": 0, "text": "the", "logprobs": None, "finish_reason": "length", "stop_reason": None}
    assert only["choices"] == [{**expected, "token_ids": None}]
    (usage,) = events(shape.usage(1, "f"))
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 2, "total_tokens": 3, "completion_tokens": 1}


def test_whole_answers() -> None:
    generation = read({"prompt": ["abcde", "a"], "max_tokens": 2}, chat=False)
    answer = json.loads(Shape(generation, number="1", created=7, model="sim").whole([2, 2], "f"))
    assert [choice["text"] for choice in answer["choices"]] == ["the sea", "is long"]
    assert answer["usage"] == {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4}
