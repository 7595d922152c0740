"""Who holds GPUs, and since when: one place for every reader that counts, charges, limits or ends what is held."""

from typing import Any, Final

from sqlalchemy import Select, select

from starforge.contract.states import HOLDS_A_PLACE, JobState
from starforge_console.ledger.tables import attempts, jobs

HOLDING: Final = tuple(sorted(state.value for state in HOLDS_A_PLACE))
"""The states of a job whose attempt was dequeued and has not ended, NoSignal included."""
COUNTED: Final = (*HOLDING, JobState.PAUSED.value)
"""The states in which a job counts under a quota; a paused one as a job alone."""

LIVING: Final[Select[Any]] = (
    select(jobs.c.user_id, jobs.c.id, jobs.c.gpus, attempts.c.dequeued_at)
    .join(attempts, attempts.c.id == jobs.c.attempt_id)
    .where(jobs.c.state.in_(HOLDING), jobs.c.gpus > 0)
)
"""User, job, GPUs and since when (Unix seconds) of each attempt that holds GPUs."""
