"""The words of one language: Babel catalogs whose messages are keyed by code, read directly at start."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from babel import Locale
from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po
from markupsafe import Markup, escape

from starforge.logtext import clean
from starforge.said.catalog import LISTS, MESSAGES
from starforge.said.sentence import Said

LOCALES: Final = Path(__file__).with_name("locale")
ENGLISH: Final = "en"
CHINESE: Final = "zh-Hans"
LANGUAGES: Final[Mapping[str, str]] = MappingProxyType({ENGLISH: "English", CHINESE: "简体中文"})
"""Every language by its tag, with the name that it gives itself."""


class Words:
    """The messages of one language."""

    def __init__(self, language: str, messages: Mapping[str, str]) -> None:
        self.language = language
        self._messages = messages
        self._plural_form = Locale.parse(language, sep="-").plural_form

    def __call__(self, code: str, /, **values: object) -> Markup:
        """The message of `code` as HTML. Raises KeyError.

        Values that are no markup themselves are escaped, and signs in them that reorder or hide become visible.
        """
        message = escape(self._messages[code])
        return message.format(**{name: _clean(value) for name, value in values.items()}) if values else message

    def count(self, code: str, number: int, /, **values: object) -> Markup:
        """The message of `code` for so many things, in the plural form that the language has for them."""
        form = f"{code}.{self._plural_form(number)}"
        return self(form if form in self._messages else f"{code}.other", n=f"{number:,}", **values)

    def text(self, code: str) -> str:
        """The message of `code` as plain text."""
        return self._messages[code]

    def said(self, text: str) -> Markup:
        """A sentence in this language as HTML; in English where it has no code, or the catalog not the code."""
        if self.language == ENGLISH or not isinstance(text, Said) or text.code not in self._messages:
            return escape(clean(text))
        values = {
            name: self.said(value) if isinstance(value, str) else escape(value) for name, value in text.values.items()
        }
        if text.code in LISTS:
            return escape(self._messages[text.code]).join(values.values())
        try:
            return self(text.code, **values)
        except KeyError:  # it was said by another version, with other values
            return escape(clean(text))

    def lang(self, text: str) -> Markup:
        """The attribute of an element that holds `said(text)`: which language that is, where not the page's."""
        is_said = isinstance(text, Said) and text.code in self._messages and self.language != ENGLISH
        return Markup("") if is_said else Markup(' lang="en"')

    def fault(self, what: str, why: str = "", next_step: str = "") -> Markup:
        """What happened, why and what to do next as one sentence, each part in this language where it has a code."""
        parts = ((Markup(""), what), (self("error.because"), why), (self("error.then"), next_step))
        return Markup("").join(sign + self._part(part) for sign, part in parts if part) + self("error.end")

    def _part(self, text: str) -> Markup:
        lang = self.lang(text) if self.language != ENGLISH else ""
        return Markup("<span{}>{}</span>").format(lang, self.said(text)) if lang else self.said(text)

    @property
    def codes(self) -> frozenset[str]:
        """The codes of all messages."""
        return frozenset(self._messages)


@cache
def load_words(language: str) -> Words:
    """The words of a language of `LANGUAGES`. Raises ValueError for a catalog with a message that has no words."""
    messages = {**LISTS, **MESSAGES} if language == ENGLISH else {}
    for path in sorted((LOCALES / language.replace("-", "_")).glob("*.po")):
        messages |= _load_messages(path)
    return Words(language, MappingProxyType(messages))


def choose_language(chosen: str | None, accepted: str) -> str:
    """The language that the reader chose, else the one that the Accept-Language header prefers, else English."""
    if chosen is not None and chosen in LANGUAGES:
        return chosen
    best = (ENGLISH, 0.0)
    for part in accepted.split(","):
        tag, _, weight = part.strip().partition(";q=")
        primary = tag.strip().lower().split("-")[0]
        try:
            quality = float(weight) if weight else 1.0
        except ValueError:
            quality = 0.0
        if primary in {"zh", "en"} and quality > best[1]:
            best = (CHINESE if primary == "zh" else ENGLISH, quality)
    return best[0]


def _clean(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _load_messages(path: Path) -> dict[str, str]:
    messages: dict[str, str] = {}
    for message in _load_catalog(path):
        if not message.id:
            continue
        if not message.string or message.fuzzy:
            raise ValueError(f"{path}: {message.id} has no words, or is marked as fuzzy")
        messages[str(message.id)] = str(message.string)
    return messages


def _load_catalog(path: Path) -> Catalog:
    with path.open("rb") as file:
        return read_po(file, abort_invalid=True)
