from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.core.dialects.openai_chat import read
from exporter.core.framing import Frame
from exporter.core.signals import (
    ANSWER,
    BAD_SHAPE,
    END,
    NOT_JSON,
    NOTHING,
    ONE_ANSWER,
    ONE_REASONING,
    REASONING,
    SILENT,
    InBandError,
    Part,
    Signal,
    Usage,
)


def chat(text: str, event: bytes = b"") -> Any:
    return read(Frame(text.encode(), event))


def of_delta(fields: str) -> Any:
    return chat(f'{{"choices":[{{"index":0,"delta":{{{fields}}},"finish_reason":null}}]}}')


@pytest.mark.parametrize(
    "fields",
    [
        '"content":"a"',
        '"content":" "',
        '"content":"\\ufffd"',
        '"content":"{\\"error\\": 1}"',
        '"refusal":"no"',
        '"tool_calls":[{"index":0,"function":{"name":"f"}}]',
        '"tool_calls":[{"index":0,"function":{"arguments":"{"}}]',
        '"tool_calls":[{"index":0,"custom":{"input":"x"}}]',
        '"function_call":{"name":"f"}',
        '"function_call":{"arguments":"x"}',
        '"audio":{"data":"AAA"}',
        '"audio":{"transcript":"a"}',
        '"content":[{"type":"thinking","thinking":[1]},{"type":"text","text":"a"}]',
        '"content":"a","reasoning":"b"',
    ],
)
def test_c31_what_bears_an_answer_token(fields: str) -> None:
    assert of_delta(fields) is ONE_ANSWER


@pytest.mark.parametrize(
    "fields",
    [
        '"reasoning":"a"',
        '"reasoning_content":"a"',
        '"reasoning_content":"a","content":null',
        '"content":[{"type":"thinking","thinking":[1]}]',
    ],
)
def test_c30_what_bears_reasoning(fields: str) -> None:
    assert of_delta(fields) is ONE_REASONING


@pytest.mark.parametrize(
    "fields",
    [
        "",
        '"role":"assistant","content":""',
        '"role":"assistant","content":null',
        '"content":5',
        '"content":[1,{"type":"text","text":""},{"type":"text"}]',
        '"reasoning_content":null',
        '"tool_calls":[]',
        '"tool_calls":null',
        '"tool_calls":[1,{"id":"x"},{"function":null},{"function":{"name":"","arguments":""}}]',
        '"tool_calls":{"a":1}',
        '"function_call":{}',
        '"audio":{"id":"x","expires_at":1}',
        '"audio":"x"',
    ],
)
def test_what_bears_no_token(fields: str) -> None:
    assert of_delta(fields).token == NOTHING


@pytest.mark.parametrize(
    "text",
    [
        '{"choices":[],"prompt_filter_results":[]}',
        '{"choices":null}',
        "{}",
        '{"choices":[{"index":0}]}',
        '{"choices":[{"index":0,"delta":null}]}',
        '{"choices":[{"index":null,"delta":{"content":null}}]}',
        '{"error":null,"choices":[]}',
        '{"error":""}',
        '{"error":true}',
        '{"error":[]}',
        "null",
        "1",
        '"text"',
        "[]",
        "",
        " ",
    ],
)
def test_c08_shapes_that_say_nothing_are_no_fault(text: str) -> None:
    signal = chat(text)
    assert (signal.token, signal.usage, signal.error, signal.unparsed, signal.end) == (NOTHING, None, None, None, False)


def test_a_missing_index_is_choice_0() -> None:
    assert chat('{"choices":[{"delta":{"content":"a"}}]}') is ONE_ANSWER


def test_several_choices_in_one_event() -> None:
    signal = chat('{"choices":[{"index":1,"delta":{"content":"a"}},{"index":0,"delta":{"reasoning":"b"}}]}')
    assert signal == Signal(ANSWER, (Part(1, ANSWER), Part(0, REASONING)))


def test_a_finish_and_token_ids() -> None:
    signal = chat('{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length","token_ids":[1,2]}]}')
    assert signal == Signal(ANSWER, (Part(0, ANSWER, "length", 2),))
    assert chat('{"choices":[{"index":2,"delta":{},"finish_reason":""}]}').parts == (Part(2),)
    assert chat('{"choices":[{"index":0,"delta":{},"finish_reason":3,"token_ids":"x"}]}').parts == (Part(0),)


def test_a_whole_answer_is_read_from_its_message() -> None:
    signal = chat('{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"stop"}]}')
    assert signal.parts == (Part(0, ANSWER, "stop"),)


def test_usage() -> None:
    final = '{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3}}'
    assert chat(final).usage == Usage(10, 3, per_choice=False)
    running = '{"choices":[{"index":1,"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":3}}'
    assert chat(running).usage == Usage(10, 3, per_choice=True)
    assert chat('{"choices":[],"usage":null}').usage is None
    assert chat('{"choices":[],"usage":{}}').usage is None
    assert chat('{"choices":[],"usage":"x"}').usage is None
    assert chat('{"choices":[],"usage":{"completion_tokens":0}}').usage == Usage(None, 0)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("-1", "negative"),
        ("-1.5", "negative"),
        ("1.5", "fractional"),
        ("1e12", "absurd"),
        ("9" * 400, "absurd"),
        ('"3"', "type"),
        ("true", "type"),
        ("[]", "type"),
    ],
)
def test_counts_that_are_none_are_left_out_and_counted(bad: str, reason: str) -> None:
    signal = chat(f'{{"choices":[],"usage":{{"prompt_tokens":10,"completion_tokens":{bad}}}}}')
    assert signal.usage == Usage(10, None)
    assert signal.invalid == (reason,)


