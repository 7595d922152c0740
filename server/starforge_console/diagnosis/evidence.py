"""Evidence of an ended attempt as people have it: a document of ours, `docker inspect`, or an engine's words."""

import json
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from starforge.containers.seeing import parse_time
from starforge.contract.capsule import CapsuleError, ExitRecord
from starforge.contract.observation import Exit
from starforge.contract.states import DesiredState
from starforge.errors import InputError

_MOST_BYTES: Final = 4 * 1024 * 1024
_NEVER_BEGAN: Final = frozenset({125, 126, 127, 128})
"""What engines write as the exit code of a container that they could not start, with the reason beside it."""
_ENDED: Final = frozenset({"exited", "dead", "stopped", ""})


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known. `words` are an engine's about a start or a pull; `state` is its word for one that has not ended.

    `record_given` is False where nobody looked for the runner's record, so that its absence says nothing.
    """

    engine: Exit | None = None
    record: ExitRecord | None = None
    record_given: bool = True
    desired: DesiredState = DesiredState.RUN
    stop_sent: bool = False
    words: str = ""
    exit_code: int | None = None
    state: str = ""


class _EngineDocument(BaseModel):
    model_config = ConfigDict(extra="forbid")

    code: int | None = None
    out_of_memory: bool = False
    started_at: float | None = Field(None, description="Unix seconds.")
    finished_at: float | None = None
    engine_started_at: float | None = None
    error: str = ""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    engine: _EngineDocument | None = None
    record: dict[str, Any] | None = None
    desired: DesiredState = DesiredState.RUN
    stop_sent: bool = False
    message: str = ""
    exit_code: int | None = None


def parse_evidence(content: bytes, name: str) -> Evidence:
    """The evidence in `content`, which came from `name`: JSON of either kind, else an engine's words.

    Raises InputError for nothing at all, for more than 4 MiB, and for JSON that is neither kind.
    """
    if len(content) > _MOST_BYTES:
        raise InputError(
            f"{name} holds {len(content)} bytes", why="evidence is small", next_step="cut out what matters"
        )
    text = content.decode("utf-8-sig", errors="replace").strip()
    if not text:
        raise InputError(f"{name} is empty", next_step="give evidence.json, docker inspect, or the engine's words")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):  # the latter: nested beyond what any evidence is
        return Evidence(words=text)
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if isinstance(document, str):
        return _read_words(document, name)
    if not isinstance(document, dict):
        raise InputError(f"{name} holds JSON that is no evidence", why="it must be one object", next_step=_WANTED)
    if isinstance(document.get("State"), dict):
        return _read_inspected(document["State"])
    if set(document) == {"message"} and isinstance(document["message"], str):
        return _read_words(document["message"], name)
    return _read_document(document, name)


_WANTED: Final = "the members are: " + ", ".join(_Document.model_fields)


def _read_words(words: str, name: str) -> Evidence:
    if not words.strip():
        raise InputError(f"{name} says nothing of an end", next_step=_WANTED)
    return Evidence(words=words)


def _read_inspected(state: dict[str, Any]) -> Evidence:
    status = str(state.get("Status") or "")
    error = str(state.get("Error") or "")
    code = state.get("ExitCode")
    code = code if isinstance(code, int) else None
    if error and (status == "created" or code in _NEVER_BEGAN):
        return Evidence(words=error, exit_code=code)
    if status not in _ENDED or state.get("Running") is True:
        return Evidence(state=status or "running")
    engine = Exit(
        code=code,
        out_of_memory=bool(state.get("OOMKilled")),
        started_at=parse_time(str(state.get("StartedAt") or "")),
        finished_at=parse_time(str(state.get("FinishedAt") or "")),
        engine_started_at=None,
        error=error,
    )
    return Evidence(engine=engine, record_given=False)


def _read_document(document: dict[str, Any], name: str) -> Evidence:
    try:
        read = _Document.model_validate(document)
        record = None if read.record is None else ExitRecord.from_json(read.record)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(f"{name}: {where}: {first['msg']}", next_step=_WANTED) from None
    except CapsuleError as error:
        raise InputError(f"{name}: {error}", next_step="give the runner's exit.json as it is") from None
    if read.engine is None and record is None and not read.message and read.exit_code is None:
        raise InputError(f"{name} says nothing of an end", next_step=_WANTED)
    engine = Exit(**read.engine.model_dump()) if read.engine is not None else None
    if engine is None and record is None and not read.message:
        engine = Exit(
            code=read.exit_code, out_of_memory=False, started_at=None, finished_at=None, engine_started_at=None
        )
    return Evidence(
        engine=engine,
        record=record,
        record_given="record" in document,
        desired=read.desired,
        stop_sent=read.stop_sent,
        words=read.message,
        exit_code=read.exit_code,
    )
