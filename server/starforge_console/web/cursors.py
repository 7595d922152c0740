"""Cursors: where a list goes on, as a text that only the list itself reads. Pure."""

import base64

from starforge.errors import InputError


def encode_place(place: str) -> str:
    """The cursor that stands for a place."""
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def decode_place(cursor: str) -> str:
    """The place that a cursor stands for. Raises InputError."""
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True).decode()
    except ValueError:
        raise refuse_cursor(cursor) from None


def refuse_cursor(cursor: str) -> InputError:
    """What is said of a text that is no cursor, or one of another list."""
    return InputError(f"{cursor[:100]!r} is no cursor", next_step="pass on the 'next' of a list as it was given")
