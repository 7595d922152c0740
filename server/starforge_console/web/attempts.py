"""A job's attempts as API and pages tell of them: which one is meant, how much of its log is here, what all left."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from starforge.contract.api import LogState
from starforge.contract.capsule import CKPT_DIRECTORY, STREAM_LOG
from starforge.contract.ids import AttemptId
from starforge.contract.results import Outputs
from starforge.errors import NotFound
from starforge.wording import count_of
from starforge_console.assembly.layout import StorageLayout
from starforge_console.domain.retention import CheckpointFacts, Kind, find_best
from starforge_console.ledger.removals import Removed, list_removed
from starforge_console.ledger.reports import list_outputs
from starforge_console.ledger.series import stream_state
from starforge_console.ledger.views import AttemptRecord, load_nodes
from starforge_console.retention.ratings import Rater
from starforge_console.web.deps import ApiServices, LogReader
from starforge_console.web.views import build_log_state, build_outputs


def choose_attempt(job_id: str, attempts: Sequence[AttemptRecord], number: int | None) -> AttemptRecord | None:
    """The attempt of that number, else the newest, if there is one. Raises NotFound."""
    if number is None:
        return attempts[-1] if attempts else None
    for attempt in attempts:
        if attempt.number == number:
            return attempt
    raise NotFound(
        f"job {job_id} has no attempt {number}",
        why=f"it has {count_of(len(attempts), 'attempt')}",
        next_step="name one of those, or none for the newest",
    )


async def choose_logs(services: ApiServices, job_id: str, node: int) -> LogReader:
    """The logs of what this node of the job's attempts printed; 0 leads. Raises NotFound."""
    if node == 0:
        return services.logs
    nodes = await services.ledger.read(lambda c: load_nodes(c, job_id))
    if node < nodes:
        return services.logs.of_node(node)
    raise NotFound(
        f"job {job_id} has no node {node}",
        why=f"it runs on {count_of(nodes, 'node')}, counted from 0",
        next_step="name one of those, or none for the first",
    )


def require_log(attempt: AttemptRecord) -> None:
    """Raises NotFound where retention has removed the attempt's log."""
    if attempt.log_removed_at is not None:
        at = datetime.fromtimestamp(attempt.log_removed_at, UTC)
        raise NotFound(
            f"the log of attempt {attempt.number} was removed at {at:%Y-%m-%d %H:%M} UTC",
            why="the console keeps the logs of ended jobs for a while (FORGE_LOG_RETENTION_S)",
            next_step="an administrator may have a backup of the console's state",
        )


async def load_log_state(services: ApiServices, attempt: AttemptRecord | None) -> LogState:
    """How much of the attempt's log is here; what is missing is looked for once it was read to its end."""
    if attempt is None:
        return LogState(received_bytes=0)
    if attempt.log_removed_at is not None:
        produced = attempt.produced_bytes
        return LogState(received_bytes=0, produced_bytes=produced, removed_at=attempt.log_removed_at)
    received, _ = await services.series.read(lambda c: stream_state(c, attempt.id, STREAM_LOG))
    if attempt.finalised_at is None and received <= services.settings.policy.log_max_bytes:
        is_running = attempt.started_at is not None and attempt.ended_at is None
        from_spool = is_running and services.presence.is_silent(AttemptId(attempt.id))
        return build_log_state(attempt, received, from_spool=from_spool)
    return build_log_state(attempt, received, await services.logs.find_missing(attempt.id, attempt.produced_bytes))


async def load_outputs(services: ApiServices, attempts: Sequence[AttemptRecord]) -> Outputs:
    """What the attempts left; of one whose spool was not read to its end yet, what it has told of."""
    reporting = [AttemptId(attempt.id) for attempt in attempts if attempt.outputs is None]
    told, removed = await services.ledger.read(
        lambda c: (
            {attempt: list_outputs(c, attempt) for attempt in reporting},
            list_removed(c, [attempt.id for attempt in attempts]),
        )
    )
    outputs = build_outputs(attempts, told, StorageLayout(services.settings.storage_root))
    return mark_removed(outputs, {attempt.number: removed.get(AttemptId(attempt.id), ()) for attempt in attempts})


async def rate_checkpoints(services: ApiServices, job_id: str, method: str, outputs: Outputs) -> Outputs:
    """The outputs with the primary metric at each checkpoint, and which of the committed ones is the best, if known."""
    steps = sorted({one.step for one in outputs.checkpoints if one.committed})
    found = await Rater(services.curves, services.catalog).find_ratings(job_id, method, steps) if steps else None
    if found is None:
        return outputs
    rated = [one.model_copy(update={"value": found.values.get(one.step)}) for one in outputs.checkpoints]
    facts = [
        CheckpointFacts(path=str(index), step=one.step, committed=one.committed, value=one.value)
        for index, one in enumerate(rated)
        if one.removed_at is None
    ]
    best = find_best(facts, found.better)
    if best is not None:
        rated[int(best.path)] = rated[int(best.path)].model_copy(update={"best": True})
    return outputs.model_copy(update={"checkpoints": tuple(rated)})


def mark_removed(outputs: Outputs, removed: Mapping[int, Sequence[Removed]]) -> Outputs:
    """The outputs with what retention removed told as such; `removed` is by the attempt's number."""
    gone = {
        (number, f"{CKPT_DIRECTORY}/{one.name}"): one.at
        for number, some in removed.items()
        for one in some
        if one.kind is Kind.CHECKPOINT
    }
    if not gone:
        return outputs
    told = [one.model_copy(update={"removed_at": gone.get((one.attempt, one.path))}) for one in outputs.checkpoints]
    return outputs.model_copy(update={"checkpoints": tuple(told)})
