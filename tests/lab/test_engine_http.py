"""The simulated engine over real loopback sockets: streams, refusals, cancels, metrics, and the budget call."""

import asyncio
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import aiohttp
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from exporter.lab.cost import CostModel
from exporter.lab.engine import Engine
from exporter.lab.scheduler import Limits, Scheduler
from exporter.lab.serve import serving

QUICK = CostModel(overhead=100_000, decode=900_000, prefill=4_000_000)
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hello there"}], "max_tokens": 4}


class Bench(NamedTuple):
    engine: Engine
    session: aiohttp.ClientSession
    address: str

    async def post(self, path: str, fields: object) -> tuple[int, Any]:
        async with self.session.post(self.address + path, json=fields) as response:
            return response.status, await response.json()

    async def stream(self, path: str, fields: object) -> list[Any]:
        async with self.session.post(self.address + path, json=fields) as response:
            assert response.status == 200
            assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
            body = await response.read()
        *parts, end = body.split(b"\n\n")
        assert end == b""
        assert parts.pop() == b"data: [DONE]"
        return [json.loads(part.removeprefix(b"data: ")) for part in parts]

    async def metrics(self) -> dict[tuple[str, str], float]:
        """(sample name, finished_reason or le) -> value."""
        async with self.session.get(self.address + "/metrics") as response:
            assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            text = await response.text()
        found = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                assert sample.labels["engine"] == "0"
                key = sample.labels.get("finished_reason") or sample.labels.get("le") or ""
                found[sample.name, key] = sample.value
        return found


