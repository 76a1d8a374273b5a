from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.dialects.openai_completions import read
from exporter.core.framing import Frame
from exporter.core.signals import ANSWER, END, NOT_JSON, ONE_ANSWER, InBandError, Part, Signal, Usage


def completion(text: str, event: bytes = b"") -> Any:
    return read(Frame(text.encode(), event))


def test_c31_text_is_output() -> None:
    assert completion('{"choices":[{"index":0,"text":"a","logprobs":null,"finish_reason":null}]}') is ONE_ANSWER


@pytest.mark.parametrize("text", ['""', "null", "5", "[]"])
def test_no_text_is_none(text: str) -> None:
    assert completion(f'{{"choices":[{{"index":0,"text":{text}}}]}}') == Signal(parts=(Part(0),))


def test_finish_ids_and_usage() -> None:
    signal = completion(
        '{"choices":[{"index":3,"text":"a","finish_reason":"stop","token_ids":[7]}],"usage":{"completion_tokens":4}}'
    )
    assert signal == Signal(ANSWER, (Part(3, ANSWER, "stop", 1),), Usage(None, 4, per_choice=True))


def test_errors_the_end_and_the_unreadable() -> None:
    assert completion('{"error":{"code":503}}').error == InBandError(503)
    assert completion("{}", b"error").error == InBandError()
    assert completion("[DONE]") is END
    assert completion("{") is NOT_JSON
    assert completion('{"choices":[],"usage":{"completion_tokens":-1}}').invalid == ("negative",)


@given(st.binary(max_size=50))
def test_it_never_raises_at_bytes(data: bytes) -> None:
    assert isinstance(read(Frame(data)), Signal)


def test_C04_what_is_not_quite_json_is_read_all_the_same() -> None:
    signal = read(Frame(b'{"choices":[{"index":0,"text":"\x0b","logprobs":{"token_logprobs":[-Infinity]}}]}'))
    assert (signal.token, signal.unparsed) == (ANSWER, None)
