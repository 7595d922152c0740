"""Sizes that a job and its console agree on: how much travels at once to ingest, and which secrets are masked.

It enters foreign images and is imported by every training: no import of its own, Python 3.8 and newer.
"""

BODY_BYTES = 1 << 20
"""The most that ingest takes in one request."""
LINE_BYTES = 1 << 20
"""The longest line, with its end, that a training reports and that the runner reads."""
MASKED_BYTES = 8
"""A shorter secret is not masked: it would hide ordinary words."""
