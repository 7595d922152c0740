"""Everything that a job's page shows, read at one moment."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starforge.contract.api import AdmissionRecord, AttemptView, LineageView, LogState
from starforge.contract.diagnosis import DiagnosisView
from starforge.contract.jobspec import JobSpec
from starforge.contract.results import CheckpointView, Outputs
from starforge.contract.states import FREE_OF_CHARGE, HOLDS_A_PLACE, DesiredState, JobState, has_ended_for_good
from starforge.diagnosis.answer import Category
from starforge_console.admission.said import read_record
from starforge_console.domain.inputs import START, CheckpointInput, JobInputs
from starforge_console.domain.waiting import WaitReason
from starforge_console.ledger.inputs import load_inputs
from starforge_console.ledger.lineages import load_lineage_record
from starforge_console.ledger.listing import History, JobLine, load_history, load_lines
from starforge_console.ledger.points import list_keys
from starforge_console.ledger.queue_order import find_place
from starforge_console.ledger.views import AttemptRecord, EventRecord, list_attempts, load_documents, load_job
from starforge_console.ledger.waits import read_waits
from starforge_console.web.attempts import choose_attempt, load_log_state, load_outputs
from starforge_console.web.deps import ApiServices
from starforge_console.web.diagnosis import find_view
from starforge_console.web.i18n.words import Words
from starforge_console.web.pages.causes import tell_cause
from starforge_console.web.pages.timeline import Stretch, fold_events
from starforge_console.web.steps import add_steps
from starforge_console.web.views import build_attempt, build_lineage

EVENTS_SHOWN: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPage:
    """A job with all that belongs to it. `attempt` is the one whose log is shown."""

    line: JobLine
    spec: JobSpec
    spec_digest: str
    image_digest: str | None
    admission: AdmissionRecord
    history: History
    attempts: tuple[AttemptView, ...]
    lineage: LineageView
    outputs: Outputs
    log: LogState
    attempt: AttemptRecord | None
    keys: dict[str, int]
    inputs: JobInputs
    now: float
    diagnosis: DiagnosisView | None = None
    place: int | None = None
    """Where it stands in the queue."""

    @property
    def id(self) -> str:
        """The job's id."""
        return self.line.job.id

    @property
    def last_event(self) -> int:
        """The number of its newest event."""
        return self.history.events[-1].number if self.history.events else 0

    @property
    def has_ended(self) -> bool:
        """Whether nothing happens to it by itself any more."""
        return has_ended(self.line)

    @property
    def trained_percent(self) -> int | None:
        """How much of its steps are behind it, rounded down; None while it has not said how many there will be."""
        step, total = self.line.step, self.line.job.total_steps
        return None if step is None or total is None else max(0, min(100, 100 * step // total))

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was asked for and has not come about yet."""
        return self.line.job.desired == DesiredState.STOP.value and self.line.job.state in HOLDS_A_PLACE

    @property
    def is_pausing(self) -> bool:
        """Whether a pause was asked for and has not come about yet."""
        return self.line.job.desired == DesiredState.PAUSE.value and self.line.job.state in HOLDS_A_PLACE

    @property
    def may_pause(self) -> bool:
        """Whether a pause would change anything."""
        rests = self.line.job.state in {JobState.PAUSED, JobState.STOPPED}
        return not (self.has_ended or rests or self.is_stopping or self.is_pausing)

    @property
    def may_resume(self) -> bool:
        """Whether it is paused, or will be."""
        return self.line.job.state == JobState.PAUSED or self.is_pausing

    @property
    def may_retry(self) -> bool:
        """Whether another attempt may be asked for."""
        return self.line.job.state in {JobState.FAILED, JobState.STOPPED}

    @property
    def waits(self) -> tuple[WaitReason, ...]:
        """Why a queued job is not placed, as was last told of it."""
        job = self.line.job
        return read_waits(job.waiting) or ((WaitReason(job.note),) if job.note else ())

    def fold(self, events: Sequence[EventRecord]) -> list[Stretch]:
        """Entries of its history, newest first, like ones in a row as one."""
        return fold_events(events)

    @property
    def start(self) -> CheckpointInput | None:
        """The checkpoint that the job was pinned to start from."""
        found = self.inputs.get(START)
        return found if isinstance(found, CheckpointInput) else None

    @property
    def told(self) -> DiagnosisView | None:
        """Why the shown attempt failed, where that is worth a notice: a cause, or at least the line of an error."""
        found = self.diagnosis
        if found is None or found.category == Category.STOPPED:
            return None
        return None if found.category == Category.UNKNOWN and found.line is None else found

    def tell_cause(self, found: DiagnosisView, words: Words) -> tuple[str, str]:
        """Summary and advice in the reader's language."""
        return tell_cause(found, words)

    @property
    def image_id(self) -> str | None:
        """The image that the newest attempt really ran."""
        return next((one.image_id for one in reversed(self.attempts) if one.image_id), None)

    @property
    def is_bare(self) -> bool:
        """Whether the newest attempt of which that is known ran without a container, and so without its image."""
        return next((one.is_bare for one in reversed(self.attempts) if one.is_bare is not None), False)

    def was_free(self, attempt: AttemptView) -> bool:
        """Whether the attempt ended for a reason that costs the job no retry."""
        return attempt.reason in FREE_OF_CHARGE

    @property
    def nodes(self) -> int:
        """On how many nodes the job runs."""
        return sum(pool.nodes for pool in self.spec.spec.resources.pools)

    @property
    def committed(self) -> list[CheckpointView]:
        """The checkpoints that a job can go on from."""
        return [one for one in self.outputs.checkpoints if one.committed]


async def load_job_page(services: ApiServices, job_id: str, attempt: int | None = None) -> JobPage:
    """The job at this moment; of several attempts' logs that of `attempt`, else of the newest. Raises NotFound."""
    record, documents, history, attempts, lines, lineage, inputs, place = await services.ledger.read(
        lambda c: (
            load_job(c, job_id),
            load_documents(c, job_id),
            load_history(c, job_id, EVENTS_SHOWN),
            list_attempts(c, job_id),
            load_lines(c, [job_id]),
            load_lineage_record(c, job_id),
            load_inputs(c, job_id),
            find_place(c, job_id),
        )
    )
    shown = choose_attempt(job_id, attempts, attempt)
    diagnosis = None if shown is None or shown.ended_at is None else await find_view(services, job_id, shown)
    return JobPage(
        line=(await add_steps(services.series, [lines[record.id]]))[0],
        spec=JobSpec.model_validate_json(documents.spec),
        spec_digest=documents.spec_digest,
        image_digest=documents.image_digest,
        admission=read_record(documents.admission, documents.admission_said),
        history=history,
        attempts=tuple(map(build_attempt, attempts)),
        lineage=build_lineage(lineage),
        outputs=await load_outputs(services, attempts),
        log=await load_log_state(services, shown),
        attempt=shown,
        inputs=inputs,
        keys=await services.series.read(lambda c: list_keys(c, job_id)),
        now=services.clock.now(),
        diagnosis=diagnosis,
        place=place,
    )


def has_ended(line: JobLine) -> bool:
    """Whether nothing happens to the job by itself any more."""
    return has_ended_for_good(line.job.state, line.job.retry_at)
