"""Finds what a reader of the Chinese pages would have to read in English."""

import re
from html.parser import HTMLParser
from typing import Final

RUN: Final = re.compile(r"[A-Za-z][A-Za-z'-]*(?:[\s,;:.()]+[A-Za-z][A-Za-z'-]*){3,}")
"""Four or more words in Latin letters with nothing of another script between them."""
_QUOTED: Final = frozenset({"code", "pre", "script", "style", "kbd", "textarea", "option"})
_VOID: Final = frozenset({"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "use", "wbr"})
_SPOKEN: Final = ("title", "aria-label", "placeholder", "alt", "data-none", "data-failed")


def find_english(page: str) -> list[str]:
    """Every run of four or more English words that `page` shows or speaks, but for code and what is marked as
    no matter of translation.
    """
    reader = _Reader()
    reader.feed(page)
    return [found[0] for text in reader.texts for found in RUN.finditer(text)]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = [""]
        self._open: list[tuple[str, bool]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts += [value for name, value in attrs if value and name in _SPOKEN]
        self.texts.append("")
        if tag not in _VOID:
            self._open.append((tag, tag in _QUOTED or ("translate", "no") in attrs))

    def handle_endtag(self, tag: str) -> None:
        self.texts.append("")
        while any(one == tag for one, _ in self._open) and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        if not any(is_quoted for _, is_quoted in self._open):
            self.texts[-1] += data
