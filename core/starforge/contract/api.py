"""The messages of the console's HTTP API (`/api/v1`): what `sf` sends and reads, and what the console sends and reads.

Unknown members of an answer are ignored, so that an older `sf` reads a newer console; unknown members of a request are
refused by name. Times are Unix seconds by the console's clock.
"""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue

from starforge.contract.combinations import SweepPart
from starforge.contract.jobspec import DigestText, Frozen, JobSpec, Text, WholeValues
from starforge.contract.sentence import Sentence

API_PREFIX: Final = "/api/v1"
PROBLEM_TYPE: Final = "application/problem+json"
"""The media type of `Problem`."""
CLIENT_PRODUCT: Final = "sf"
"""How the client names itself in `User-Agent`, followed by a slash and its version."""
PAGE_LIMIT: Final = 500
"""The most items that one page of a list holds."""
DIFFERENCE_BYTES: Final = 1 << 20
"""The most that is kept of a difference, in UTF-8."""

HEADER_IDEMPOTENCY_KEY: Final = "Idempotency-Key"
HEADER_UPLOAD_OFFSET: Final = "Upload-Offset"
"""Where in the plain content of a blob the body goes on; at most what `BlobState.received` says. Left out: at 0."""
HEADER_LOG_RECEIVED_TO: Final = "X-Log-Received-To"
"""How many bytes of the log the console holds."""
HEADER_LOG_ENDED: Final = "X-Log-Ended"
"""`true` once nothing will be added to the log that was asked for: one attempt's where the request names the attempt,
otherwise that of the job, to which a retry would still add."""
HEADER_LOG_ATTEMPT: Final = "X-Log-Attempt"
"""The number of the attempt that these bytes and offsets belong to; left out before the first attempt."""
HEADER_LOG_NEXT_ATTEMPT: Final = "X-Log-Next-Attempt"
"""The attempt whose log follows, once this one's has ended."""
_SAID: Final = "of the sentence, which stays when its words change; null where it is a person's or a backend's own"


class Answer(BaseModel):
    """A message that the console sends."""

    # A command reads two or three kinds of answers: the other kinds are never built.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class RefusalView(Answer):
    """One thing that stands against a request."""

    code: str
    what: Sentence
    why: Sentence = ""
    next_step: Sentence = ""
    gate: str | None = None


class Problem(Answer):
    """Every error of the API (RFC 9457, `application/problem+json`)."""

    type: str = "about:blank"
    title: str
    status: int
    code: str
    detail: str = ""
    next_step: str = ""
    refusals: tuple[RefusalView, ...] = ()


class Meta(Answer):
    """`GET /meta`: who answers, and what it understands. No sign-in needed.

    An `sf` that is older than `min_client` gets 426 from every other route.
    """

    server: str
    jobspec: tuple[str, ...]
    min_client: str
    features: tuple[str, ...] = ()


class WhoAmI(Answer):
    """`GET /whoami`."""

    user: str
    role: str = Field(description="admin, operator, member or viewer")
    scopes: tuple[str, ...]
    token_expires_at: float | None


def _bounded(text: str) -> str:
    if len(text.encode()) > DIFFERENCE_BYTES:
        message = f"has more than {DIFFERENCE_BYTES} bytes"
        raise ValueError(message)
    return text


class Difference(Frozen):
    """How a dirty tree differs from its commit: git's own diff, with new files whole and binary ones named."""

    text: Annotated[str, AfterValidator(_bounded)]
    is_cut: bool = Field(default=False, description="there was more of it than is kept")


class SubmitRequest(Frozen):
    """`POST /jobs` (with an Idempotency-Key) and `POST /admission`, which decides the same and keeps nothing.

    What explains the spec is kept beside it and changes no digest.
    """

    spec: JobSpec
    allow_dirty: bool = False
    difference: Difference | None = None
    config: WholeValues | None = Field(
        default=None, description="the resolved settings, whose digest is `spec.provenance.config_digest`"
    )


class CheckView(Answer):
    """What one gate said, and against which version of what."""

    gate: str
    outcome: Literal["passed", "warned", "refused"]
    against: str = ""
    message: Sentence = ""


class AdmissionRecord(Answer):
    """What was checked when the job was admitted. `digest` is that of the record's canonical JSON without itself."""

    job: str | None
    spec_digest: DigestText
    decided_at: float
    checks: tuple[CheckView, ...]
    warnings: tuple[Sentence, ...] = ()
    refusals: tuple[RefusalView, ...] = ()
    digest: DigestText | None = None


class WaitView(Answer):
    """One reason why a queued job waits, with the machines or the fleet that give it."""

    reason: Sentence
    code: str | None = Field(default=None, description=_SAID)
    places: tuple[str, ...] = ()
    more: int = Field(default=0, description="how many further machines give it, without being named")


class JobView(Answer):
    """One job as a line."""

    id: str
    name: str
    project: str
    user: str
    state: str
    reason: str
    desired: Literal["run", "stop", "pause"]
    note: str = ""
    note_code: str | None = Field(default=None, description=_SAID)
    fleet: str | None
    gpus: int
    attempt: int = Field(description="how many attempts were begun")
    submitted_at: float
    started_at: float | None = None
    ended_at: float | None = None
    retry_at: float | None = None
    state_since: float
    waits: tuple[WaitView, ...] = Field(default=(), description="of a queued job: what `note` says, reason by reason")
    recipe: str = ""
    series: str | None = Field(default=None, description="the GPUs that are asked for; None takes any")
    got_series: tuple[str, ...] = Field(default=(), description="of its attempt's GPUs; empty: it waits, or not known")
    node: str | None = Field(default=None, description="the machine of the newest attempt")
    max_runtime_s: float | None = None
    retries_left: int | None = Field(default=None, description="None: the console is too old to say")
    step: int | None = Field(default=None, description="the highest that the newest attempt has reported a point of")
    total_steps: int | None = Field(default=None, description="how many the training will have, where it says so")
    sweep: SweepPart | None = None


