"""The simulated engine as an HTTP server: vLLM's OpenAI endpoints, its metrics, and an admin call of its own for demos.

POST /v1/chat/completions, /v1/completions    streamed or not; a client that leaves cancels its request
GET  /v1/models, /health, /version, /metrics
GET  /admin/budget                            the limits of a step now in force
POST /admin/budget {"max_num_batched_tokens": 512}    change them from the next step on; also `max_num_seqs` and
                                                      `prefill_chunk` (null: no cap). Real engines have no such call.
"""

import time
from contextlib import suppress
from dataclasses import asdict, fields, replace
from uuid import uuid4

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from exporter import __version__
from exporter.lab.engine import Answer, Engine
from exporter.lab.engine_metrics import CONTENT_TYPE
from exporter.lab.openai_api import DONE, ApiError, Shape, read_request
from exporter.lab.scheduler import Limits

MAX_BODY = 64 << 20  # bytes; a prompt of a million tokens fits


def build_app(engine: Engine) -> web.Application:
    """The server's application. It needs a runner with `handler_cancellation`, else a client's leaving is not seen."""
    app = web.Application(client_max_size=MAX_BODY, middlewares=[_errors])
    served = _Served(engine)
    app.add_routes(
        [
            web.post("/v1/chat/completions", served.generate),
            web.post("/v1/completions", served.generate),
            web.get("/v1/models", served.models),
            web.get("/health", served.health),
            web.get("/version", served.version),
            web.get("/metrics", served.metrics),
            web.get("/admin/budget", served.budget),
            web.post("/admin/budget", served.change_budget),
        ]
    )
    return app


@web.middleware
async def _errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn refusals into vLLM's bodies."""
    try:
        return await handler(request)
    except ApiError as error:
        return _json(error.body(), error.status)
    except web.HTTPException as error:
        return _json(msgspec.json.encode({"detail": error.reason}), error.status)


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")


class _Served:
    """The handlers of one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.started = int(time.time())

    async def generate(self, request: web.Request) -> web.StreamResponse:
        """Chat and completions."""
        body, chat = await request.read(), request.path == "/v1/chat/completions"
        generation = read_request(body, chat=chat, model=self.engine.model)
        shape = Shape(generation, number=uuid4().hex[:16], created=int(time.time()), model=self.engine.model)
        try:
            answer = self.engine.submit(generation)
        except ValueError as error:
            raise ApiError(400, "BadRequestError", str(error), "prompt") from None
        try:
            return await (self._stream(request, answer, shape) if generation.stream else self._whole(answer, shape))
        finally:
            self.engine.cancel(answer)

    async def _stream(self, request: web.Request, answer: Answer, shape: Shape) -> web.StreamResponse:
        """Send the head at once, then what each step brought in one write."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        usage = answer.generation.include_usage
        left, tokens = answer.choices, 0
        with suppress(ConnectionResetError):
            await response.prepare(request)
            while left:
                parts = [] if tokens else [shape.opening()]
                for delta in await answer.take():
                    tokens += 1
                    left -= delta.last
                    parts.append(shape.token(delta, None if left or usage else self.engine.fingerprint))
                if not left:
                    parts += [shape.usage(tokens, self.engine.fingerprint)] if usage else []
                    parts.append(DONE)
                await response.write(b"".join(parts))
            await response.write_eof()
        return response

    async def _whole(self, answer: Answer, shape: Shape) -> web.Response:
        tokens = [0] * answer.choices
        left = answer.choices
        while left:
            for delta in await answer.take():
                tokens[delta.choice] += 1
                left -= delta.last
        return _json(shape.whole(tokens, self.engine.fingerprint))

    async def models(self, _request: web.Request) -> web.Response:
        """The one model."""
        name = self.engine.model
        model = {"id": name, "object": "model", "created": self.started, "owned_by": "stallwatch", "root": name}
        model |= {"parent": None, "max_model_len": self.engine.max_model_len, "permission": []}
        return _json(msgspec.json.encode({"object": "list", "data": [model]}))

    async def health(self, _request: web.Request) -> web.Response:
        """Always well."""
        return web.Response()

    async def version(self, _request: web.Request) -> web.Response:
        """Whose version this is, in vLLM's shape."""
        return _json(msgspec.json.encode({"version": f"{__version__}+stallwatch.sim"}))

    async def metrics(self, _request: web.Request) -> web.Response:
        """Text format 0.0.4."""
        return web.Response(body=self.engine.metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    async def budget(self, _request: web.Request) -> web.Response:
        """The limits in force."""
        return _json(msgspec.json.encode(asdict(self.engine.scheduler.limits)))

    async def change_budget(self, request: web.Request) -> web.Response:
        """Change some of the limits; 400 and no change when any of them is wrong."""
        limits = self.engine.scheduler.limits
        self.engine.scheduler.limits = _changed(limits, await request.read())
        return await self.budget(request)


def _changed(limits: Limits, body: bytes) -> Limits:
    """The limits with the fields of this JSON object. ApiError 400 names the wrong one."""
    names = [field.name for field in fields(Limits)]
    try:
        wanted = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        wanted = None
    if not isinstance(wanted, dict) or not wanted:
        raise ApiError(400, "BadRequestError", f"expected a JSON object with some of {', '.join(names)}")
    for name, value in wanted.items():
        if name not in names:
            raise ApiError(400, "BadRequestError", f"{name}: expected one of {', '.join(names)}", name)
        if type(value) is not int and not (value is None and name == "prefill_chunk"):
            raise ApiError(400, "BadRequestError", f"{name}: expected a whole number of at least 1, got {value}", name)
    try:
        return replace(limits, **wanted)
    except ValueError as error:
        raise ApiError(400, "BadRequestError", str(error)) from None
