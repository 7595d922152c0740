"""Strict YAML 1.2: one document as plain values, with the position of each, and every fault at once.

What YAML 1.1 and 1.2 read differently is either read as 1.2 reads it (`1e-5` is a number, `no` a text) or, where a
person would be surprised either way (`042`), refused. Where it depends on what is wanted there, a `Doubt` is kept for
whoever knows that.
"""

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, NamedTuple, TypeAlias, Union

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from starforge.contract.canonical import Json
from starforge.recipes.faults import Fault, Place
from starforge.recipes.lookalikes import find_lookalikes

Path: TypeAlias = tuple[str | int, ...]

MAX_BYTES: Final = 1 << 20
_MAX_DEPTH: Final = 32
_MAX_NODES: Final = 20_000
_MAX_DIGITS: Final = 1000

_TAG: Final = "tag:yaml.org,2002:"
_INT: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BOOLS: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_OLD_WORDS: Final = {"yes": "true", "on": "true", "no": "false", "off": "false"}
_OLD_TEXT: Final = re.compile(
    r"[-+]?[0-9]+_[0-9_]*|[-+]?[1-9][0-9]*(:[0-5]?[0-9])+|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"
)
_CUT_NUMBER: Final = re.compile(r"[1-9][0-9]*\.[0-9]+0")
_NO_TEXT: Final = re.compile("[\0\ud800-\udfff]")
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")


class _Broken(Enum):
    """What stands for a value that could not be read."""

    VALUE = "value"


_Value: TypeAlias = Union[Json, _Broken]  # noqa: UP007 - Json is a forward reference


class Doubt(NamedTuple):
    """A plain scalar that people mean differently.

    `word`: a word that YAML 1.1 takes for `old`, a boolean. `text`: read as a text, by YAML 1.1 as a number or date.
    `number`: a number that would lose digits if it was meant as a text.
    """

    kind: Literal["word", "text", "number"]
    text: str
    old: str = ""


class Located(NamedTuple):
    """Where a value and its key stand."""

    key: Place
    value: Place


@dataclass(slots=True)
class Document:
    """A file as it was read. What could not be read is in `faults` and left out of `value`."""

    file: str
    value: Json = None
    places: dict[Path, Located] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    doubts: dict[Path, Doubt] = field(default_factory=dict)

    def place_of(self, path: Sequence[str | int]) -> Place:
        """Where the value at `path` stands, or the nearest thing that holds it."""
        return self._located(path).value

    def key_place_of(self, path: Sequence[str | int]) -> Place:
        """Where the key that ends `path` stands, or the nearest thing that holds it."""
        return self._located(path).key

    def mapping(self) -> Mapping[str, Json]:
        """The document as a map; an empty file is an empty map, and a list or a scalar has been made a fault."""
        return self.value if isinstance(self.value, dict) else {}

    def _located(self, path: Sequence[str | int]) -> Located:
        for end in range(len(path), 0, -1):
            found = self.places.get(tuple(path[:end]))
            if found is not None:
                return found
        whole = Place(self.file)
        return Located(whole, whole)


def read_yaml(content: bytes, file: str) -> Document:
    """`content` as one document whose root is a map. Never raises for what the file holds."""
    document = Document(file)
    text = decode_text(content, document)
    if text is None:
        return document
    node = _compose(text, document)
    if node is None:
        return document
    if not isinstance(node, MappingNode):
        not_a_map = Fault("yaml_not_a_map", "the file must hold keys and values", _place(document, node))
        document.faults += _list_lookalikes(text, file) or [not_a_map]
        return document
    document.value = _Builder(document).build_root(node)
    return document


def decode_text(content: bytes, document: Document) -> str | None:
    """`content` as text, or None with the reason among the document's faults."""
    place = Place(document.file, 1, 1)
    if len(content) > MAX_BYTES:
        message = f"the file has {len(content)} bytes, {MAX_BYTES} are allowed"
        document.faults.append(Fault("yaml_too_large", message, place))
        return None
    if content.startswith(_UTF16_MARKS):
        hint = "save it as UTF-8"
        document.faults.append(Fault("yaml_encoding", "the file is UTF-16", place, hint))
        return None
    if content.startswith(b"\xef\xbb\xbf"):
        message = "the file starts with a byte-order mark; it was read without it"
        document.warnings.append(Fault("yaml_bom", message, place, "save it as UTF-8 without BOM"))
        content = content[3:]
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        before = content[: error.start]
        place = Place(document.file, before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1)
        message = f"byte {error.start} is not UTF-8 (0x{content[error.start]:02x})"
        document.faults.append(Fault("yaml_encoding", message, place, "save the file as UTF-8"))
        return None