class EventView(Answer):
    """One change of a job's state, or one entry of its timeline. `number` grows over the whole ledger."""

    number: int
    at: float
    kind: Literal["state", "timeline"] = "state"
    state: str | None = None
    reason: str | None = None
    attempt: int | None = None
    note: str = ""
    note_code: str | None = Field(default=None, description=_SAID)
    count: int = 1


class EventList(Answer):
    """`GET /jobs/{id}/events?after=&wait_s=`: events with a number above `after`, oldest first, 500 at most."""

    items: tuple[EventView, ...]


class GivenSecretView(Answer):
    """A secret that an attempt was given: its name, and when its owner had set it. Never a value."""

    name: str
    set_at: float


class AttemptView(Answer):
    """One attempt of a job."""

    number: int
    id: str
    fleet: str | None = None
    node: str | None = None
    gpus: tuple[str, ...] = ()
    series: tuple[str, ...] = Field(default=(), description="of these GPUs, each once; empty: not known of each")
    image_id: str | None = None
    image_digest: str | None = Field(default=None, description="what ran, at the image's own registry")
    is_bare: bool | None = Field(
        default=None, description="whether it ran without a container, and so without its image; None: not known"
    )
    capsule_digest: str | None = Field(default=None, description="None: it was never assembled")
    runner_digest: str | None = None
    dequeued_at: float
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    reason: str | None = None
    costs_retry: bool = False
    evidence: dict[str, JsonValue] = Field(default_factory=dict)
    secrets: tuple[GivenSecretView, ...] = ()


class LogState(Answer):
    """Whether the console holds all of the log. `produced_bytes` is None until the attempt has ended."""

    received_bytes: int
    produced_bytes: int | None = None
    missing: tuple[tuple[int, int], ...] = ()
    removed_at: float | None = Field(default=None, description="when retention removed it; None while it is here")
    from_spool: bool = Field(default=False, description="the job runs unheard of: its log is read from the storage")


class LineageView(Answer):
    """What is kept of a job's origin beside its spec."""

    rerun_of: str | None = Field(default=None, description="the job whose spec was submitted again")
    difference_bytes: int | None = Field(default=None, description="None: none is kept")
    difference_is_cut: bool = False
    config: dict[str, JsonValue] | None = Field(default=None, description="the resolved settings, where they were sent")


class DifferenceView(Answer):
    """`GET /jobs/{id}/difference`: 404 where none is kept."""

    job: str
    commit: str | None
    text: str
    is_cut: bool = False


class NativeView(Answer):
    """`GET /jobs/{id}/native`: 404 where the fleet keeps none."""

    job: str
    attempt: int
    fleet: str
    text: str = Field(description="what was sent to start the attempt, as people read it")


class InputView(Answer):
    """What a job reads beside its workspace, as it was pinned: `member` of the spec names it.

    `hub`: `name` is `owner/name@revision`, `version` the commit, null until it is known. `path`: below a data root.
    `checkpoint`: `name` is the other job, `version` its attempt and step.
    """

    member: str
    kind: Literal["hub", "path", "checkpoint"]
    name: str
    version: str | None = None


class JobDetail(Answer):
    """`GET /jobs/{id}`."""

    job: JobView
    spec: JobSpec
    spec_digest: DigestText
    image_digest: str | None = Field(
        default=None, description="what the image's registry said that its tag means; every attempt runs that"
    )
    admission: AdmissionRecord
    events: tuple[EventView, ...]
    attempts: tuple[AttemptView, ...]
    log: LogState
    inputs: tuple[InputView, ...] = ()
    lineage: LineageView = LineageView()


class JobList(Answer):
    """`GET /jobs?limit=&cursor=&state=&user=&project=&sweep=&q=`, newest first. `next` continues; None at the end."""

    items: tuple[JobView, ...]
    next: str | None = None


class JobCounts(Answer):
    """`GET /job-counts?user=&project=&sweep=&q=`: how many of the wanted jobs are in each state; none are left out."""

    states: dict[str, int]
    active: int = Field(description="how many have not ended for good; failed jobs that will be retried are among them")


class StopRequest(Frozen):
    """`POST /jobs/{id}/stop`. `grace_s` None takes the job's own."""

    grace_s: Annotated[float, Field(ge=0, le=3600)] | None = None
    note: Text | None = None


class MethodView(Answer):
    """A published method of the catalog. `summary` is keyed by language (`en`, `zh-Hans`)."""

    name: str
    version: str
    digest: DigestText
    framework_versions: tuple[str, ...]
    summary: dict[str, str]


class MethodList(Answer):
    """`GET /methods`."""

    items: tuple[MethodView, ...]


class ProfileView(Answer):
    """A named shape of the hardware registry. `series` None takes any GPU; `gpus` 0 takes none."""

    name: str
    series: str | None
    gpus: int = Field(description="GPUs when the profile is named without a number")
    gpus_per_node: int = Field(description="GPUs of one whole node; 0 for a profile without GPUs")
    cpus: float | None = None
    memory_bytes: int | None = None


class ProfileList(Answer):
    """`GET /profiles`."""

    items: tuple[ProfileView, ...]


class BlobState(Answer):
    """`GET /blobs/{digest}` and the answer to `PUT /blobs/{digest}` (the plain tar, or zstd by Content-Encoding)."""

    digest: DigestText
    present: bool
    bytes: int | None = None
    received: int = 0
    """Plain bytes of an upload of the caller's that was cut: the next one may go on there."""
