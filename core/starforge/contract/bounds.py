"""How much travels at once between a job and ingest, agreed by those who write and those who take.

It enters foreign images and is imported by every training: no import of its own, Python 3.8 and newer.
"""

BODY_BYTES = 1 << 20
"""The most that ingest takes in one request."""
LINE_BYTES = 1 << 20
"""The longest line, with its end, that a training reports and that the runner reads."""
