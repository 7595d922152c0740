"""What a container tells about itself, without the secrets that it may have put into its words. Pure.

Values that the job was given are known and go out whole. A job may also quote a secret that nobody here knows; those
are known by the shapes in which tokens are handed out.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Final

from starforge.contract.capsule import ExitRecord

MASK: Final = "***"
LINE_BOUND: Final = 200
_FEW: Final = 64
"""Each of so many words is looked for by itself; of more, places are found by their first characters."""

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


class Words:
    """Words that must not be seen, made ready to be looked for often. Where two overlap, both are hidden whole.

    A key of many lines is thousands of words: how long a look takes depends on the text, and not on their number.
    """

    def __init__(self, words: Collection[str]) -> None:
        self._words = sorted({word for word in words if word}, key=len, reverse=True)
        self._head_size = len(self._words[-1]) if self._words else 0
        by_head = sorted(self._words, key=self._find_head) if len(self._words) > _FEW else []
        self._by_head = {head: tuple(found) for head, found in groupby(by_head, self._find_head)}

    @property
    def longest_bytes(self) -> int:
        """The length of the longest word, in UTF-8, or more."""
        return 4 * len(self._words[0]) if self._words else 0

    def hide(self, text: str) -> str:
        """`text` without them."""
        places = self._find_by_heads(text) if self._by_head else self._find_each(text)
        shown, done, hidden_to = [], 0, -1
        for start, end in places:
            if start >= hidden_to:  # what overlaps is one
                shown += [text[done:start], MASK]
            done = hidden_to = max(end, hidden_to)
        return "".join(shown) + text[done:]

    def _find_head(self, word: str) -> str:
        return word[: self._head_size]

    def _find_each(self, text: str) -> list[tuple[int, int]]:
        return sorted(place for word in self._words for place in _find_all(text, word))

    def _find_by_heads(self, text: str) -> Iterator[tuple[int, int]]:
        size = self._head_size
        for at in range(len(text) - size + 1):
            for word in self._by_head.get(text[at : at + size], ()):
                if text.startswith(word, at):
                    yield at, at + len(word)
                    break  # the longest that begins there comes first


def mask_text(text: str, secrets: Words) -> str:
    """`text` with every one of `secrets`, and whatever has the shape of a token, replaced; itself where it has none.

    A sentence whose text holds a secret loses its code and the values, in which the secret stands.
    """
    masked = _SHAPES.sub(MASK, secrets.hide(text))
    return text if masked == text else masked


def mask_record(record: ExitRecord, secrets: Words) -> ExitRecord:
    """`record` with its words masked, and its last line no longer than a runner makes it."""
    return replace(
        record, message=_mask(record.message, secrets), last_line=_mask(record.last_line, secrets, LINE_BOUND)
    )


def _mask(text: str | None, secrets: Words, bound: int | None = None) -> str | None:
    return None if text is None else mask_text(text, secrets)[:bound]


def _find_all(text: str, word: str) -> Iterator[tuple[int, int]]:
    at = text.find(word)
    while at >= 0:
        yield at, at + len(word)
        at = text.find(word, at + 1)