async def reached(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - the scheduler is pure and wakes nobody
            await asyncio.sleep(0.005)


def engine(cost: CostModel = QUICK, **limits: int) -> Engine:
    return Engine(Scheduler(Limits(**limits), cost), max_model_len=100_000)


@pytest_asyncio.fixture
async def bench() -> AsyncIterator[Bench]:
    subject = engine()
    async with serving(subject, "127.0.0.1", 0) as address, aiohttp.ClientSession() as session:
        yield Bench(subject, session, address)


async def test_chat_stream(bench: Bench) -> None:
    chunks = await bench.stream(
        "/v1/chat/completions", {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    )
    assert [chunk["choices"][0]["delta"] for chunk in chunks[:-1]] == [
        {"role": "assistant", "content": ""},
        {"content": "the"},
        {"content": " sea"},
        {"content": " is"},
        {"content": " wide"},
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[:-1]] == [None] * 4 + ["length"]
    assert chunks[-1]["usage"] == {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4}
    assert [chunk.get("system_fingerprint") for chunk in chunks] == [None] * 5 + [bench.engine.fingerprint]
    assert len({chunk["id"] for chunk in chunks}) == 1


async def test_n_choices_stream_side_by_side(bench: Bench) -> None:
    chunks = await bench.stream("/v1/chat/completions", {**CHAT, "n": 2, "stream": True})
    indexes = [chunk["choices"][0]["index"] for chunk in chunks]
    assert indexes == [0, 1] * 5
    assert [chunk.get("system_fingerprint") for chunk in chunks] == [None] * 9 + [bench.engine.fingerprint]


async def test_completions_of_two_prompts(bench: Bench) -> None:
    fields = {"prompt": ["abcde", "a"], "max_tokens": 2, "stream": True}
    chunks = await bench.stream("/v1/completions", fields)
    assert sorted((chunk["choices"][0]["index"], chunk["choices"][0]["text"]) for chunk in chunks) == [
        (0, " sea"),
        (0, "the"),
        (1, " long"),
        (1, "is"),
    ]


async def test_plain_answers(bench: Bench) -> None:
    status, chat = await bench.post("/v1/chat/completions", CHAT)
    assert status == 200
    assert chat["choices"][0]["message"] == {"role": "assistant", "content": "the sea is wide"}
    _, text = await bench.post("/v1/completions", {"prompt": [1, 2, 3], "max_tokens": 1, "n": 2})
    assert [choice["text"] for choice in text["choices"]] == ["the", "is"]
    assert text["usage"]["prompt_tokens"] == 3


async def test_a_step_is_waited_out_and_the_others_feel_it() -> None:
    subject = engine(CostModel(overhead=0, decode=5_000_000, prefill=400_000_000))
    async with serving(subject, "127.0.0.1", 0) as address, aiohttp.ClientSession() as session:
        bench = Bench(subject, session, address)
        async with session.post(
            f"{address}/v1/chat/completions", json={**CHAT, "max_tokens": 200, "stream": True}
        ) as chat:
            await chat.content.readuntil(b"\n\n")
            long = asyncio.create_task(bench.post("/v1/completions", {"prompt": [1] * 4096, "max_tokens": 1}))
            gaps, last = [], time.monotonic()
            while not long.done() and (await chat.content.readany()):
                now = time.monotonic()
                gaps.append(now - last)
                last = now
            # The step with the whole prompt takes 405 ms; a token before it may have come up to 5 ms late.
            assert max(gaps) > 0.38
            assert (await long)[0] == 200


async def test_a_client_that_leaves_cancels_its_request(bench: Bench) -> None:
    fields = {**CHAT, "max_tokens": 50_000}
    async with bench.session.post(f"{bench.address}/v1/chat/completions", json={**fields, "stream": True}) as response:
        await response.content.readuntil(b"\n\n")
        assert bench.engine.scheduler.running == 1
        response.close()
    await reached(lambda: bench.engine.scheduler.idle)
    plain = asyncio.create_task(bench.post("/v1/chat/completions", fields))
    await reached(lambda: bench.engine.scheduler.running == 1)
    plain.cancel()
    await reached(lambda: bench.engine.scheduler.idle)
    assert bench.engine.scheduler.free_blocks == bench.engine.scheduler.num_blocks
    found = await bench.metrics()
    assert found["vllm:request_success_total", "abort"] == 2
    assert (await bench.post("/v1/chat/completions", CHAT))[0] == 200


async def test_the_budget_changes_while_it_runs(bench: Bench) -> None:
    prompt = {"prompt": [1] * 640, "max_tokens": 1}

    async def steps() -> float:
        before = (await bench.metrics())["vllm:iteration_tokens_total_count", ""]
        await bench.post("/v1/completions", prompt)
        return (await bench.metrics())["vllm:iteration_tokens_total_count", ""] - before

    fingerprint = bench.engine.fingerprint
    assert await steps() == 1
    changed = {"max_num_batched_tokens": 64, "prefill_chunk": None, "max_num_seqs": 256}
    assert await bench.post("/admin/budget", {"max_num_batched_tokens": 64}) == (200, changed)
    async with bench.session.get(f"{bench.address}/admin/budget") as response:
        assert await response.json() == changed
    assert await steps() == 10
    assert bench.engine.fingerprint != fingerprint
    await bench.post("/admin/budget", {"prefill_chunk": 32})
    assert await steps() == 20
    await bench.post("/admin/budget", {"prefill_chunk": None, "max_num_batched_tokens": 8192})
    assert await steps() == 1
    assert bench.engine.fingerprint == fingerprint


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_num_batched_tokens": 0}, "max_num_batched_tokens: expected a whole number of at least 1, got 0"),
        ({"max_num_batched_tokens": True}, "max_num_batched_tokens: expected a whole number"),
        ({"max_num_batched_tokens": "9"}, "max_num_batched_tokens: expected a whole number"),
        ({"max_num_seqs": None}, "max_num_seqs: expected a whole number"),
        ({"max_num_batched_tokens": 9, "tokens": 1}, "tokens: expected one of max_num_batched_tokens"),
        ({}, "expected a JSON object"),
        ([1], "expected a JSON object"),
    ],
)
async def test_a_bad_budget_changes_nothing(bench: Bench, fields: object, message: str) -> None:
    before = bench.engine.scheduler.limits
    status, body = await bench.post("/admin/budget", fields)
    assert status == 400
    assert message in body["error"]["message"]
    assert bench.engine.scheduler.limits == before


