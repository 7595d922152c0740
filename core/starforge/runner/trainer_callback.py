"""The callback that lets transformers' Trainer report by itself, and save before it is stopped."""

# ruff: noqa: ANN401 - what transformers passes has no type here
from __future__ import annotations

import functools
import importlib
import os
import signal
import threading
from types import FrameType
from typing import Any, Dict, Optional

from starforge import reporting as report

# Named at run time: neither library is among our own dependencies.
TrainerCallback: Any = importlib.import_module("transformers").TrainerCallback


class StarForgeCallback(TrainerCallback):  # type: ignore[misc]  # its type is not known here
    """Reports what the Trainer logs, and its total of steps. On TERM all ranks save and stop at the same step."""

    def __init__(self) -> None:
        self._is_stopping = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Announce the run; take over TERM, unless transformers itself is asked to save on it."""
        del control, kwargs
        if state.is_world_process_zero:
            report.init(hparams=_find_hparams(args))
            report.total_steps(state.max_steps)
        saves_itself = getattr(args, "enable_jit_checkpoint", False)
        if (
            not saves_itself
            and os.environ.get("FORGE_REPORT_FILE")
            and threading.current_thread() is threading.main_thread()
        ):
            signal.signal(signal.SIGTERM, self._receive_term)

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[Dict[str, Any]] = None, **kwargs: Any) -> None:
        """Report the numbers of one log line at the Trainer's step."""
        del args, control, kwargs
        if state.is_world_process_zero:
            numbers = {key: value for key, value in (logs or {}).items() if isinstance(value, (int, float))}
            report.log(numbers, step=state.global_step)

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
                report.commit_checkpoint(state.global_step, path)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Tell that the training is complete when it was not stopped."""
        del args, control, kwargs
        if state.is_world_process_zero and state.global_step >= state.max_steps:
            report.finish()

    def _receive_term(self, number: int, frame: Optional[FrameType]) -> None:
        del number, frame
        self._is_stopping = True


def patch_trainer(trainer_class: Any) -> None:
    """Add the callback to every trainer that is made of the class or of one derived from it."""
    original = trainer_class.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        if not any(isinstance(callback, StarForgeCallback) for callback in self.callback_handler.callbacks):
            self.add_callback(StarForgeCallback())

    trainer_class.__init__ = init


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
