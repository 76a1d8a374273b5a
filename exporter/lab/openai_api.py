"""What the simulated engine reads from an OpenAI request and what it answers, in vLLM's shapes.

`read_request` takes the bytes of a body; whatever is wrong with them becomes an `ApiError` with vLLM's body. `Shape`
turns tokens into the chunks of a stream or one whole answer. Unknown fields are tolerated. Prompt tokens are the bytes
of the text divided by 4, rounded up, or the number of ids given. Pure: the caller brings ids and the wall clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import msgspec

FinishReason = Literal["length", "stop"]

DEFAULT_OUTPUT = 128  # tokens of an answer when the request gives no limit; it then ends with "stop"
MAX_N = 128
DONE = b"data: [DONE]\n\n"
# What the engine writes: one word a token.
_TEXT = (
    "the sea is wide and the night is long a lamp burns low while waves return each one a line that nobody wrote down "
    "salt wind and slow bells over the harbour we wait for the tide to turn and count the boats coming home"
)
WORDS = tuple(_TEXT.split())


class ApiError(Exception):
    """A refusal: HTTP status and the fields of vLLM's error body."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.param = param

    def body(self) -> bytes:
        """The JSON body."""
        error = {"message": str(self), "type": self.kind, "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": error})


@dataclass(frozen=True, slots=True)
class Generation:
    """What a request asks for."""

    chat: bool
    prompts: tuple[int, ...]  # tokens of each prompt; a chat has one
    n: int  # answers for each prompt
    output: int  # tokens of each answer
    finish_reason: FinishReason
    stream: bool
    include_usage: bool


class Delta(NamedTuple):
    """One token of one choice; `last` when it is the choice's last."""

    choice: int
    position: int
    last: bool


def word(choice: int, position: int) -> str:
    """The text of a token: from the second on with the space before it."""
    text = WORDS[(choice * 7 + position) % len(WORDS)]
    return f" {text}" if position else text


def read_request(body: bytes, *, chat: bool, model: str) -> Generation:
    """Read a request body for an engine that serves `model`. ApiError 400 or 404 says what is wrong."""
    try:
        fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, "Bad Request", f"1 validation error: JSON decode error: {error}", "body") from None
    if not isinstance(fields, dict):
        raise ApiError(400, "Bad Request", "1 validation error: the body must be a JSON object", "body")
    asked = fields.get("model")
    if asked is not None and asked != model:
        message = f"The model `{asked}` does not exist. Valid aliases: {model}."
        raise ApiError(404, "NotFoundError", message, "model")
    limits = [_count(fields, name) for name in ("max_completion_tokens", "max_tokens")]
    output = next((limit for limit in limits if limit is not None), None)
    n = _count(fields, "n") or 1
    if n > MAX_N:
        raise _bad("n", f"n must be at most {MAX_N}, got {n}.")
    options = fields.get("stream_options")
    return Generation(
        chat=chat,
        prompts=(_chat_tokens(fields.get("messages")),) if chat else _prompts(fields.get("prompt")),
        n=n,
        output=DEFAULT_OUTPUT if output is None else output,
        finish_reason="stop" if output is None else "length",
        stream=fields.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
    )


def _bad(param: str, message: str) -> ApiError:
    return ApiError(400, "BadRequestError", message, param)


def _count(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _bad(name, f"{name} must be a whole number, got {value!r}.")
    if value < 1:
        raise _bad(name, f"{name} must be at least 1, got {value}. (parameter={name}, value={value})")
    return value


def _text_tokens(text: str) -> int:
    return max(1, -(-len(text.encode()) // 4))


def _chat_tokens(messages: object) -> int:
    """Tokens of all texts of all messages together; content may be a string, a list of parts, or null."""
    if not isinstance(messages, list) or not messages:
        raise _bad("messages", "messages must be a list of at least one message.")
    texts = []
    for message in messages:
        if not isinstance(message, dict):
            raise _bad("messages", "each message must be an object.")
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        texts += [part.get("text") for part in parts if isinstance(part, dict)]
    return _text_tokens("".join(text for text in texts if isinstance(text, str)))


def _prompts(prompt: object) -> tuple[int, ...]:
    """Tokens of each prompt: a string, a list of strings, a list of token ids, or a list of such lists."""
    if isinstance(prompt, str):
        return (_text_tokens(prompt),)
    if isinstance(prompt, list) and prompt:
        if all(isinstance(item, str) for item in prompt):
            return tuple(_text_tokens(item) for item in prompt)
        if all(type(item) is int for item in prompt):
            return (len(prompt),)
        if all(isinstance(item, list) and item and all(type(i) is int for i in item) for item in prompt):
            return tuple(len(item) for item in prompt)
    raise _bad("prompt", "prompt must be a string, a list of strings, or token ids.")


class Shape:
    """The answers to one request: its id, its instant (Unix seconds) and its model, in every chunk."""

    def __init__(self, generation: Generation, *, number: str, created: int, model: str) -> None:
        self.generation = generation
        kind = ("chatcmpl", "chat.completion") if generation.chat else ("cmpl", "text_completion")
        self._head: dict[str, Any] = {"id": f"{kind[0]}-{number}", "object": kind[1], "created": created}
        self._head["model"] = model
        self._chunk_head = {**self._head, "object": f"{kind[1]}.chunk"} if generation.chat else self._head

    def opening(self) -> bytes:
        """The role chunks that vLLM sends with the first token of a chat; nothing for completions."""
        if not self.generation.chat:
            return b""
        delta = {"role": "assistant", "content": ""}
        return b"".join(
            self._event([{"index": index, "delta": delta, "logprobs": None, "finish_reason": None}], {})
            for index in range(self.generation.n)
        )

    def token(self, delta: Delta, fingerprint: str | None) -> bytes:
        """One token's chunk; `fingerprint` is given when it is the last JSON chunk of the stream."""
        text = word(delta.choice, delta.position)
        choice: dict[str, Any] = {"index": delta.choice}
        choice |= {"delta": {"content": text}} if self.generation.chat else {"text": text}
        choice |= {"logprobs": None, "finish_reason": self.generation.finish_reason if delta.last else None}
        if delta.last or not self.generation.chat:
            choice["stop_reason"] = None
        choice["token_ids"] = None
        return self._event([choice], {} if fingerprint is None else {"system_fingerprint": fingerprint})

    def usage(self, completion: int, fingerprint: str) -> bytes:
        """The usage chunk that ends a stream which asked for it."""
        return self._event([], {"usage": self._usage(completion), "system_fingerprint": fingerprint})

    def whole(self, tokens: Sequence[int], fingerprint: str) -> bytes:
        """The plain JSON answer; `tokens` are the tokens written for each choice."""
        choices = []
        for index, count in enumerate(tokens):
            text = "".join(word(index, position) for position in range(count))
            said = {"message": {"role": "assistant", "content": text}} if self.generation.chat else {"text": text}
            end = {"logprobs": None, "finish_reason": self.generation.finish_reason, "stop_reason": None}
            choices.append({"index": index, **said, **end})
        tail = {"system_fingerprint": fingerprint, "usage": self._usage(sum(tokens))}
        return msgspec.json.encode({**self._head, "choices": choices, **tail})

    def _usage(self, completion: int) -> dict[str, int]:
        prompt = sum(self.generation.prompts)
        return {"prompt_tokens": prompt, "total_tokens": prompt + completion, "completion_tokens": completion}

    def _event(self, choices: list[dict[str, Any]], tail: dict[str, Any]) -> bytes:
        return b"data: " + msgspec.json.encode({**self._chunk_head, "choices": choices, **tail}) + b"\n\n"
