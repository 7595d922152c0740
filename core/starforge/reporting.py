"""`starforge.report`: metrics, samples and checkpoints from inside a training process.

    from starforge import report

    report.init(hparams={"lr": 3e-4})
    report.log({"loss": 0.31}, step=1)
    report.finish()

Without the platform every call does nothing and gives False. No call raises into the training, waits for a network, or
costs more than a few microseconds (`commit_checkpoint`, which reads files, excepted). Ranks other than 0 are dropped
unless `init(all_ranks=True)` asked for them. Standard library alone, Python 3.8 and newer.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import sys
import time
from array import array
from binascii import b2a_base64
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sized,
    Tuple,
    TypeVar,
    Union,
    cast,
)

from starforge.contract.bounds import LINE_BYTES

if TYPE_CHECKING:
    StarForgeCallback: Any

__all__ = [
    "StarForgeCallback",
    "add_to_trainer",
    "checkpoint_directory",
    "commit_checkpoint",
    "finish",
    "init",
    "log",
    "note",
    "resume_from",
    "samples",
    "total_steps",
]

Number = Union[int, float]
CallT = TypeVar("CallT", bound=Callable[..., Any])

_RANK_NAMES = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "FORGE_NODE_RANK")
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
_MOST_KEYS = 10_000  # a training that makes up names without end does not fill the memory
_MOST_SETS = 256  # of names that were reported together
_MOST_SET_NAMES = 40_000  # in all of them
_LONGEST_SET = LINE_BYTES // 2  # what the runner unpacks must not grow longer than a line may be
_FRAME_BYTES = 100  # of a line around its values
_PLAIN = frozenset((float, int))
_MOST_ROWS = 64  # of one call of samples
_MOST_CHARACTERS = 8192  # of one of their texts
_ROOM_BYTES = 4096  # of a line beside its rows
_now = time.time


class _Line:
    """The file that the runner reads, opened at the first use; closed for good in ranks that are dropped."""

    def __init__(self) -> None:
        self.fd = -1
        self.step = 0
        self.all_ranks = False
        self._is_decided = False
        self._has_warned = False

    def is_open(self) -> bool:
        """Open the file if this process is to report; a process forked later shares it."""
        if not self._is_decided:
            self._is_decided = True
            path = os.environ.get("FORGE_REPORT_FILE")
            if path and (self.all_ranks or _is_first_rank()):
                try:
                    self.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                except OSError as error:
                    self.warn(f"{path} cannot be opened: {error}")
        return self.fd >= 0

    def ask_all_ranks(self) -> None:
        """Let this process report whatever its rank."""
        if not self.all_ranks:
            self.all_ranks = True
            self._is_decided = self.fd >= 0

    def write(self, text: str) -> bool:
        """Append one line with one write: lines of several processes never mix."""
        content = text.encode("ascii")
        if len(content) > LINE_BYTES:
            return self.warn(f"a report of {len(content)} bytes was dropped: it may have {LINE_BYTES} at most")
        return os.write(self.fd, content) == len(content)

    def warn(self, why: str) -> bool:
        """Say once, on stderr, that something is not reported. Always False."""
        if not self._has_warned:
            self._has_warned = True
            sys.stderr.write(f"starforge.report: {why}; the training goes on\n")
        return False


class _Keys(Dict[Any, str]):
    """How JSON writes a metric's name, with the colon."""

    def __missing__(self, key: Any) -> str:  # noqa: ANN401 - a name should be a string, others become one
        if len(self) >= _MOST_KEYS:
            self.clear()
        self[key] = _encode(str(key)) + ":"
        return self[key]


_line = _Line()
_keys = _Keys()
_sets: Dict[Any, str] = {}  # names that were written together -> what later lines call them


