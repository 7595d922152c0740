"""Lines of metrics and events: what of them is kept, what people are told, and which are no lines at all. Pure."""

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeVar

import msgspec

from starforge.contract.capsule import CKPT_DIRECTORY
from starforge.said.sentence import say
from starforge_console.domain.points import Columns
from starforge_console.domain.samples import NAME_CHARACTERS, Sample, build_rows
from starforge_console.ledger.reports import Output

KEY_CHARACTERS: Final = 256
NOTE_CHARACTERS: Final = 2000
PATH_CHARACTERS: Final = 4096
_MOST_LEFT_OUT: Final = 1 << 30
_WORDS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_FAULTS: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

_Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Path = Annotated[str, msgspec.Meta(min_length=1, max_length=PATH_CHARACTERS)]
_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


@dataclass(slots=True)
class Metrics:
    """Points of a piece of the metrics stream; `fault` is about the first of the `dropped` lines and values."""

    points: dict[str, Columns] = field(default_factory=dict)
    count: int = 0
    dropped: int = 0
    fault: str = ""


@dataclass(slots=True)
class Events:
    """What a piece of the events stream tells."""

    notes: list[str] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    total_steps: int | None = None
    dropped: int = 0
    fault: str = ""
    at: int = 0
    """Where the line that is being read begins."""


def read_metrics(content: bytes, at: int) -> Metrics:
    """The points in whole lines of the metrics stream, whose first byte has the offset `at`."""
    read = Metrics()
    for offset, line in _list_lines(content, at):
        try:
            _add_values(read, _METRICS.decode(line), offset)
        except _FAULTS as error:
            _drop(read, offset, error)
    return read


def read_events(content: bytes, at: int) -> Events:
    """What whole lines of the events stream tell. Kinds that this version does not know are passed over."""
    read = Events()
    for offset, line in _list_lines(content, at):
        try:
            kind, read.at = _KIND.decode(line).kind, offset
            if kind in _DECODERS:
                _DECODERS[kind].decode(line).tell(read)
        except (*_FAULTS, ValueError) as error:
            _drop(read, offset, error)
    return read


class _MetricsLine(msgspec.Struct):
    time: float
    step: _Int64
    values: dict[str, float | str]


class _Kind(msgspec.Struct):
    kind: str


class _Mark(msgspec.Struct):
    step: int


class _Started(msgspec.Struct):
    resumed_from: _Mark | None = None

    def tell(self, read: Events) -> None:
        mark = self.resumed_from
        read.notes.append(say("told.started") if mark is None else say("told.resumed", step=mark.step))


class _WorkspaceReady(msgspec.Struct):
    elapsed_s: float

    def tell(self, read: Events) -> None:
        read.notes.append(say("told.workspace", s=f"{self.elapsed_s:.1f}"))


class _Stopping(msgspec.Struct):
    why: str
    grace_s: float | None = None

    def tell(self, read: Events) -> None:
        told = say("told.stopping", why=self.why)
        if self.grace_s is not None:
            told = say("told.stopping_in", why=self.why, s=f"{self.grace_s:.0f}")
        read.notes.append(_clean(told))


class _Note(msgspec.Struct):
    message: str

    def tell(self, read: Events) -> None:
        read.notes.append(_clean(self.message))


class _Ended(msgspec.Struct):
    code: int
    signal: int | None = None
    message: str | None = None

    def tell(self, read: Events) -> None:
        how = say("exit.code", code=self.code) if self.signal is None else say("told.signal", signal=self.signal)
        told = say("told.ended_message", how=how, message=self.message) if self.message else say("told.ended", how=how)
        read.notes.append(_clean(told))


class _Checkpoint(msgspec.Struct):
    step: _Int64
    path: _Path

    def tell(self, read: Events) -> None:
        path = f"{CKPT_DIRECTORY}/{_check_path(self.path)}" if self.path != "." else CKPT_DIRECTORY
        read.outputs.append(Output(kind="checkpoint", path=path, step=self.step))
        read.notes.append(_clean(say("told.checkpoint", step=self.step, path=path)))


class _Artifact(msgspec.Struct):
    path: _Path
    bytes: _Count
    sha256: _Digest | None = None

    def tell(self, read: Events) -> None:
        path = _check_path(self.path)
        read.outputs.append(Output(kind="artifact", path=path, bytes=self.bytes, sha256=self.sha256))


class _Samples(msgspec.Struct):
    step: _Int64
    rows: list[dict[str, Any]]
    time: float = 0.0
    name: Annotated[str, msgspec.Meta(max_length=NAME_CHARACTERS)] = "samples"
    left_out: _Count = 0

    def tell(self, read: Events) -> None:
        rows, left_out = build_rows(self.rows)
        read.samples.append(
            Sample(
                at_byte=read.at,
                name=_clean(self.name),
                step=self.step,
                at=self.time,
                rows=rows,
                left_out=min(left_out + self.left_out, _MOST_LEFT_OUT),
            )
        )


class _TotalSteps(msgspec.Struct):
    total_steps: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]

    def tell(self, read: Events) -> None:
        read.total_steps = self.total_steps


_METRICS: Final = msgspec.json.Decoder(_MetricsLine)
_KIND: Final = msgspec.json.Decoder(_Kind)
_Told = _Started | _WorkspaceReady | _Stopping | _Note | _Ended | _Checkpoint | _Artifact | _Samples | _TotalSteps
_DECODERS: Final[dict[str, "msgspec.json.Decoder[_Told]"]] = {
    "started": msgspec.json.Decoder(_Started),
    "workspace_ready": msgspec.json.Decoder(_WorkspaceReady),
    "stopping": msgspec.json.Decoder(_Stopping),
    "note": msgspec.json.Decoder(_Note),
    "ended": msgspec.json.Decoder(_Ended),
    "checkpoint": msgspec.json.Decoder(_Checkpoint),
    "artifact": msgspec.json.Decoder(_Artifact),
    "samples": msgspec.json.Decoder(_Samples),
    "total_steps": msgspec.json.Decoder(_TotalSteps),
}

_ReadT = TypeVar("_ReadT", Metrics, Events)


def _list_lines(content: bytes, at: int) -> list[tuple[int, bytes]]:
    lines, offset = [], at
    for line in content.split(b"\n"):
        if line.strip():
            lines.append((offset, line))
        offset += len(line) + 1
    return lines


def _add_values(read: Metrics, line: _MetricsLine, offset: int) -> None:
    for key, value in line.values.items():
        number = _WORDS.get(value) if isinstance(value, str) else value
        if number is None or not 0 < len(key) <= KEY_CHARACTERS or "\0" in key:
            _drop(read, offset, f"{key[:40]!r} holds {value!r:.40}, which is no number, or is too long a name")
            continue
        read.count += 1
        columns = read.points.get(key)
        if columns is None:
            columns = read.points[key] = Columns.empty()
        columns.add(line.step, number, line.time)


def _drop(read: _ReadT, offset: int, why: object) -> None:
    read.dropped += 1
    read.fault = read.fault or f"at byte {offset}: {why}"[:NOTE_CHARACTERS]


def _check_path(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise ValueError(f"the path {path[:80]!r} leaves its folder")
    return path


def _clean(text: str) -> str:
    """Text without NUL, which not every database takes, and cut to what a timeline shows; a good one as it is."""
    if "\0" not in text and len(text) <= NOTE_CHARACTERS:
        return text
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text if len(text) <= NOTE_CHARACTERS else text[: NOTE_CHARACTERS - 1] + "…"
