"""Rows of the ledger as messages of the API: one named function each."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from starforge.contract.api import (
    AttemptView,
    EventView,
    GivenSecretView,
    JobView,
    LineageView,
    LogState,
    MethodView,
    ProfileView,
    WaitView,
)
from starforge.contract.combinations import SweepPart
from starforge.contract.ids import AttemptId, is_job_id, job_of
from starforge.contract.results import CheckpointView, FileView, Outputs
from starforge.contract.states import Reason
from starforge.hardware.profiles import Profile
from starforge.recipes.model import Recipe
from starforge.said.sentence import code_of
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.outputs import decide_outputs
from starforge_console.domain.waiting import WaitReason
from starforge_console.ledger.lineages import LineageRecord
from starforge_console.ledger.listing import JobLine
from starforge_console.ledger.reports import Output
from starforge_console.ledger.views import AttemptRecord, EventRecord, JobRecord
from starforge_console.ledger.waits import read_waits
from starforge_console.web.cursors import decode_place, encode_place, refuse_cursor

_SAME_NAMES: Final = tuple(name for name in JobView.model_fields if name in JobRecord.__dataclass_fields__)


def build_job(line: JobLine) -> JobView:
    """A job as a line."""
    record = line.job
    values = {name: getattr(record, name) for name in _SAME_NAMES}
    return JobView.model_construct(
        attempt=record.attempt_number,
        note_code=code_of(record.note),
        waits=build_waits(record),
        recipe=line.recipe,
        series=line.series,
        got_series=line.got,
        node=line.node,
        max_runtime_s=line.max_runtime_s,
        retries_left=line.retries_left,
        step=line.step,
        sweep=build_part(line),
        **values,
    )


def build_part(line: JobLine) -> SweepPart | None:
    """The sweep that the job belongs to."""
    swept = line.sweep
    return None if swept is None else SweepPart(id=swept.id, name=swept.name, combination=swept.combination)


def build_waits(record: JobRecord) -> tuple[WaitView, ...]:
    """Why the job waits, reason by reason; none where nothing is told."""
    return tuple(map(build_wait, read_waits(record.waiting)))


def build_wait(wait: WaitReason) -> WaitView:
    """One reason."""
    return WaitView(reason=wait.reason, code=code_of(wait.reason), places=wait.places, more=wait.more)


def build_event(record: EventRecord) -> EventView:
    """One event."""
    return EventView(
        number=record.number,
        at=record.at,
        kind="state" if record.kind == "state" else "timeline",
        state=record.state,
        reason=record.reason,
        attempt=record.attempt,
        note=record.note,
        note_code=code_of(record.note),
        count=record.count,
    )


def build_attempt(record: AttemptRecord) -> AttemptView:
    """One attempt."""
    return AttemptView(
        number=record.number,
        id=record.id,
        fleet=record.fleet,
        node=record.node,
        gpus=record.gpus,
        series=record.series,
        image_id=record.image_id,
        image_digest=record.image_digest,
        is_bare=record.is_bare,
        capsule_digest=record.capsule_digest,
        runner_digest=record.runner_digest,
        dequeued_at=record.dequeued_at,
        started_at=record.started_at,
        ended_at=record.ended_at,
        exit_code=record.exit_code,
        reason=record.reason,
        costs_retry=record.costs_retry,
        evidence=record.evidence,
        secrets=tuple(GivenSecretView(name=one.name, set_at=one.set_at) for one in record.secrets),
    )


def build_lineage(record: LineageRecord) -> LineageView:
    """What is kept of a job's origin; its difference is asked for by itself."""
    return LineageView(
        rerun_of=record.rerun_of,
        difference_bytes=record.difference_bytes,
        difference_is_cut=record.difference_is_cut,
        config=None if record.config is None else json.loads(record.config),
    )


def build_log_state(
    attempt: AttemptRecord, received_bytes: int, missing: tuple[tuple[int, int], ...] = (), *, from_spool: bool = False
) -> LogState:
    """Whether all of the attempt's log is here."""
    produced = attempt.produced_bytes
    return LogState(received_bytes=received_bytes, produced_bytes=produced, missing=missing, from_spool=from_spool)


def build_outputs(
    attempts: Sequence[AttemptRecord], told: Mapping[AttemptId, Sequence[Output]], storage: StorageLayout
) -> Outputs:
    """What a job's attempts left. `told` holds what those said whose spool was not read to its end yet."""
    artifacts: dict[tuple[int, str], FileView] = {}
    checkpoints: list[CheckpointView] = []
    lost = [attempt.number for attempt in attempts if attempt.reason == Reason.NODE_LOST.value]
    for attempt in attempts:
        first = decide_outputs(attempt.number, lost)
        out = storage.outputs(job_of(AttemptId(attempt.id)), first)
        kept = storage.attempt(AttemptId(attempt.id)).kept
        left = attempt.outputs if attempt.outputs is not None else _as_left(told.get(AttemptId(attempt.id), ()))
        for artifact in left.get("artifacts", ()):
            view = FileView.model_validate(
                {**artifact, "folder": out.name, "storage_path": str(out / artifact["path"])}
            )
            artifacts[first, view.path] = view  # a later attempt writes over what an earlier one left
        checkpoints += [
            CheckpointView.model_validate(
                {**checkpoint, "attempt": attempt.number, "storage_path": str(kept / checkpoint["path"])}
            )
            for checkpoint in left.get("checkpoints", ())
        ]
    return Outputs(artifacts=tuple(artifacts[one] for one in sorted(artifacts)), checkpoints=tuple(checkpoints))


def _as_left(told: Sequence[Output]) -> dict[str, Any]:
    """What was told in the form in which the ledger keeps what is left: a checkpoint is told of once committed."""
    return {
        "artifacts": [
            {"path": output.path, "bytes": output.bytes or 0, "sha256": output.sha256}
            for output in told
            if output.kind == "artifact"
        ],
        "checkpoints": [
            {"step": output.step or 0, "path": output.path, "committed": True, "bytes": output.bytes}
            for output in told
            if output.kind == "checkpoint"
        ],
    }


def build_method(recipe: Recipe) -> MethodView:
    """A published method."""
    return MethodView(
        name=recipe.name,
        version=recipe.version,
        digest=recipe.digest,
        framework_versions=recipe.framework_versions,
        summary=dict(recipe.summary),
    )


def build_profiles(profiles: Iterable[Profile]) -> tuple[ProfileView, ...]:
    """The hardware registry's shapes, by name."""
    return tuple(
        ProfileView(
            name=profile.name,
            series=profile.series,
            gpus=profile.gpus,
            gpus_per_node=profile.gpus_per_node,
            cpus=profile.cpus,
            memory_bytes=profile.memory_bytes,
        )
        for profile in sorted(profiles, key=lambda profile: profile.name)
    )


def build_cursor(last: JobRecord) -> str:
    """What continues a list after `last`."""
    return encode_place(json.dumps([last.submitted_at, last.id]))


def parse_cursor(text: str) -> tuple[float, str]:
    """The place that a cursor stands for. Raises InputError."""
    try:
        place = json.loads(decode_place(text))
    except (ValueError, RecursionError):
        place = None
    match place:
        case [float(submitted_at), str(job_id)] if math.isfinite(submitted_at) and is_job_id(job_id):
            return submitted_at, job_id
    raise refuse_cursor(text)
