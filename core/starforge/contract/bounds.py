"""Sizes that both ends agree on: how much travels at once to ingest, which secrets are masked, how large numbers are.

It enters foreign images and is imported by every training: no import of its own, Python 3.8 and newer.
"""

BODY_BYTES = 1 << 20
"""The most that ingest takes in one request."""
LINE_BYTES = 1 << 20
"""The longest line, with its end, that a training reports and that the runner reads."""
MASKED_BYTES = 8
"""A shorter secret is not masked: it would hide ordinary words."""
LARGEST_NUMBER = 1 << 53
"""The largest whole number that every reader of JSON keeps: no id, place or step of a cursor is beyond it."""