def test_a_whole_float_is_a_count() -> None:
    signal = chat('{"choices":[],"usage":{"completion_tokens":3.0}}')
    assert (signal.usage, signal.invalid) == (Usage(None, 3), ())


def test_llamacpp_timings_stand_in_for_usage() -> None:
    timings = '"timings":{"cache_n":19,"prompt_n":1,"predicted_n":6}'
    assert chat(f'{{"choices":[],{timings}}}').usage == Usage(20, 6)
    both = f'{{"choices":[],"usage":{{"prompt_tokens":7,"completion_tokens":5}},{timings}}}'
    assert chat(both).usage == Usage(7, 5)
    assert chat('{"choices":[],"timings":{"prompt_n":1,"predicted_n":6}}').usage == Usage(None, 6)
    bad = chat('{"choices":[],"timings":{"prompt_n":-1,"cache_n":null,"predicted_n":-6}}')
    assert (bad.usage, bad.invalid) == (None, ("negative", "negative"))
    one = f'{{"choices":[{{"index":0,"delta":{{"content":"a"}}}}],{timings}}}'
    assert chat(one).usage == Usage(20, 6, per_choice=True)


@pytest.mark.parametrize(
    ("text", "event", "code"),
    [
        ('{"error":{"message":"EngineCore died","code":500}}', b"", 500),
        ('{"error":{"message":"busy","code":"503"}}', b"", 503),
        ('{"error":{"message":"x","code":"rate_limit"}}', b"", None),
        ('{"error":{}}', b"", None),
        ('{"error":"died"}', b"", None),
        ('{"error":"died","code":429}', b"", 429),
        ('{"message":"x"}', b"error", None),
        ('{"error":{"code":400}}', b"error", 400),
        ('{"object":"error","message":"x","code":400}', b"", 400),
        ('{"choices":[{"index":0,"delta":{"content":"a"}}],"object":"error"}', b"", None),
        ("not json", b"error", None),
    ],
)
def test_c22_errors(text: str, event: bytes, code: int | None) -> None:
    assert chat(text, event).error == InBandError(code)


def test_c22_content_that_looks_like_an_error_is_none() -> None:
    assert of_delta('"content":"{\\"error\\":{}}"').error is None


def test_the_end_marker() -> None:
    assert chat("[DONE]") is END


@pytest.mark.parametrize("text", ['{"choices":[{"index"', "{", "nonsense", "[DONE", "\u00e9"])
def test_what_is_no_json_is_counted(text: str) -> None:
    assert chat(text) is NOT_JSON


@pytest.mark.parametrize(
    "text",
    [
        b'"content":"\xff"',
        b'"content":"\x0b\x0c\x1c\x1d\x1e\t"',
        b'"content":"\\ud83d"',
        b'"content":"a"},"logprobs":{"content":[{"logprob":-Infinity},{"logprob":NaN}]',
    ],
)
def test_C04_what_is_not_quite_json_is_read_all_the_same(text: bytes) -> None:
    signal = read(Frame(b'{"choices":[{"index":0,"delta":{' + text + b"}}]}"))
    assert (signal.token, signal.unparsed) == (ANSWER, None)


def test_an_end_marker_with_spaces_around_it_is_one() -> None:
    assert read(Frame(b" [DONE] ")).end


def test_what_is_no_json_by_any_reading_is_counted() -> None:
    assert read(Frame(b'{"choices":[{"index":0,"delta":{"content":"a}}]}')) is NOT_JSON


@pytest.mark.parametrize(
    "text",
    ['{"choices":"x"}', '{"choices":[1]}', '{"choices":[{"index":"0"}]}', '{"choices":[{"index":0,"delta":"x"}]}'],
)
def test_json_of_another_shape_is_counted(text: str) -> None:
    assert chat(text) is BAD_SHAPE


def test_deep_nesting_is_no_fault_of_ours() -> None:
    assert read(Frame(b'{"usage":' + b"[" * 100_000)).unparsed == "json"


def test_named_events_that_are_no_errors_are_read() -> None:
    assert chat('{"choices":[{"index":0,"delta":{"content":"a"}}]}', b"message").token == ANSWER
    assert chat('{"type":"ping"}', b"ping") == SILENT


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["choices", "index", "delta", "content", "usage", "error", "tool_calls", "function", "code"]
            )
            | st.sampled_from(["completion_tokens", "finish_reason", "token_ids", "timings", "predicted_n", "audio"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(VALUES, st.sampled_from([b"", b"error", b"x"]))
def test_it_never_raises_at_json(value: Any, event: bytes) -> None:
    assert isinstance(read(Frame(msgspec.json.encode(value), event)), Signal)


@given(st.binary(max_size=50))
def test_it_never_raises_at_bytes(data: bytes) -> None:
    assert isinstance(read(Frame(data)), Signal)
