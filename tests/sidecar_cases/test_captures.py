"""Every chat and completions capture through the real sidecar: same bytes, and the outcome and counts of its golden."""

import json
from pathlib import Path

import pytest

from tests.capture import keys, load
from tests.fixtures_wire import StartReplay
from tests.raw_client import RawClient
from tests.replay import followed_by
from tests.sidecar_cases.running import StartSidecar

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.mark.parametrize("key", keys())
async def test_a_capture_passes_untouched_and_is_counted(
    key: str, start_replay: StartReplay, start_sidecar: StartSidecar
) -> None:
    capture = load(key)
    golden = json.loads((GOLDEN / f"{key}.json").read_text())
    clients: list[RawClient] = []
    engine = await start_replay(capture, pace=followed_by(lambda: clients[0]))
    sidecar = await start_sidecar(engine.port)
    async with await RawClient.connect(sidecar.port) as client:
        clients.append(client)
        await client.send(capture.request)
        if capture.complete:
            await client.response()
        else:
            await client.until(lambda: client.received.endswith(capture.raw[-200:]))
    metrics = await sidecar.idle(1)
    assert _without_hop_by_hop(capture.raw) == client.received
    assert metrics.total("requests_total", outcome=golden["outcome"]) == 1
    assert metrics.total("requests_started_total") == 1
    assert metrics.total("output_events_total") == golden["output_events"]
    assert metrics.total("output_tokens_total") == (golden["output_tokens"] or 0)
    assert metrics.total("time_to_first_token_seconds_count") == (golden["ttft_ns"] is not None)
    assert metrics.total("tap_faults_total") == 0


def _without_hop_by_hop(raw: bytes) -> bytes:
    head, blank, body = raw.partition(b"\r\n\r\n")
    hop = (b"connection:", b"keep-alive:")
    return b"\r\n".join(line for line in head.split(b"\r\n") if not line.lower().startswith(hop)) + blank + body
