"""The callback that lets transformers' Trainer report by itself, and save before it is stopped."""

# ruff: noqa: ANN401 - what transformers passes has no type here
from __future__ import annotations

import ctypes
import functools
import importlib
import os
import signal
import threading
import weakref
from types import FrameType
from typing import Any, Callable, Dict, List, Optional

_MOST_COMPLETIONS = 16

# Named at run time: neither library is among our own dependencies.
TrainerCallback: Any = importlib.import_module("transformers").TrainerCallback


class TrainerReports(TrainerCallback):  # type: ignore[misc]  # its type is not known here
    """Reports what the Trainer logs, and its total of steps. On TERM all ranks save and stop at the same step."""

    report: Any  # starforge.report, which builds the class it hands out

    def __init__(self) -> None:
        self.find_trainer: Callable[[], Any] = _find_nobody  # who calls it, where it was added by the hook
        self._is_stopping = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Announce the run; take over TERM where it is free."""
        del control, kwargs
        if state.is_world_process_zero:
            self.report.init(hparams=_find_hparams(args))
            self.report.total_steps(state.max_steps)
        if self._may_take_term(args):
            signal.signal(signal.SIGTERM, self._receive_term)

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **kwargs: Any) -> None:
        """Report the numbers of one log line at the Trainer's step."""
        del args, control, kwargs
        if state.is_world_process_zero:
            numbers = {key: value for key, value in (logs or {}).items() if isinstance(value, (int, float))}
            self.report.log(numbers, step=state.global_step)
            rows = list_completions(self.find_trainer())
            if rows:
                self.report.samples(rows, step=state.global_step, name="completions")

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """After a TERM to any rank: save and stop, all ranks at once."""
        del state, kwargs
        if _agree(self._is_stopping, args):
            control.should_save = True
            control.should_training_stop = True
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Commit what a single process has written; with several ranks the runner waits until the folder is whole."""
        del control, kwargs
        if args.world_size == 1 and os.environ.get("FORGE_CKPT_DIR"):
            path = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
            top = os.path.realpath(os.environ["FORGE_CKPT_DIR"])
            if os.path.realpath(path).startswith(top + os.sep):
                self.report.commit_checkpoint(state.global_step, path)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Tell that the training is complete when it was not stopped; leave TERM as it was."""
        del control, kwargs
        if state.is_world_process_zero and state.global_step >= state.max_steps:
            self.report.finish()
        if getattr(args, "world_size", 1) > 1:
            _keep_process_group()
        if signal.getsignal(signal.SIGTERM) == self._receive_term:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _may_take_term(self, args: Any) -> bool:
        """Say whether TERM is free: only a main thread may take it, and whoever took it before keeps it."""
        if getattr(args, "enable_jit_checkpoint", False) or not os.environ.get("FORGE_REPORT_FILE"):
            return False
        in_main = threading.current_thread() is threading.main_thread()
        return in_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL

    def _receive_term(self, number: int, frame: Optional[FrameType]) -> None:
        del number, frame
        self._is_stopping = True


def build_callback(report: Any) -> type[TrainerReports]:
    """Build the callback that reports through `report`."""
    return type("StarForgeCallback", (TrainerReports,), {"report": report, "__doc__": TrainerReports.__doc__})


def patch_trainer(trainer_class: Any, callback_class: Any) -> None:
    """Add the callback to every trainer that is made of the class or of one derived from it.

    Where the plan asks for it, `train()` without a checkpoint goes on from the one that the trainer's arguments name.
    """
    original = trainer_class.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not any(isinstance(callback, TrainerReports) for callback in self.callback_handler.callbacks):
            callback = callback_class()
            callback.find_trainer = weakref.ref(self)
            self.add_callback(callback)

    trainer_class.__init__ = init
    if os.environ.get("FORGE_TRAINER_RESUMES"):
        trainer_class.train = _resuming(trainer_class.train)


def list_completions(trainer: Any) -> List[Dict[str, Any]]:
    """List what the model answered last, with its rewards, where TRL's trainer is asked to log completions.

    TRL keeps them under a name of its own; a version that keeps them otherwise gives none.
    """
    kept = getattr(trainer, "_logs", None) if getattr(trainer, "log_completions", False) else None
    if not isinstance(kept, dict):
        return []
    try:
        columns = {"prompt": kept["prompt"], "completion": kept["completion"], **dict(kept.get("rewards") or {})}
        count = min(len(columns["prompt"]), len(columns["completion"]), _MOST_COMPLETIONS)
        return [{name: values[row] for name, values in columns.items() if row < len(values)} for row in range(count)]
    except (KeyError, TypeError, IndexError):
        return []


def _find_nobody() -> None:
    return None


def _resuming(original: Any) -> Any:
    @functools.wraps(original)
    def train(self: Any, *args: Any, **kwargs: Any) -> Any:
        named = getattr(self.args, "resume_from_checkpoint", None)
        if named and not args and kwargs.get("resume_from_checkpoint") is None:
            kwargs["resume_from_checkpoint"] = named
        return original(self, *args, **kwargs)

    return train


def _find_hparams(args: Any) -> Dict[str, Any]:
    to_dict = getattr(args, "to_sanitized_dict", None)
    return dict(to_dict()) if to_dict is not None else {}


def _agree(is_stopping: bool, args: Any) -> bool:  # noqa: FBT001 - the fact that the ranks agree about
    """Say whether any rank is stopping: a rank that stopped alone would leave the others waiting for it."""
    if getattr(args, "world_size", 1) <= 1:
        return is_stopping
    torch = importlib.import_module("torch")
    if not torch.distributed.is_initialized():
        return is_stopping
    flag = torch.tensor([int(is_stopping)], device=args.device)
    torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MAX)
    return bool(flag.item())


def _keep_process_group() -> None:
    """Keep torch's group of processes from ever being destroyed.

    The destructor of a gloo group waits for its threads. It runs when the trainer, which held the group last, is let
    go: with the interpreter's lock, for which one of these threads may be waiting. Such a process never ends.
    """
    distributed = importlib.import_module("torch").distributed
    if distributed.is_initialized() and distributed.get_backend() == "gloo":
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(distributed.group.WORLD))