def _compose(text: str, document: Document) -> Node | None:
    reader = YAML(typ="safe", pure=True)
    try:
        composed: Node | None = reader.compose(io.StringIO(text))
    except MarkedYAMLError as error:
        document.faults += _list_syntax_faults(error, text, document.file)
        return None
    except YAMLError as error:
        message = " ".join(str(error).split())
        document.faults.append(Fault("yaml_syntax", message, Place(document.file, 1, 1)))
        return None
    except RecursionError:
        document.faults.append(Fault("yaml_too_deep", "the file is nested too deeply", Place(document.file, 1, 1)))
        return None
    return composed


def _list_syntax_faults(error: MarkedYAMLError, text: str, file: str) -> list[Fault]:
    mark = error.problem_mark or error.context_mark
    place = Place(file, mark.line + 1, mark.column + 1) if mark else Place(file, 1, 1)
    problem = str(error.problem or error.context or "not YAML")
    if "another document" in problem:
        return [Fault("yaml_documents", "one document is expected, a second one begins here", place, "remove '---'")]
    if lookalikes := _list_lookalikes(text, file):
        return lookalikes
    if "\\t" in problem:
        return [Fault("yaml_tab", "a tab is used for indentation", place, "indent with spaces")]
    return [Fault("yaml_syntax", problem, place)]


def _list_lookalikes(text: str, file: str) -> list[Fault]:
    return [
        Fault(
            "yaml_lookalike",
            f"full-width or typographic {found.sign!r} (not YAML's own sign)",
            Place(file, found.line, found.column),
            f"write {found.meant!r}",
        )
        for found in find_lookalikes(text)
    ]


def _place(document: Document, node: Node) -> Place:
    return Place(document.file, node.start_mark.line + 1, node.start_mark.column + 1)


