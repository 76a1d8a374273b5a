"""`stallwatch engine`: the simulated engine as a server."""

import typer

from exporter.cli import knobs
from exporter.cli.failure import CommandError
from exporter.cli.options import nanoseconds


def engine(
    *,
    host: knobs.Host = "127.0.0.1",
    port: knobs.Port = 8000,
    model: knobs.Model = "sim",
    max_model_len: knobs.MaxModelLen = 131_072,
    max_num_batched_tokens: knobs.Budget = 8192,
    prefill_chunk: knobs.PrefillChunk = None,
    max_num_seqs: knobs.MaxSeqs = 256,
    block_size: knobs.BlockSize = 16,
    num_blocks: knobs.NumBlocks = 65_536,
    overhead_ms: knobs.Overhead = 0.5,
    decode_ms: knobs.Decode = 4,
    decode_ms_per_sequence: knobs.DecodeEach = 0,
    prefill_ms: knobs.Prefill = 64,
    decode_history_ms: knobs.DecodeHistory = 0,
    prefill_history_ms: knobs.PrefillHistory = 0,
    prefill_attention_ms: knobs.PrefillAttention = 0,
) -> None:
    """Serve a simulated engine in real time: OpenAI's API, vLLM's metrics, made-up words.

    A model, not a benchmark: a step takes as long as its cost parameters say, and nothing is computed. Each step gives
    every running sequence one token first and the rest of its token budget to prefill, so a large budget shows as long
    gaps of those who decode, and a small one as a longer wait of those who begin.

    For demos the budget changes while it runs: POST /admin/budget {"max_num_batched_tokens": 512}. A prompt counts one
    token for each 4 bytes of text.
    """
    import uvloop

    from exporter.lab.cost import CostModel
    from exporter.lab.engine import Engine
    from exporter.lab.scheduler import Limits, Scheduler
    from exporter.lab.serve import serve

    limits = Limits(max_num_batched_tokens, prefill_chunk, max_num_seqs)
    cost = CostModel(
        overhead=nanoseconds(overhead_ms),
        decode=nanoseconds(decode_ms),
        prefill=nanoseconds(prefill_ms),
        decode_per_sequence=nanoseconds(decode_ms_per_sequence),
        decode_history=nanoseconds(decode_history_ms),
        prefill_history=nanoseconds(prefill_history_ms),
        prefill_attention=nanoseconds(prefill_attention_ms),
    )
    scheduler = Scheduler(limits, cost, block_size=block_size, num_blocks=num_blocks)

    def ready(address: str) -> None:
        typer.echo(f"stallwatch engine: listening on {address}, model {model}", err=True)

    async def run() -> None:
        await serve(Engine(scheduler, model=model, max_model_len=max_model_len), host, port, ready)

    try:
        uvloop.run(run())
    except OSError as error:
        wanted = "option --port: expected an address that is free"
        raise CommandError("engine", f"{wanted}, {host}:{port} is not: {error.strerror or error}", status=2) from None
