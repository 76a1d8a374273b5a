"""`stallwatch simulate`: the scheduling model on virtual time, as a table with one line per prefill chunk."""

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from exporter.cli import knobs
from exporter.cli.failure import CommandError
from exporter.cli.options import counts, nanoseconds

if TYPE_CHECKING:
    from exporter.lab.simulate import Outcome

COLUMNS = ("chunk", "rounds", "max gap ms", "prefill done ms")


class Format(StrEnum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"


def simulate(
    *,
    prompt: knobs.Prompt = 4096,
    chunks: knobs.Chunks = "4096,1024,256",
    decoders: knobs.Decoders = 2,
    decode_prompt: knobs.DecodePrompt = 1,
    max_num_batched_tokens: knobs.Budget = 8192,
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
    format: Annotated[Format, typer.Option(help="How to print the result.")] = Format.TABLE,
) -> None:
    """Simulate one long prompt that arrives beside decoding requests, once per prefill chunk.

    A model on virtual time, not a benchmark: it shows how the size of the prefill share of a step trades the longest
    gap of those who decode against the prompt's own wait. Its costs are parameters, not measurements.

    --chunks caps the prompt tokens of a step. --max-num-batched-tokens is another thing: the engine's total budget of a
    step, which decode tokens share. --max-num-seqs and the KV blocks limit further. The smallest limit counts.
    """
    from exporter.lab.cost import CostModel
    from exporter.lab.scheduler import Limits
    from exporter.lab.simulate import Scene, run_chunk

    scene = Scene(
        prompt=prompt,
        decoders=decoders,
        decode_prompt=decode_prompt,
        limits=Limits(max_num_batched_tokens=max_num_batched_tokens, max_num_seqs=max_num_seqs),
        cost=CostModel(
            overhead=nanoseconds(overhead_ms),
            decode=nanoseconds(decode_ms),
            prefill=nanoseconds(prefill_ms),
            decode_per_sequence=nanoseconds(decode_ms_per_sequence),
            decode_history=nanoseconds(decode_history_ms),
            prefill_history=nanoseconds(prefill_history_ms),
            prefill_attention=nanoseconds(prefill_attention_ms),
        ),
        block_size=block_size,
        num_blocks=num_blocks,
    )
    try:
        outcomes = [run_chunk(scene, chunk) for chunk in counts(chunks)]
    except ValueError as error:
        raise CommandError("simulate", f"option --num-blocks: expected a larger KV cache: {error}", status=2) from None
    typer.echo(as_json(outcomes) if format is Format.JSON else as_table(outcomes))


def as_table(outcomes: "list[Outcome]") -> str:
    """The outcomes as aligned text, two spaces between columns."""
    rows = [COLUMNS] + [(str(o.chunk), str(o.rounds), _ms(o.max_gap), _ms(o.prefill_done)) for o in outcomes]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    return "\n".join("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def as_json(outcomes: "list[Outcome]") -> str:
    """The outcomes as a JSON list; durations in ms, null where there was no gap."""
    rows = [
        {
            "chunk": o.chunk,
            "rounds": o.rounds,
            "max_gap_ms": None if o.max_gap is None else o.max_gap / 1e6,
            "prefill_done_ms": o.prefill_done / 1e6,
        }
        for o in outcomes
    ]
    return json.dumps(rows, indent=2)


def _ms(duration: int | None) -> str:
    """Ns as ms without trailing zeros, but with one decimal at least; `-` when there is none."""
    if duration is None:
        return "-"
    whole, fraction = divmod(duration, 1_000_000)
    return f"{whole}.{f'{fraction:06d}'.rstrip('0') or '0'}"
