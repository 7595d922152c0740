"""What a job reads beside its workspace: how its spec names it, and what each name was pinned to. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Final, Literal, Protocol, TypeAlias

from starforge.contract.jobspec import JobSpec

MODEL: Final = "model"
TRAIN: Final = "data.train"
VALIDATION: Final = "data.validation"
START: Final = "init_from"

HUB_SCHEME: Final = "hf://"
DEFAULT_REVISION: Final = "main"

HubKind = Literal["model", "dataset"]

_PART: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_-])?"
_HUB: Final = re.compile(rf"hf://({_PART}/{_PART})(?:@([A-Za-z0-9][A-Za-z0-9._/-]{{0,199}}))?")
_CHECKPOINT: Final = re.compile(r"run/(j[a-z2-7]{9})/checkpoint(?:@step=([0-9]{1,18}))?")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class HubRef:
    """A model or dataset at a hub: `repo` is `owner/name`, `revision` a branch, a tag or a commit."""

    kind: HubKind
    repo: str
    revision: str

    def __str__(self) -> str:
        return f"{HUB_SCHEME}{self.repo}@{self.revision}"

    @property
    def commit(self) -> str | None:
        """The commit, where the revision is the whole of one's hash already."""
        return self.revision if is_commit(self.revision) else None


@dataclass(frozen=True, slots=True)
class HubInput:
    """A reference to a hub and the commit that its revision stood for; None as long as nobody has been able to ask."""

    ref: HubRef
    commit: str | None


@dataclass(frozen=True, slots=True)
class PathInput:
    """A file or folder below a data root. Both are as they are written, not as links resolve.

    `columns` are those of its first rows, where somebody looked and they are known; they say nothing of what it is.
    """

    path: str
    root: str
    columns: frozenset[str] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class CheckpointInput:
    """A committed checkpoint of another job; `folder` is relative to that attempt's checkpoints."""

    job: str
    attempt: int
    step: int
    folder: str


JobInput: TypeAlias = HubInput | PathInput | CheckpointInput
JobInputs: TypeAlias = Mapping[str, JobInput]
"""By the member of the spec that names it. A path in the workspace is none: the workspace is there already."""
NO_INPUTS: Final[JobInputs] = MappingProxyType({})


class HubStanding(Enum):
    """What a hub said of a reference. The last three are no answer: something else stood in the way."""

    READABLE = auto()
    NOT_FOUND = auto()
    REVISION_NOT_FOUND = auto()
    GATED = auto()
    FORBIDDEN = auto()
    TOKEN_REFUSED = auto()
    DISTURBED = auto()
    BLOCKED = auto()
    SILENT = auto()


UNANSWERED: Final = frozenset({HubStanding.DISTURBED, HubStanding.BLOCKED, HubStanding.SILENT})
"""Nobody knows: the hub is disturbed (5xx, too many requests), something before it blocks, or it is silent."""


@dataclass(frozen=True, slots=True)
class HubAnswer:
    """What is known of a reference. `commit` is that of a readable one; `why` is for people and holds no secret."""

    standing: HubStanding
    commit: str | None = None
    why: str = ""


class HubSource(Protocol):
    """Who asks the hub."""

    @property
    def endpoint(self) -> str:
        """Where the hub answers."""

    async def ask(self, ref: HubRef) -> HubAnswer:
        """Whether the console may read `ref`, and which commit it is; within a time limit."""


@dataclass(frozen=True, slots=True)
class InputFault:
    """Why an input on the storage cannot be had; `code` is stable."""

    code: str
    what: str
    why: str = ""
    next_step: str = ""


def is_commit(text: str) -> bool:
    """Whether `text` is the whole hash of a commit."""
    return _COMMIT.fullmatch(text) is not None


def find_named(spec: JobSpec) -> dict[str, str]:
    """What the job names to read, by the member of the spec; workspace paths are among it."""
    asked = spec.spec
    named = {MODEL: asked.model, TRAIN: asked.data.train, VALIDATION: asked.data.validation, START: asked.init_from}
    return {member: text for member, text in named.items() if text}


def find_hub_ref(member: str, text: str) -> HubRef | None:
    """`text` as a reference to a hub, or None when it is none. The model is a model, everything else a dataset."""
    found = _HUB.fullmatch(text)
    if found is None or ".." in found[0]:
        return None
    return HubRef("model" if member == MODEL else "dataset", found[1], found[2] or DEFAULT_REVISION)


def parse_checkpoint(text: str) -> tuple[str, int | None]:
    """The job and the step (None: the newest) of `run/JOB/checkpoint[@step=N]`. Raises ValueError."""
    found = _CHECKPOINT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return found[1], None if found[2] is None else int(found[2])


def describe_input(given: JobInput) -> str:
    """What the input is pinned to, as a text."""
    match given:
        case HubInput(ref=ref, commit=commit):
            return f"{ref} = commit {commit}" if commit else f"{ref}, commit not known yet"
        case PathInput(path=path):
            return path
        case CheckpointInput():
            return f"step {given.step} of attempt {given.attempt} of job {given.job}"
