"""The capsule's contract: names, documents and exit codes on which the console and the runner agree.

It enters foreign images: standard library alone, Python 3.8 and newer. Every document is a frozen record with
`to_json()` and `from_json()`. A member this version does not know is ignored, so that an older runner reads a newer
console's capsule; another major version is refused.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Literal, Optional, Tuple, Type, TypeVar, Union, get_args, get_origin, get_type_hints

CAPSULE_VERSION = "1.0"

# Files of the capsule. SHA256SUMS covers all others; its own digest is FORGE_CAPSULE_DIGEST.
SUMS_FILE = "SHA256SUMS"
CAPSULE_FILE = "capsule.json"
BOOTSTRAP_FILE = "bootstrap.sh"
RUNNER_FILE = "runner.pex"

# Where the capsule is mounted, read-only, below the attempt's directory, which is the container's working directory.
CAPSULE_MOUNT = ".starforge/capsule"

# Directories and files of an attempt.
WORK_DIRECTORY = "work"
CKPT_DIRECTORY = "ckpt"
SPOOL_DIRECTORY = "spool"
CONTROL_FILE = "control.json"
EXIT_FILE = "exit.json"

# Where ingest listens, below the address of the capsule.
INGEST_PREFIX = "/api/ingest/v1"

# The record of an attempt: byte streams below spool/ (for nodes other than the leader: below node-<k>/).
STREAM_LOG = "log"
STREAM_METRICS = "metrics"
STREAM_EVENTS = "events"
SPOOL_FILES = {STREAM_LOG: "log.bin", STREAM_METRICS: "metrics.jsonl", STREAM_EVENTS: "events.jsonl"}

# How the names of metrics begin that the runner measures of the machine; their steps are Unix seconds.
SYSTEM_METRICS = "system/"

# Written last into a checkpoint's directory, by rename: with it the checkpoint is committed.
CHECKPOINT_MANIFEST = "starforge-checkpoint.json"
# What the training process reads its resolved hyperparameters from (FORGE_SPEC), in its working directory.
RESOLVED_CONFIG_FILE = "config.resolved.json"

# Secrets of the run: one file each, named as the variable the training process gets. The token is never handed on.
SECRETS_DIR = "/run/starforge"
INGEST_TOKEN_NAME = "ingest-token"  # noqa: S105 - the name of a file, not its content

# Exit codes of bootstrap and runner before the training process starts.
EXIT_PORT_TAKEN = 75
EXIT_REQUIREMENTS = 78
EXIT_CAPSULE_CHANGED = 97
EXIT_NO_PYTHON = 98
EXIT_UNRECORDED = 96  # the job ended with 0, and took the place where the exit record is written

# Container environment: set by the console, read by bootstrap and runner.
ENV_CAPSULE_DIGEST = "FORGE_CAPSULE_DIGEST"
ENV_NODE_RANK = "FORGE_NODE_RANK"
ENV_PYTHON = "FORGE_PYTHON"
ENV_SECRETS_DIR = "FORGE_SECRETS_DIR"  # overrides SECRETS_DIR
ENV_INGEST_URL = "FORGE_INGEST_URL"
ENV_NODE_COUNT = "FORGE_NODE_COUNT"  # of the training process; the rank is both's
ENV_LEADER_ADDR = "FORGE_LEADER_ADDR"  # where the other nodes reach the leader; of attempts of several nodes alone
ENV_PORT_BASE = "FORGE_PORT_BASE"  # the first of the attempt's ports on the host's network

# What the job may want to know of itself; nothing of ours reads it.
ENV_PROJECT = "FORGE_PROJECT"
ENV_EXPERIMENT = "FORGE_EXPERIMENT"
ENV_FLEET = "FORGE_FLEET"
ENV_RECIPE = "FORGE_RECIPE"
ENV_GPUS = "FORGE_GPUS"

# Environment of the training process.
ENV_JOB = "FORGE_JOB"
ENV_ATTEMPT = "FORGE_ATTEMPT"  # also in the container's environment
ENV_ATTEMPT_NUMBER = "FORGE_ATTEMPT_NUMBER"
ENV_OUT_DIR = "FORGE_OUT_DIR"  # outputs kept over attempts; also in the container's environment
ENV_EARLIER_OUT_DIRS = "FORGE_EARLIER_OUT_DIRS"  # those of earlier attempts, newest first, between colons
ENV_CKPT_DIR = "FORGE_CKPT_DIR"  # this attempt's checkpoints
ENV_RESUME_FROM = "FORGE_RESUME_FROM"  # newest committed checkpoint; unset when there is none
ENV_SPEC = "FORGE_SPEC"  # path of RESOLVED_CONFIG_FILE
ENV_REPORT_FILE = "FORGE_REPORT_FILE"  # where starforge.report appends

# Set by a plan whose program calls the Trainer's train() without the checkpoint that its own arguments name: the hook
# hands it over.
ENV_TRAINER_RESUMES = "FORGE_TRAINER_RESUMES"

# Words that the runner replaces in a plan's argv, environment and files by the paths of the attempt.
PLACE_WORK = "@FORGE_WORK_DIR@"
PLACE_CKPT = "@FORGE_CKPT_DIR@"
PLACE_OUT = "@FORGE_OUT_DIR@"
PLACE_RESUME = "@FORGE_RESUME_FROM@"
PLACE_RESUME_STEP = "@FORGE_RESUME_STEP@"  # the step of that checkpoint
PLACE_PYTHON = "@FORGE_PYTHON@"  # the image's own Python, the one that runs the runner

Desired = Literal["run", "stop", "pause"]
ExitCause = Literal[
    "requirements",
    "capsule_changed",
    "workspace",
    "port_taken",
    "start_failed",
    "max_runtime",
    "already_complete",
    "runner_failed",
]

RecordT = TypeVar("RecordT", bound="Record")


class CapsuleError(ValueError):
    """A document of the capsule that cannot be read: says which member, what it holds and what was expected."""


class Record:
    """A document that travels as JSON."""

    def to_json(self) -> Dict[str, Any]:
        """Give the document as what `json.dumps` takes; members that are None stay as null."""
        return {field.name: _encode(getattr(self, field.name)) for field in dataclasses.fields(self)}  # type: ignore[arg-type]  # every subclass is a dataclass

    @classmethod
    def from_json(cls: Type[RecordT], document: Any) -> RecordT:  # noqa: ANN401 - parsed JSON may be anything
        """Read what `to_json` gave. Raises CapsuleError with the member's name; unknown members are ignored."""
        return _decode(cls, document, cls.__name__)  # type: ignore[no-any-return]  # _decode gives the class it is asked for


