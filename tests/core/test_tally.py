"""Token counts, ITL and TPOT, through the tap."""

import pytest

from tests.core.drive import (
    DONE,
    FIN,
    ROLE,
    USAGE,
    C,
    board,
    event,
    ids,
    running,
    seconds,
    stream,
    total,
)

ITL = "inter_token_latency_seconds"
TPOT = "time_per_output_token_seconds"


def test_itl_from_token_ids_once_per_arrival() -> None:
    on = board()
    reads = [(1, ids("a", 1)), (1.1, ids("b", 2) + ids("c", 3, 4)), (1.2, ids("d", 5)), (1.2, FIN() + DONE)]
    stream(on, reads, 1.2)
    assert total(on, ITL) == 2
    assert seconds(on, ITL) == pytest.approx(0.1 / 3 + 0.1)
    assert total(on, "output_tokens_total") == 5
    assert seconds(on, TPOT) == 0.05


def test_itl_from_running_usage() -> None:
    on = board()
    role = event('{"choices":[{"index":0,"delta":{"role":"assistant"}}],"usage":{"completion_tokens":0}}')
    reads = [(1, role), (1, running("a", 1)), (1.1, running("b", 3)), (1.15, running("", 4)), (1.2, running("c", 5))]
    stream(on, [*reads, (1.2, FIN() + USAGE(5) + DONE)], 1.2)
    assert total(on, ITL) == 2
    assert seconds(on, ITL) == pytest.approx(0.1 / 2 + 0.1 / 2)
    assert total(on, "prompt_tokens_total") == 10
    assert total(on, "output_tokens_total") == 5


def test_itl_is_not_guessed_over_an_arrival_without_a_count() -> None:
    on = board()
    reads = [
        (1, running("a", 1)),
        (1.1, C("b")),
        (1.2, running("c", 3)),
        (1.3, running("d", 4)),
        (1.4, running("e", 4)),
    ]
    stream(on, [*reads, (1.4, FIN())], 1.4)
    assert (total(on, ITL), seconds(on, ITL)) == (1, 0.1)


def test_token_ids_that_are_missing_once_are_no_count() -> None:
    on = board()
    stream(on, [(1, ids("a", 1)), (1.1, C("b")), (1.2, ids("c", 3)), (1.2, FIN())], 1.2)
    assert total(on, "output_tokens_total") == total(on, TPOT) == 0
    assert total(on, "requests_without_usage_total") == 1


def test_the_last_count_wins_and_the_requests_overrides() -> None:
    on = board()
    reads = [(1, running("a", 1)), (1.1, running("b", 2)), (1.1, USAGE(3) + USAGE(7) + FIN() + DONE)]
    stream(on, reads, 1.1)
    assert total(on, "output_tokens_total") == 7


def test_per_choice_counts_are_summed_and_the_largest_tpot_counts() -> None:
    on = board()
    reads = [(1, running("a", 1, 0) + running("x", 1, 1)), (1.1, running("b", 2, 0)), (1.3, running("y", 3, 1))]
    stream(on, [*reads, (1.3, FIN(0) + FIN(1))], 1.3)
    assert total(on, "output_tokens_total") == 5
    assert (total(on, TPOT), seconds(on, TPOT)) == (1, 0.15)


def test_several_choices_with_one_count_for_all_have_no_tpot() -> None:
    on = board()
    reads = [(1, C("a", 0) + C("x", 1)), (1.1, C("b", 0) + C("y", 1)), (1.1, FIN(0) + FIN(1) + USAGE(4))]
    stream(on, reads, 1.1)
    assert (total(on, TPOT), total(on, "output_tokens_total")) == (0, 4)
    on = board()
    stream(on, [(1, running("a", 1, 0) + running("x", 1, 1)), (1.1, FIN(0) + FIN(1))], 1.1)
    assert (total(on, TPOT), total(on, "output_tokens_total")) == (0, 2)
    on = board()
    stream(on, [(1, running("a", 1, 0) + C("x", 1)), (1.1, FIN(0) + FIN(1))], 1.1)
    assert (total(on, TPOT), total(on, "output_tokens_total")) == (0, 0)


def test_usage_without_a_token_is_still_usage() -> None:
    on = board()
    stream(on, [(1, ROLE + FIN() + USAGE(1))], 1.1)
    assert (total(on, "output_tokens_total"), total(on, TPOT)) == (1, 0)


def test_a_count_after_an_error_counts() -> None:
    on = board()
    stream(on, [(1, C("a") + event('{"error":"x"}') + USAGE(1) + DONE)], 1.1)
    assert (total(on, "prompt_tokens_total"), total(on, "output_tokens_total")) == (10, 1)


def test_invalid_counts_are_ignored_and_counted() -> None:
    on = board()
    stream(on, [(1, C("a") + FIN() + USAGE(2) + USAGE(-1) + USAGE(1.5))], 1.1)
    assert total(on, "output_tokens_total") == 2
    assert total(on, "invalid_samples_total", reason="negative") == 1
    assert total(on, "invalid_samples_total", reason="fractional") == 1