async def test_refusals(bench: Bench) -> None:
    async with bench.session.post(f"{bench.address}/v1/chat/completions", data=b'{"mess') as response:
        assert response.status == 400
    async with bench.session.post(f"{bench.address}/admin/budget", data=b"\xff") as response:
        assert response.status == 400
    assert (await bench.post("/v1/chat/completions", {**CHAT, "model": "gpt"}))[0] == 404
    status, body = await bench.post("/v1/completions", {"prompt": [1] * 100_001})
    assert (status, body["error"]["param"]) == (400, "prompt")
    assert "maximum context length is 100000 tokens" in body["error"]["message"]
    async with bench.session.get(f"{bench.address}/nope") as response:
        assert (response.status, await response.json()) == (404, {"detail": "Not Found"})
    assert bench.engine.scheduler.idle


async def test_a_batch_that_can_not_fit_leaves_nothing_behind() -> None:
    subject = Engine(Scheduler(Limits(), QUICK, block_size=4, num_blocks=8))
    async with serving(subject, "127.0.0.1", 0) as address, aiohttp.ClientSession() as session:
        status, body = await Bench(subject, session, address).post("/v1/completions", {"prompt": ["a", "b" * 200]})
    assert status == 400
    assert "KV cache" in body["error"]["message"]
    assert subject.scheduler.idle


async def test_the_small_endpoints(bench: Bench) -> None:
    async with bench.session.get(f"{bench.address}/health") as response:
        assert (response.status, await response.read()) == (200, b"")
    async with bench.session.get(f"{bench.address}/version") as response:
        assert (await response.json())["version"].endswith("+stallwatch.sim")
    async with bench.session.get(f"{bench.address}/v1/models") as response:
        (model,) = (await response.json())["data"]
        assert (model["id"], model["max_model_len"]) == ("sim", 100_000)


async def test_metrics_count_what_happened(bench: Bench) -> None:
    await bench.stream("/v1/chat/completions", {**CHAT, "stream": True})
    await bench.post("/v1/chat/completions", {"messages": CHAT["messages"]})
    found = await bench.metrics()
    assert found["vllm:prompt_tokens_total", ""] == 6
    assert found["vllm:generation_tokens_total", ""] == 4 + 128
    assert found["vllm:request_success_total", "length"] == 1
    assert found["vllm:request_success_total", "stop"] == 1
    assert found["vllm:time_to_first_token_seconds_count", ""] == 2
    assert found["vllm:inter_token_latency_seconds_count", ""] == 3 + 127
    assert found["vllm:request_queue_time_seconds_count", ""] == 2
    assert found["vllm:iteration_tokens_total_sum", ""] == 6 + 3 + 127
    assert found["vllm:num_requests_running", ""] == found["vllm:num_requests_waiting", ""] == 0
    assert found["vllm:kv_cache_usage_perc", ""] == 0
    assert found["vllm:num_preemptions_total", ""] == 0


async def test_preemptions_show_in_metrics_and_lose_no_token() -> None:
    subject = Engine(Scheduler(Limits(), QUICK, block_size=4, num_blocks=8))
    async with serving(subject, "127.0.0.1", 0) as address, aiohttp.ClientSession() as session:
        bench = Bench(subject, session, address)
        fields = {"prompt": [1, 2, 3, 4], "max_tokens": 20, "n": 3, "stream": True}
        chunks = await bench.stream("/v1/completions", fields)
        found = await bench.metrics()
    assert len(chunks) == 60
    assert found["vllm:num_preemptions_total", ""] >= 1
    assert found["vllm:prompt_tokens_total", ""] > 12
    assert found["vllm:request_queue_time_seconds_count", ""] == 3


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is missing (Debian package prometheus)")
async def test_promtool_reads_the_metrics(bench: Bench) -> None:
    await bench.post("/v1/chat/completions", CHAT)
    async with bench.session.get(f"{bench.address}/metrics") as response:
        text = await response.read()
    ended = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)  # noqa: ASYNC221
    # vLLM's own names break two rules of style; nothing else may be said.
    style = ("metric names should not contain ':'", 'non-counter metrics should not have "_total" suffix')
    assert [line for line in ended.stderr.decode().splitlines() if not line.endswith(style)] == []
    assert ended.returncode == 3  # lint remarks, no parse error (1)
