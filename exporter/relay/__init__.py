"""The data plane: relays every byte untouched and hands the tap a stamped copy. Nothing here knows what a token is."""
