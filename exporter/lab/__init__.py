"""The bench: a simulated engine and load, to see the trade-off without a GPU. A model, not a benchmark."""
