"""The data plane: relays every byte untouched and hands the tap a copy with its stamp. Nothing here knows what a token is."""
