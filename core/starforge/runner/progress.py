"""How far the training came, as the streams told: steps, the announced total, and whether it said that it finished."""

from __future__ import annotations

import os
from typing import Optional

from starforge.contract.capsule import CompleteRule
from starforge.runner.plainfiles import match_paths


class Progress:
    """Collected while the training process runs."""

    def __init__(self) -> None:
        self.last_step: Optional[int] = None
        self.total_steps: Optional[int] = None
        self.finished = False

    def note_step(self, step: int) -> None:
        """Remember the highest step seen."""
        if self.last_step is None or step > self.last_step:
            self.last_step = step


def decide_complete(rule: CompleteRule, progress: Progress, code: int, work: str) -> Optional[bool]:
    """Say whether the training is complete; None where the rule cannot know. A rule's path counts from `work`."""
    if rule.kind == "steps":
        total = rule.total_steps if rule.total_steps is not None else progress.total_steps
        if total is None or progress.last_step is None:
            return True if progress.finished else None
        return progress.last_step >= total
    if rule.kind == "file":
        return _has_file(os.path.join(work, rule.path or ""))
    if progress.finished:
        return code == 0
    return False if rule.kind == "finish" else None


def _has_file(path: str) -> bool:
    """Say whether a file matches; the parts before the first with a `*` or `?` are taken as they are."""
    parts = path.split("/")
    plain = next((index for index, part in enumerate(parts) if "*" in part or "?" in part), len(parts) - 1)
    root = "/".join(parts[:plain]) or "/"
    return any(os.path.isfile(found) for found in match_paths(root, "/".join(parts[plain:])))