@dataclasses.dataclass(frozen=True)
class Requirement(Record):
    """A distribution the image must have, with a PEP 440 range such as `>=1.9,<2`; empty takes any version."""

    module: str
    specifier: str = ""


@dataclasses.dataclass(frozen=True)
class Requirements(Record):
    """What the image must offer: Python's range, distributions, and how many GPUs are to be visible (None: any)."""

    python: str = ""
    modules: Tuple[Requirement, ...] = ()
    gpus: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class MetricSource(Record):
    """Where metrics come from; `path` is relative to the work directory, or begins with a PLACE_ word.

    `jsonl`: a file, one object a line, whose numbers lie at its top or below `data`. `tensorboard`: a directory below
    which event files appear. `lm_eval`: a directory below which lm-evaluation-harness leaves `results_*.json`.
    """

    kind: Literal["report", "trainer", "jsonl", "tensorboard", "lm_eval"]
    path: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class CheckpointRule(Record):
    """How checkpoints come to be committed.

    `manifest`: the job commits with `report.commit_checkpoint`. `folders`: the runner commits folders that match
    `pattern` (relative to the checkpoint directory, `checkpoint-*`; the last number of the name is the step) once
    every file of `complete` is there and nothing changes any more. A name of `complete` may be a glob; with a leading
    `!` it names a file that must not be there. `none`: the job keeps none.
    """

    kind: Literal["manifest", "folders", "none"] = "manifest"
    pattern: str = ""
    complete: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class CompleteRule(Record):
    """When the training is complete.

    `finish`: `report.finish()` was called. `steps`: `total_steps` were reached (None: the count that the trainer
    itself announces, or wrote into the checkpoint that is gone on from). `file`: a file that matches `path` is there, a
    glob relative to the work directory or behind a PLACE_ word. `unknown`: true when `report.finish()` was called, else
    it is not known.
    """

    kind: Literal["finish", "steps", "file", "unknown"] = "unknown"
    total_steps: Optional[int] = None
    path: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class ResumeMirror(Record):
    """For a framework that goes on only from its own checkpoint directory.

    Before the start, the committed checkpoint appears as `directory` below this attempt's checkpoints, where it lay
    below the earlier attempt's: real directories whose files are links to the old ones, so that the framework may
    remove them. `also` names further directories without which it is worth nothing, mirrored alike. `files` are written
    beside it (relative to the checkpoint directory), such as a text that names the newest step. PLACE_ words are
    replaced, but not in the names of `files`.
    """

    directory: str
    files: Dict[str, str] = dataclasses.field(default_factory=dict)
    also: Tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Plan(Record):
    """What the adapter decided: how the training process is started and what it leaves.

    `files` are written into the work directory (relative path to text). `resume` is appended to `argv` when there is
    a committed checkpoint. `links` are made in the work directory (relative path to target). `python_path` goes before
    the image's own PYTHONPATH. The PLACE_ words are replaced in `argv`, `resume`, `python_path`, the values of `env`
    and `links`, in `files` and in the paths of sources and rules. `cwd` is where the training process starts, relative
    to the work directory. `ports` are variables that name a port each, by its distance from FORGE_PORT_BASE; they are
    set on the host's network alone, where programs of two jobs would meet at their usual ports.
    """

    argv: Tuple[str, ...]
    env: Dict[str, str] = dataclasses.field(default_factory=dict)
    files: Dict[str, str] = dataclasses.field(default_factory=dict)
    metric_sources: Tuple[MetricSource, ...] = ()
    checkpoint: CheckpointRule = CheckpointRule()
    complete: CompleteRule = CompleteRule()
    resume: Tuple[str, ...] = ()
    cwd: str = "."
    links: Dict[str, str] = dataclasses.field(default_factory=dict)
    python_path: Tuple[str, ...] = ()
    resume_mirror: Optional[ResumeMirror] = None
    ports: Dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Ingest(Record):
    """Where the runner sends what it spools: the console's address, and the authority to trust beside the system's."""

    url: str
    ca_pem: Optional[str] = None


