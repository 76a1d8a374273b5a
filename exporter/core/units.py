"""Durations are int nanoseconds of one monotonic clock; these are the words for them."""

MILLISECOND = 1_000_000
SECOND = 1_000_000_000

# Longer than any duration: the limit of a class that promises none (292 years).
NEVER = 1 << 63
