"""What the exit alone tells, where the log tells nothing; and where the platform knows better than any log."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from starforge.diagnosis.answer import Category, Confidence, Diagnosis, Ending, KnownExit, Spot
from starforge.diagnosis.rule import Rule

SIGKILL_CODE: Final = 137
_SOURCE: Final = "https://docs.docker.com/reference/cli/docker/container/run/#exit-status"


def _rule(kind: str, category: Category, summary: str, advice: str, confidence: Confidence = Confidence.SURE) -> Rule:
    return Rule(
        kind=kind,
        category=category,
        patterns=(),
        summary=summary,
        advice=advice,
        source=_SOURCE,
        confidence=confidence,
    )


STOPPED: Final = _rule(
    "stopped_by_us", Category.STOPPED, "Somebody stopped or paused it.", "Continue it when you want it to go on."
)
TIME_LIMIT: Final = _rule(
    "time_limit_reached",
    Category.STOPPED,
    "It reached the time limit of the job.",
    "Raise max_runtime, or continue it from its last checkpoint.",
)
KERNEL_KILLED: Final = _rule(
    "memory_limit_reached",
    Category.HOST_OOM,
    "The kernel killed a process of it because the job reached its limit of host memory.",
    "Ask for more memory, or hold less of it: fewer data loader workers, streamed data, fewer copies of a checkpoint.",
)
KILLED: Final = _rule(
    "killed_by_someone",
    Category.KILLED_UNKNOWN,
    "It was killed with signal 9, and nothing tells by whom.",
    "See the machine's kernel log and whether somebody killed it, before calling it memory.",
)
GPU_LOST: Final = _rule(
    "gpu_lost",
    Category.GPU_HARDWARE,
    "A GPU was lost while the job ran.",
    "Nothing is wrong with the job: run it on other GPUs, and have this one looked at.",
)
CRASHED: Final = _rule(
    "crashed_by_exit",
    Category.NATIVE_CRASH,
    "A native library crashed the process (segmentation fault); the log does not tell which.",
    "Run it once with PYTHONFAULTHANDLER=1: the log then shows where it crashed.",
    Confidence.LIKELY,
)
ABORTED: Final = _rule(
    "aborted_by_exit",
    Category.NATIVE_CRASH,
    "Native code ended the process by itself (abort); the log does not tell why.",
    "Read the last lines of the log; with PYTHONFAULTHANDLER=1 it also shows where.",
    Confidence.LOW,
)
BUS_ERROR: Final = _rule(
    "bus_error_by_exit",
    Category.SHM_TOO_SMALL,
    "A bus error ended it, as when /dev/shm is full.",
    "Ask for more shared memory, or use fewer data loader workers.",
    Confidence.LOW,
)
ILLEGAL_INSTRUCTION: Final = _rule(
    "illegal_instruction_by_exit",
    Category.BINARY_MISMATCH,
    "A library was built for a newer processor than this machine has (illegal instruction).",
    "Use a build for older processors, or a machine with a newer one.",
    Confidence.LIKELY,
)
TERMINATED: Final = _rule(
    "terminated_by_someone",
    Category.STOPPED,
    "Signal 15 asked it to end, and nothing tells who sent it.",
    "If nobody stopped it, see whether the machine or its engine was restarted, and continue the job.",
    Confidence.LIKELY,
)
LOSS_BROKEN: Final = _rule(
    "loss_not_a_number",
    Category.NAN_LOSS,
    "From this step on the loss was not a number, or zero with a gradient that is none, up to the end.",
    "The model is worthless from here on. Start from an earlier checkpoint with a lower learning rate, clipped "
    "gradients or bf16, and look at the data of this step.",
    Confidence.SURE,
)
INTERRUPTED: Final = _rule(
    "ended_by_machine",
    Category.STOPPED,
    "The machine or its engine ended it, not the job itself.",
    "Nothing is wrong with the job: it goes on from its last checkpoint when it runs again.",
)
SUCCEEDED: Final = _rule(
    "succeeded",
    Category.UNKNOWN,
    "Nothing to diagnose: it ended with 0, and its loss did not stop being a number.",
    "Look at its curves and outputs.",
    Confidence.UNKNOWN,
)
UNKNOWN: Final = _rule(
    "unknown",
    Category.UNKNOWN,
    "Not diagnosed: no rule knows how it ended.",
    "Read the log around the line that is named, or its end; the exit reason of the attempt tells what else is known.",
    Confidence.UNKNOWN,
)

EXIT_RULES: Final = (
    STOPPED,
    TIME_LIMIT,
    KERNEL_KILLED,
    KILLED,
    GPU_LOST,
    CRASHED,
    ABORTED,
    BUS_ERROR,
    ILLEGAL_INSTRUCTION,
    TERMINATED,
    LOSS_BROKEN,
    INTERRUPTED,
    SUCCEEDED,
    UNKNOWN,
)

_SETTLED: Final[Mapping[Ending, Rule]] = MappingProxyType(
    {
        Ending.STOPPED: STOPPED,
        Ending.TIME_LIMIT: TIME_LIMIT,
        Ending.OUT_OF_MEMORY: KERNEL_KILLED,
        Ending.GPU_LOST: GPU_LOST,
        Ending.INTERRUPTED: INTERRUPTED,
    }
)
_BY_CODE: Final[Mapping[int, Rule]] = MappingProxyType(
    {
        132: ILLEGAL_INSTRUCTION,
        134: ABORTED,
        135: BUS_ERROR,
        SIGKILL_CODE: KILLED,
        139: CRASHED,
        143: TERMINATED,
    }
)


def find_settled(known: KnownExit) -> Rule | None:
    """What the platform has settled, whatever the log says; None when it left that open."""
    return None if known.ending is None else _SETTLED[known.ending]


def find_by_code(known: KnownExit) -> Rule | None:
    """What the exit code tells by itself; None for a code that programs choose."""
    if known.code is None:
        return None
    if known.code == SIGKILL_CODE and known.kernel_killed:
        return KERNEL_KILLED
    return _BY_CODE.get(known.code)


def answer(rule: Rule, spot: Spot | None = None, confidence: Confidence | None = None) -> Diagnosis:
    """The diagnosis that `rule` gives."""
    return Diagnosis(
        kind=rule.kind,
        category=rule.category,
        summary=rule.summary,
        advice=rule.advice,
        confidence=confidence or rule.confidence,
        spot=spot,
        retryable=rule.retryable,
    )
