"""How far the training came, as the streams told: steps, the announced total, and whether it said that it finished."""

from __future__ import annotations

from typing import Optional

from starforge.contract.capsule import CompleteRule


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


def decide_complete(rule: CompleteRule, progress: Progress, code: int) -> Optional[bool]:
    """Say whether the training is complete; None where the rule cannot know."""
    if rule.kind == "steps":
        total = rule.total_steps if rule.total_steps is not None else progress.total_steps
        if total is None or progress.last_step is None:
            return True if progress.finished else None
        return progress.last_step >= total
    if progress.finished:
        return code == 0
    return False if rule.kind == "finish" else None
