"""The options of the simulated engine and of `simulate`, each with its help: limits, KV cache, step cost, the rest."""

from typing import Annotated, Any

import typer

from exporter.cli.options import count, count_list, milliseconds, port


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

# Of the engine alone.
Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(parser=port, metavar="PORT", help="Port to listen on; 0 takes a free one.")]
Model = Annotated[str, typer.Option(help="Name of the model it claims to serve.")]
MaxModelLen = Annotated[int, _count("--max-model-len", "Most tokens of a prompt and its output together.")]
PrefillChunk = Annotated[
    int | None,
    typer.Option(
        parser=count,
        metavar="N",
        help="Most prompt tokens of a step, over all prefills; not the total budget. Without it only that limits.",
        show_default=False,
    ),
]

# Of simulate alone.
Prompt = Annotated[int, _count("--prompt", "Tokens of the long prompt.")]
Chunks = Annotated[
    str,
    typer.Option(
        parser=count_list,
        metavar="N,N,...",
        help="Prefill caps to compare: the most prompt tokens one step takes. This is not the total token budget.",
    ),
]
Decoders = Annotated[int, _count("--decoders", "Requests that decode when the prompt arrives.")]
DecodePrompt = Annotated[int, _count("--decode-prompt", "Prompt tokens of each decoding request.")]
