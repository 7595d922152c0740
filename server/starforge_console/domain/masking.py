"""What a container tells about itself, without the secrets that it may have put into its words. Pure.

Values that the job was given are known and go out whole. A job may also quote a secret that nobody here knows; those
are known by the shapes in which tokens are handed out.
"""

import re
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from starforge.contract.capsule import ExitRecord

MASK: Final = "***"
LINE_BOUND: Final = 200

_SHAPES: Final = re.compile(
    r"""
    (?<![A-Za-z0-9])
    (?:
        sf[a-z]?_[\w-]{20,}              # this console's own
      | hf_[A-Za-z0-9]{20,}              # Hugging Face
      | gh[a-z]_[A-Za-z0-9]{20,} | github_pat_\w{20,} | glpat-[\w-]{20,}
      | sk-[\w-]{20,} | xox[a-z]-[\w-]{10,}
      | (?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Z0-9])
      | eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}
    )
    | (?<=://)[^\s/@]+(?=@)              # the user's part of an address
    | (?<=[Bb]earer\ )[\w.~+/=-]{16,}
    """,
    re.VERBOSE | re.ASCII,
)


def mask_text(text: str, secrets: Collection[str]) -> str:
    """`text` with every one of `secrets`, and whatever has the shape of a token, replaced."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):  # one may be the beginning of another
        text = text.replace(secret, MASK)
    return _SHAPES.sub(MASK, text)


def mask_record(record: ExitRecord, secrets: Collection[str]) -> ExitRecord:
    """`record` with its words masked, and its last line no longer than a runner makes it."""
    return replace(
        record, message=_mask(record.message, secrets), last_line=_mask(record.last_line, secrets, LINE_BOUND)
    )


def _mask(text: str | None, secrets: Collection[str], bound: int | None = None) -> str | None:
    return None if text is None else mask_text(text, secrets)[:bound]