@dataclasses.dataclass(frozen=True)
class Limits(Record):
    """How long the training process may go on: after a stop, and in all (None: no limit)."""

    grace_s: float = 30.0
    max_runtime_s: Optional[float] = None


@dataclasses.dataclass(frozen=True)
class Workspace(Record):
    """The packed workspace: a plain tar, mounted read-only at `path` inside the container, and its sha256."""

    path: str
    digest: str


@dataclasses.dataclass(frozen=True)
class Capsule(Record):
    """One attempt as the runner sees it. `resume_from`: older attempts' checkpoint directories, newest first.

    `spec` is the JobSpec's canonical form. `platform_env` reaches the training process, below the plan's `env`.
    `inputs`: links to make in the work directory, relative path to the target inside the container.
    `usage_period_s`: how often the use of GPUs, processor, memory, disk and network is sampled; None for never.
    """

    version: str
    job: str
    attempt: str
    number: int
    node_count: int
    spec: Dict[str, Any]
    plan: Plan
    requirements: Requirements = Requirements()
    workspace: Optional[Workspace] = None
    ingest: Optional[Ingest] = None
    limits: Limits = Limits()
    resume_from: Tuple[str, ...] = ()
    platform_env: Dict[str, str] = dataclasses.field(default_factory=dict)
    inputs: Dict[str, str] = dataclasses.field(default_factory=dict)
    usage_period_s: Optional[float] = 15.0


@dataclasses.dataclass(frozen=True)
class ControlFile(Record):
    """The desired state, for the runner; written by rename. A higher `sequence` is newer, for those who write it.

    No `grace_s`: the limit's. The job can write it too: a reader takes what it finds, and `run` takes nothing back.
    """

    desired: Desired
    grace_s: Optional[float] = None
    sequence: int = 0


