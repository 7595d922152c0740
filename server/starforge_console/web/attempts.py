"""A job's attempts as API and pages tell of them: which one is meant, how much of its log is here, what all left."""

from collections.abc import Sequence

from starforge.contract.api import LogState, Outputs
from starforge.contract.capsule import STREAM_LOG
from starforge.contract.ids import AttemptId
from starforge.errors import NotFound
from starforge.wording import count_of
from starforge_console.assembly.layout import StorageLayout
from starforge_console.ledger.reports import list_outputs
from starforge_console.ledger.series import stream_state
from starforge_console.ledger.views import AttemptRecord
from starforge_console.web.deps import ApiServices
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


async def load_log_state(services: ApiServices, attempt: AttemptRecord | None) -> LogState:
    """How much of the attempt's log is here; what is missing is looked for once it was read to its end."""
    if attempt is None:
        return LogState(received_bytes=0)
    received, _ = await services.series.read(lambda c: stream_state(c, attempt.id, STREAM_LOG))
    if attempt.finalised_at is None:
        return build_log_state(attempt, received, ())
    return build_log_state(attempt, received, await services.logs.find_missing(attempt.id, attempt.produced_bytes))


async def load_outputs(services: ApiServices, attempts: Sequence[AttemptRecord]) -> Outputs:
    """What the attempts left; of one whose spool was not read to its end yet, what it has told of."""
    reporting = [AttemptId(attempt.id) for attempt in attempts if attempt.outputs is None]
    told = await services.ledger.read(lambda c: {attempt: list_outputs(c, attempt) for attempt in reporting})
    return build_outputs(attempts, told, StorageLayout(services.settings.storage_root))
