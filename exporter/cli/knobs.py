"""The options that the simulated engine and `simulate` share: limits, KV cache and step cost, each with its help."""

from typing import Annotated, Any

import typer

from exporter.cli.options import count, milliseconds


def _count(name: str, help_text: str) -> Any:
    return typer.Option(name, parser=count, metavar="N", help=help_text)


def _cost(name: str, help_text: str) -> Any:
    return typer.Option(name, parser=milliseconds, metavar="MS", help=help_text)


Budget = Annotated[
    int,
    _count(
        "--max-num-batched-tokens",
        "Total token budget of a step, shared by decodes (one token each, served first) and prefill.",
    ),
]
MaxSeqs = Annotated[int, _count("--max-num-seqs", "Most sequences running at once; others wait.")]
BlockSize = Annotated[int, _count("--block-size", "Tokens in a block of the KV cache.")]
NumBlocks = Annotated[int, _count("--num-blocks", "Blocks in the KV cache; when they run out, decodes are preempted.")]
Overhead = Annotated[float, _cost("--overhead-ms", "Cost of every step.")]
Decode = Annotated[float, _cost("--decode-ms", "Cost of a step with at least one decoding sequence.")]
DecodeEach = Annotated[float, _cost("--decode-ms-per-sequence", "Added for each decoding sequence.")]
Prefill = Annotated[float, _cost("--prefill-ms", "Cost of 4096 prompt tokens.")]
DecodeHistory = Annotated[
    float, _cost("--decode-history-ms", "Attention: cost of 1024 tokens of context of the decoding sequences.")
]
PrefillHistory = Annotated[
    float, _cost("--prefill-history-ms", "Attention: cost of 1024 tokens of history that a prefill chunk reads back.")
]
PrefillAttention = Annotated[
    float, _cost("--prefill-attention-ms", "Attention: cost of 2^20 pairs of a prompt token and one it attends to.")
]