@dataclasses.dataclass(frozen=True)
class CheckpointMark(Record):
    """A committed checkpoint: its step and its directory, relative to the attempt's where it lies below it."""

    step: int
    path: str


@dataclasses.dataclass(frozen=True)
class ExitRecord(Record):
    """How the attempt ended, as the runner saw it. Times are Unix seconds; `elapsed_s` is from the monotonic clock.

    `code` is the runner's own exit code (128 + signal when the training process died of one, 0 when `complete` was
    known before a start). `term_received_at`: a TERM that reached the runner while the desired state was `run`;
    one that the job itself sent to its runner is `term_from_inside` instead. `last_line`: of a training process that
    failed, the line of its output that tells most, without secrets.
    `complete`: None is "not known". `memory`: counters of the cgroup, None where missing. `offsets`: length of each
    stream of the spool.
    """

    version: str
    attempt: str
    code: int
    signal: Optional[int]
    term_received_at: Optional[float]
    desired: Desired
    complete: Optional[bool]
    reason: Optional[ExitCause]
    message: Optional[str]
    started_at: Optional[float]
    ended_at: float
    elapsed_s: float = 0.0
    memory: Dict[str, Optional[int]] = dataclasses.field(default_factory=dict)
    checkpoint: Optional[CheckpointMark] = None
    offsets: Dict[str, int] = dataclasses.field(default_factory=dict)
    term_from_inside: bool = False
    last_line: Optional[str] = None


def node_directory(rank: int) -> str:
    """Name the directory of node `rank` below the attempt's; node 0 leads."""
    return f"node-{rank}"


def _encode(value: Any) -> Any:  # noqa: ANN401 - members of any type
    if isinstance(value, Record):
        return value.to_json()
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        return {key: _encode(item) for key, item in value.items()}
    return value


def _decode(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401 - parsed JSON against a type hint
    origin = get_origin(kind)
    if kind is Any or (origin is Union and value is None):
        return value
    if origin is Union:
        return _decode(get_args(kind)[0], value, where)
    if origin is Literal:
        _expect(value in get_args(kind), "one of " + ", ".join(get_args(kind)), value, where)
        return value
    if origin is tuple:
        _expect(isinstance(value, (list, tuple)), "a list", value, where)
        return tuple(_decode(get_args(kind)[0], item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is dict:
        _expect(isinstance(value, dict), "an object", value, where)
        return {key: _decode(get_args(kind)[1], item, f"{where}.{key}") for key, item in value.items()}
    return (_decode_record if issubclass(kind, Record) else _decode_scalar)(kind, value, where)


def _decode_record(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401 - parsed JSON against a dataclass
    _expect(isinstance(value, dict), "an object", value, where)
    _refuse_other_major(value, where)
    hints = get_type_hints(kind)
    members = {}
    for field in dataclasses.fields(kind):
        if field.name in value:
            members[field.name] = _decode(hints[field.name], value[field.name], f"{where}.{field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise CapsuleError(
                f"{where} lacks its member {field.name!r}: it was cut short or written by another program"
            )
    return kind(**members)


def _refuse_other_major(document: Dict[str, Any], where: str) -> None:
    version = document.get("version", CAPSULE_VERSION)
    if str(version).split(".", 1)[0] != CAPSULE_VERSION.split(".", 1)[0]:
        raise CapsuleError(
            f"{where} has version {version!r}, this program reads {CAPSULE_VERSION.split('.', 1)[0]}.x:"
            " console and runner must come from the same major release"
        )


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:  # noqa: ANN401 - parsed JSON against a plain type
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    right = isinstance(value, kind) and not (kind is int and isinstance(value, bool))
    _expect(right, f"a value of type {kind.__name__}", value, where)
    return value


def _expect(holds: bool, wanted: str, value: Any, where: str) -> None:  # noqa: ANN401, FBT001 - the outcome of a check
    if not holds:
        raise CapsuleError(f"{where} must be {wanted}, not {value!r:.80}")
