"""What a token looks like at rest: its hash, and nothing else of it."""

import hashlib


def hash_token(token: str) -> str:
    """The hash under which `token` is kept: lower-case hexadecimal SHA-256.

    A token is 256 random bits, so a plain hash cannot be searched; a slow one would only slow down every request.
    """
    return hashlib.sha256(token.encode()).hexdigest()