def _guard(call: CallT) -> CallT:
    """Let a call warn, and give False, where it would raise into the training."""

    @functools.wraps(call)
    def guarded(*given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever a training passes
        try:
            return call(*given, **named)
        except Exception as error:  # noqa: BLE001 - reporting never raises into a training
            return _line.warn(f"{call.__name__} was dropped: {type(error).__name__}: {error}")

    return cast("CallT", guarded)


def log(values: Mapping[str, Any], step: Optional[int] = None) -> bool:
    """Report numbers at a step; without one, the step after the last. NaN and infinities survive.

    A value may also be a tensor or an array of one number. What is no number is left out, with one warning.
    """
    try:
        if _line.fd < 0 and not _line.is_open():
            return False
        step = _line.step = _line.step + 1 if step is None else step
        known = _sets.get(tuple(values))
        if known is not None and _PLAIN.issuperset(map(type, values.values())):
            # This is called in the innermost loop of trainings, and numbers as text take twice as long as all else.
            packed = b2a_base64(array("d", values.values()), newline=False).decode("ascii")
            return _line.write(f'{{"time":{_now():.6f},"step":{step:d},"keys":"{known}","packed":"{packed}"}}\n')
        return _write_values(values, step)
    except Exception as error:  # noqa: BLE001 - reporting never raises into a training
        return _line.warn(f"a report was dropped: {type(error).__name__}: {error}")


@_guard
def init(hparams: Any = None, *, all_ranks: bool = False) -> bool:  # noqa: ANN401 - a mapping or what has attributes
    """Report the hyperparameters as the training sees them: a mapping, or an object with them as its attributes.

    `all_ranks`: this process reports whatever its rank.
    """
    if all_ranks:
        _line.ask_all_ranks()
    return _event("hparams", values={} if hparams is None else _list_members(hparams))


@_guard
def samples(rows: Iterable[Mapping[str, Any]], step: Optional[int] = None, name: str = "samples") -> bool:
    """Report examples of what the model gives, such as [{"prompt": …, "completion": …}].

    At most 64 rows of one call are reported, and of a long text its beginning.
    """
    if not _line.is_open():
        return False
    kept, left_out = _bound_rows(rows)
    told = {"name": name, "step": _line.step if step is None else step, "rows": kept}
    return _event("samples", **told, **({"left_out": left_out} if left_out else {}))


@_guard
def total_steps(count: int) -> bool:
    """Tell how many steps the training will have; reaching it is what makes a run complete."""
    return _event("total_steps", total_steps=int(count))


@_guard
def note(message: str, code: str = "job") -> bool:
    """Put a sentence into the run's timeline."""
    return _event("note", code=code, message=message)


@_guard
def finish() -> bool:
    """Tell that the training is complete. An exit with code 0 alone does not say so."""
    return _event("finish")


def resume_from() -> Optional[str]:
    """Give the directory of the newest committed checkpoint to go on from; None to start afresh."""
    return os.environ.get("FORGE_RESUME_FROM") or None


def checkpoint_directory(step: int) -> Optional[str]:
    """Give the directory to write the checkpoint of a step into, made if need be; None without the platform."""
    root = os.environ.get("FORGE_CKPT_DIR")
    if not root:
        return None
    path = os.path.join(root, f"step-{step}")
    try:
        os.makedirs(path, exist_ok=True)
    except (OSError, ValueError) as error:  # the latter: a step that no path can hold
        _line.warn(f"{path} cannot be made: {error}")
        return None
    return path


@_guard
def commit_checkpoint(step: int, directory: Optional[str] = None) -> bool:
    """Declare that the checkpoint of a step is whole; from then on a later attempt resumes from it.

    `directory` is below FORGE_CKPT_DIR; without it, that of `checkpoint_directory(step)`. Nobody may write to it any
    more. False, with a warning, when it lies elsewhere or cannot be read.
    """
    root = os.environ.get("FORGE_CKPT_DIR")
    if not root or not _line.is_open():
        return False
    path = os.path.realpath(directory if directory is not None else os.path.join(root, f"step-{step}"))
    top = os.path.realpath(root)
    if not path.startswith(top + os.sep):
        return _line.warn(f"checkpoint {path} is not committed: it lies outside of {root}")
    try:
        from starforge.runner.checkpoints import commit  # noqa: PLC0415 - only who commits pays for it

        commit(path, int(step))
    except Exception as error:  # noqa: BLE001 - reporting never raises into a training
        return _line.warn(f"checkpoint {path} is not committed: {error}")
    return _event("checkpoint", step=int(step), path=os.path.relpath(path, top), committed=True)


def add_to_trainer(trainer_class: Any) -> None:  # noqa: ANN401 - transformers' Trainer, which is not imported here
    """Make every trainer of the class report by itself. Where that fails a note says so and the training goes on."""
    try:
        from starforge.runner.trainer_callback import patch_trainer  # noqa: PLC0415 - imports transformers

        patch_trainer(trainer_class, __getattr__("StarForgeCallback"))
    except Exception as error:  # noqa: BLE001 - reporting never raises into a training
        note(f"the trainer does not report: {type(error).__name__}: {error}", code="trainer_hook")


def __getattr__(name: str) -> Any:  # noqa: ANN401 - module attributes have any type
    """Build the Trainer's callback when it is asked for: transformers takes seconds to import."""
    if name != "StarForgeCallback":
        raise AttributeError(f"module 'starforge.report' has no attribute {name!r}")
    if name not in globals():
        from starforge.runner.trainer_callback import build_callback  # noqa: PLC0415 - see above

        globals()[name] = build_callback(sys.modules[__name__])
    return globals()[name]


def _write_values(values: Mapping[str, Any], step: int) -> bool:
    """Write numbers as text. Names that come all with plain numbers get a word, by which packed lines call them."""
    parts = []
    for key, value in values.items():
        if type(value) in _PLAIN and value - value == 0:
            parts.append(f"{_keys[key]}{value!r}")
        else:
            parts += [f"{_keys[key]}{_encode(number)}" for number in _list_number(key, value)]
    names = tuple(values)
    is_set = len(_sets) < _MOST_SETS and len(parts) == len(names) and all(type(name) is str for name in names)
    is_short = sum(map(len, parts)) + len(parts) < _LONGEST_SET
    if not (is_set and is_short):
        return _write_parts(parts, step)
    word = os.urandom(6).hex()  # random: a forked process makes up words of its own
    written = _line.write(f'{{"time":{_now():.6f},"step":{step:d},"values":{{{",".join(parts)}}},"keys":"{word}"}}\n')
    if written and sum(map(len, _sets)) + len(names) <= _MOST_SET_NAMES:
        _sets[names] = word
    return written


def _write_parts(parts: List[str], step: int) -> bool:
    """Write members of `values`, in as many lines as they take."""
    if len(parts) > 1 and sum(map(len, parts)) + len(parts) > LINE_BYTES - _FRAME_BYTES:
        middle = len(parts) // 2
        return _write_parts(parts[:middle], step) and _write_parts(parts[middle:], step)
    return _line.write(f'{{"time":{_now():.6f},"step":{step:d},"values":{{{",".join(parts)}}}}}\n')


def _event(kind: str, **members: Any) -> bool:  # noqa: ANN401 - JSON values
    if not _line.is_open():
        return False
    document: Dict[str, Any] = {"time": _now(), "kind": kind}
    document.update(_build_plain(members))
    return _line.write(_encode(document) + "\n")


def _list_members(hparams: Any) -> Mapping[str, Any]:  # noqa: ANN401 - see init
    return hparams if isinstance(hparams, Mapping) else vars(hparams)


def _bound_rows(rows: Iterable[Mapping[str, Any]]) -> Tuple[List[Any], int]:
    """Give as many rows as fit into one line, their texts cut, and how many are left out (as far as that is known)."""
    count = len(rows) if isinstance(rows, Sized) else None
    kept = [_build_plain(row) for row in itertools.islice(rows, _MOST_ROWS + 1)]
    count = len(kept) if count is None else count
    most = _MOST_CHARACTERS
    kept = kept[:_MOST_ROWS]
    while True:
        kept = [_cut_texts(row, most) for row in kept]
        if len(_encode(kept)) < LINE_BYTES - _ROOM_BYTES or most <= 1:
            return kept, max(0, count - len(kept))
        if len(kept) > 1:
            kept = kept[: len(kept) // 2]
        else:
            most //= 2


def _cut_texts(row: Any, most: int) -> Any:  # noqa: ANN401 - JSON values
    if not isinstance(row, dict):
        return row
    return {key: _cut_text(value, most) for key, value in row.items()}


def _cut_text(value: Any, most: int) -> Any:  # noqa: ANN401 - JSON values
    if not isinstance(value, str) or len(value) <= most + 40:
        return value
    return "%s… [%d more characters]" % (value[:most], len(value) - most)


def _is_first_rank() -> bool:
    for name in _RANK_NAMES:
        rank = os.environ.get(name)
        if rank is not None:
            return rank == "0"
    return True


def _list_number(key: Any, value: Any) -> List[Union[Number, str]]:  # noqa: ANN401 - whatever a training passes
    number = _find_number(value)
    if number is None:
        _line.warn(f"{key} is left out: {type(value).__name__} is no number")
    return [] if number is None else [number]


def _find_number(value: Any) -> Union[Number, str, None]:  # noqa: ANN401 - whatever a training passes
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return int(value)
    if not isinstance(value, float):
        item = getattr(value, "item", None)
        if item is None or getattr(value, "size", 1) == 0:
            return None
        return _find_number(item())
    return _name_infinite(value) or float(value)


def _name_infinite(value: float) -> Optional[str]:
    if value != value:  # noqa: PLR0124 - what only NaN does
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return None


def _build_plain(value: Any) -> Any:  # noqa: ANN401 - any value of a training
    """Make what JSON can hold: numbers stay numbers, unknown things become their text."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _build_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)) or hasattr(value, "__next__"):
        return [_build_plain(item) for item in value]
    try:
        number = _find_number(value)
    except (TypeError, ValueError, RuntimeError):
        number = None  # an array of more than one number, for one
    return str(value) if number is None else number