class _Builder:
    """Turns nodes into values and keeps what was wrong with them."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._nodes = 0

    def build_root(self, node: MappingNode) -> Json:
        """The document's map."""
        return self._build_map(node, ())

    def _build(self, node: Node, path: Path) -> _Value:
        self._nodes += 1
        if len(path) > _MAX_DEPTH or self._nodes > _MAX_NODES:
            if self._nodes <= _MAX_NODES + 1:
                self._fault("yaml_too_deep", "too deeply nested, or repeated too often by aliases", node)
                self._nodes = max(self._nodes, _MAX_NODES + 1)
            return _Broken.VALUE
        if isinstance(node, MappingNode):
            return self._build_map(node, path)
        if isinstance(node, SequenceNode):
            return self._build_list(node, path)
        return self._build_scalar(node, path)

    def _build_list(self, node: SequenceNode, path: Path) -> _Value:
        """The list; broken as a whole where an item is."""
        self._check_tag(node, "seq")
        items: list[Json] = []
        broken = False
        for index, item in enumerate(node.value):
            place = _place(self._document, item)
            self._document.places[(*path, index)] = Located(place, place)
            value = self._build(item, (*path, index))
            if isinstance(value, _Broken):
                broken = True
            else:
                items.append(value)
        return _Broken.VALUE if broken else items

    def _build_map(self, node: MappingNode, path: Path) -> Json:
        """The map without the members that are broken."""
        self._check_tag(node, "map")
        members: dict[str, Json] = {}
        for key_node, value_node in node.value:
            key = self._build_key(key_node)
            if key is None:
                continue
            if (*path, key) in self._document.places:
                first = self._document.places[(*path, key)].key
                self._fault("yaml_duplicate_key", f"{key!r} was already set in line {first.line}", key_node)
                continue
            located = Located(_place(self._document, key_node), _place(self._document, value_node))
            self._document.places[(*path, key)] = located
            value = self._build(value_node, (*path, key))
            if not isinstance(value, _Broken):
                members[key] = value
        return members

    def _build_key(self, node: Node) -> str | None:
        if not isinstance(node, ScalarNode):
            self._fault("yaml_key", "a key must be a text", node)
            return None
        if node.value == "<<" and node.style is None:
            self._fault(
                "yaml_merge", "merge keys ('<<') are not part of YAML 1.2", node, "name the parent in 'defaults:'"
            )
            return None
        old = _OLD_WORDS.get(str(node.value).lower()) if node.style is None else None
        if old is not None:
            hint = f"quote it: '{node.value}'"
            self._fault("yaml_key", f"the key {node.value} is read as {old} by YAML 1.1", node, hint)
            return None
        if node.tag == _TAG + "str":
            text = self._build_text(str(node.value), node)
            return text if isinstance(text, str) else None
        kind = str(node.tag).removeprefix(_TAG)
        self._fault("yaml_key", f"the key {node.value} is read as {kind}", node, f"quote it: '{node.value}'")
        return None

    def _build_scalar(self, node: Node, path: Path) -> _Value:
        text, kind = str(node.value), str(node.tag).removeprefix(_TAG)
        if isinstance(node, ScalarNode) and node.style is None:
            self._note_doubt(text, kind, path)
        if kind in {"str", "timestamp"}:
            return self._build_text(text, node)
        if kind == "null":
            return None
        if kind == "bool" and text in _BOOLS:
            return _BOOLS[text]
        if kind == "int":
            return self._build_int(text, node)
        if kind == "float":
            return self._build_float(text, node)
        self._fault("yaml_tag", f"the tag {node.tag!r} is not known", node, "leave it out")
        return _Broken.VALUE

    def _build_text(self, text: str, node: Node) -> _Value:
        broken = _NO_TEXT.search(text)
        if broken is None:
            return text
        what = "a NUL character" if broken[0] == "\0" else "half of a surrogate pair"
        self._fault("yaml_text", f"the text holds {what}, which a job cannot be given", node)
        return _Broken.VALUE

    def _note_doubt(self, text: str, kind: str, path: Path) -> None:
        if text.lower() in _OLD_WORDS:
            self._document.doubts[path] = Doubt("word", text, _OLD_WORDS[text.lower()])
        elif _OLD_TEXT.fullmatch(text):
            self._document.doubts[path] = Doubt("text", text)
        elif kind == "float" and _CUT_NUMBER.fullmatch(text):
            self._document.doubts[path] = Doubt("number", text)

    def _build_int(self, text: str, node: Node) -> _Value:
        if len(text) > _MAX_DIGITS:
            message = f"a number of {len(text)} digits, {_MAX_DIGITS} are allowed"
            self._fault("yaml_number_too_long", message, node, "write it in fewer, or quote it")
            return _Broken.VALUE
        if _INT.fullmatch(text):
            return int(text, 0 if text[:2] in {"0x", "0o"} else 10)
        if "_" in text:
            return text  # YAML 1.2 knows no digit groups
        hint = f"write the number without leading zeros, or quote it: '{text}'"
        self._fault("yaml_ambiguous_number", f"{text} is read differently by YAML 1.1 and 1.2", node, hint)
        return _Broken.VALUE

    def _build_float(self, text: str, node: Node) -> _Value:
        if not _FLOAT.fullmatch(text):
            if text.lower().lstrip("+-") in {".inf", ".nan"}:
                hint = "write a number, or leave it out where there is no limit"
                self._fault("yaml_not_finite", f"{text} is no number that a job can be given", node, hint)
                return _Broken.VALUE
            return text
        number = float(text)
        if not math.isfinite(number):
            self._fault(
                "yaml_not_finite", f"{text} is too large for a number", node, "write a smaller one, or quote it"
            )
            return _Broken.VALUE
        return number

    def _check_tag(self, node: Node, expected: str) -> None:
        if node.tag != _TAG + expected:
            self._fault("yaml_tag", f"the tag {node.tag!r} is not known", node, "leave it out")

    def _fault(self, code: str, message: str, node: Any, hint: str = "") -> None:  # noqa: ANN401 - ruamel's nodes are untyped
        self._document.faults.append(Fault(code, message, _place(self._document, node), hint))
