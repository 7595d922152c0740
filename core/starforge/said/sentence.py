"""A sentence as it is passed on: its English text, and the code and values with which it is said in other languages.

`Said` is a `str`: whoever knows nothing of codes (API, logs, the command line) goes on with the English text. To put a
sentence into another one, give it to `say` as a value; an f-string keeps its text and loses its code.
"""

import json
import re
from collections.abc import Iterable, Mapping
from string import Formatter
from types import MappingProxyType
from typing import Final, Self

from starforge.said.catalog import LISTS, MESSAGES

Value = str | int
_NO_VALUES: Final[Mapping[str, Value]] = MappingProxyType({})
_FIXED: Final = MappingProxyType({text: code for code, text in MESSAGES.items() if "{" not in text})


class Said(str):
    """An English sentence that knows its `code` in the catalog and its `values`; a value may be `Said` itself."""

    __slots__ = ("code", "values")

    code: str
    values: Mapping[str, Value]

    def __new__(cls, text: str, code: str = "", values: Mapping[str, Value] = _NO_VALUES) -> Self:
        """The sentence whose English text is `text`; a copy is made of the text alone and given the rest after that."""
        said = super().__new__(cls, text)
        said.code, said.values = code, values
        return said


def say(code: str, /, **values: Value) -> Said:
    """The sentence of the catalog with these values. Raises KeyError for an unknown code or a missing value."""
    return Said(MESSAGES[code].format_map(values), code, values)


def say_list(code: str, parts: Iterable[str]) -> Said:
    """The parts as one sentence, one after the other, with what the list `code` of the catalog has between them."""
    said = tuple(parts)
    return Said(LISTS[code].join(said), code, {str(place): part for place, part in enumerate(said)})


def find_fixed(text: str) -> str:
    """The sentence without values whose English text is `text`, as a daemon's answer carries it; else the text."""
    code = _FIXED.get(text)
    return text if code is None or isinstance(text, Said) else Said(text, code)


def find_said(text: str, code: str) -> str:
    """The text as the sentence of this code, where it reads as one that was kept without its values; else the text."""
    pieces = Formatter().parse(MESSAGES[code])
    pattern = "".join(re.escape(told) + (f"(?P<{name}>.+)" if name else "") for told, name, _, _ in pieces)
    match = re.fullmatch(pattern, text)
    return text if match is None else Said(text, code, match.groupdict())


def code_of(text: str) -> str | None:
    """The code of a sentence; None for words that have none, such as an engine's own or a person's."""
    return text.code if isinstance(text, Said) else None


def names_in(message: str) -> set[str]:
    """The names of the values that a message of a catalog has room for."""
    return {name for _, name, _, _ in Formatter().parse(message) if name}


def write_said(text: str) -> str | None:
    """Code and values of a sentence as JSON, to be kept beside its text; None where it has no code."""
    return json.dumps(_as_json(text), ensure_ascii=False) if isinstance(text, Said) else None


def read_said(text: str, kept: str | None) -> str:
    """The sentence `text` with the code and values that were `kept` beside it.

    Without them, or where this version has no such code or other values for it, it is the text alone.
    """
    if not kept:
        return text
    try:
        said = _from_json(json.loads(kept))
    except (KeyError, TypeError, ValueError, AttributeError):
        return text
    return Said(text, said.code, said.values)


def _as_json(said: Said) -> dict[str, object]:
    values = {name: _as_json(value) if isinstance(value, Said) else value for name, value in said.values.items()}
    kept: dict[str, object] = {"code": said.code, "values": values}
    # A code that is not of this catalog belongs to the pages alone, and its English to whoever said it.
    return kept if said.code in MESSAGES or said.code in LISTS else {**kept, "text": str(said)}


def _from_json(kept: dict[str, object]) -> Said:
    code, given = str(kept["code"]), kept["values"]
    if not isinstance(given, dict):
        raise TypeError(f"the values of {code} are no object")
    values = {name: _from_json(value) if isinstance(value, dict) else value for name, value in given.items()}
    if "text" in kept:
        return Said(str(kept["text"]), code, values)
    return say_list(code, values.values()) if code in LISTS else say(code, **values)
