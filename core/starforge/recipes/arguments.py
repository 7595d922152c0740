"""Arguments of a framework's command line as hyperparameters: `key=value` as hydra writes them, and `--name value`.

One file holds the arguments alone, as they follow the program in a launch script: in one line or many, with or without
a backslash at the end of each.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Final, NamedTuple

from starforge.contract.canonical import Json
from starforge.recipes.faults import Fault, Place
from starforge.recipes.yaml12 import Document, Located, Path, decode_text, read_yaml

_WORD: Final = re.compile(r"""(?:[^\s"'\\]|\\.|"(?:\\.|[^"\\])*"|'[^']*')+""")
_KEY: Final = re.compile(r"(?P<sign>\+\+|\+|~)?(?P<key>[A-Za-z_][\w./@-]*)(?:(?P<equals>=)(?P<value>.*))?", re.DOTALL)
_FLAG: Final = re.compile(r"--(?P<key>[A-Za-z_][\w.-]*)(?:(?P<equals>=)(?P<value>.*))?", re.DOTALL)


class _Word(NamedTuple):
    text: str
    place: Place


def read_arguments(content: bytes, file: str) -> Document:
    """The arguments in `content` as a document with the one key `hyperparameters`. Never raises for what it holds.

    A name that hydra adds (`+name=1`) is like any other; one that it takes away (`~name`) is a fault.
    """
    document = Document(file)
    text = decode_text(content, document)
    if text is None:
        return document
    _Arguments(document).read(_split(text, document))
    return document


def _split(text: str, document: Document) -> Iterator[_Word]:
    """The words in their order; comments and blank lines inside a continued command are faults."""
    continued = False
    for number, line in enumerate(text.splitlines(), start=1):
        shown = line.strip()
        if continued and (not shown or shown.startswith("#")):
            column = len(line) - len(line.lstrip()) + 1
            document.faults.append(_tell_interruption(shown, Place(document.file, number, column)))
        goes_on = shown.endswith("\\") and not shown.startswith("#")
        continued = goes_on or (continued and (not shown or shown.startswith("#")))
        if not shown.startswith("#"):
            yield from _split_line(line.rstrip().removesuffix("\\") if goes_on else line, number, document)


def _tell_interruption(shown: str, place: Place) -> Fault:
    what = f'"{shown.removesuffix(chr(92)).rstrip()}"' if shown else "a blank line"
    message = f"{what} inside continued arguments: a shell ends the command before it, and what follows is lost"
    return Fault("arguments_interrupted", message, place, "remove the line")


def _split_line(line: str, number: int, document: Document) -> Iterator[_Word]:
    at = 0
    for found in _WORD.finditer(line):
        if line[at : found.start()].strip():
            break
        at = found.end()
        yield _Word("".join(shlex.split(found[0])), Place(document.file, number, found.start() + 1))
    rest = line[at:]
    if rest.strip():
        column = at + len(rest) - len(rest.lstrip()) + 1
        message = f"a quote is opened and not closed: {rest.strip()}"
        document.faults.append(Fault("arguments_quotes", message, Place(document.file, number, column)))


class _Arguments:
    """Turns words into values; a name without a value is true."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._values: dict[str, Json] = {}
        document.value = {"hyperparameters": self._values}

    def read(self, words: Iterator[_Word]) -> None:
        name, given = None, list[_Word]()
        for word in words:
            flag = _FLAG.fullmatch(word.text)
            if flag is None and name is not None:
                given.append(word)
                continue
            if name is not None:
                self._set_flag(name, given)
            name, given = None, []
            if flag is None:
                self._read_override(word)
            elif flag["equals"]:
                self._set(flag["key"].replace("-", "_"), _parse(flag["value"]), word.place)
            else:
                name = word
        if name is not None:
            self._set_flag(name, given)

    def _set_flag(self, name: _Word, given: list[_Word]) -> None:
        values = [_parse(word.text) for word in given]
        value: Json = True if not values else values[0] if len(values) == 1 else values
        self._set(name.text.removeprefix("--").replace("-", "_"), value, name.place)

    def _read_override(self, word: _Word) -> None:
        found = _KEY.fullmatch(word.text)
        if found is not None and found["sign"] == "~":
            message, hint = f"{word.text} takes a key away, which hyperparameters cannot", "leave it out"
            self._document.faults.append(Fault("arguments_removal", message, word.place, hint))
        elif found is None or not found["equals"]:
            hint = "write name=value, or --name value; only arguments belong here, not the program"
            self._document.faults.append(Fault("arguments_word", f"{word.text!r} is no argument", word.place, hint))
        else:
            self._set(found["key"].replace("/", "."), _parse(found["value"]), word.place)

    def _set(self, key: str, value: Json, place: Place) -> None:
        path: Path = ("hyperparameters", key)
        if path in self._document.places:
            first = self._document.places[path].key
            message = f"{key!r} was already given in line {first.line}"
            self._document.faults.append(Fault("arguments_twice", message, place, "keep one of them"))
            return
        self._document.places[path] = Located(place, place)
        self._values[key] = value


def _parse(text: str) -> Json:
    """The value as YAML reads it, as hydra does; what is no YAML is a text."""
    document = read_yaml(f"value: {text}".encode(), "value")
    is_one = not document.faults and len(document.mapping()) == 1
    return document.mapping()["value"] if is_one else text
