"""How many steps a training has in all, where its plan does not say: as the framework wrote it into a checkpoint.

transformers' Trainer writes the count that it made of the epochs into `trainer_state.json`. What the other frameworks
write holds no total, or is opened by torch alone: of those it is not known.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from starforge.contract.capsule import CompleteRule
from starforge.runner.checkpoints import Committed
from starforge.runner.plainfiles import load_bytes, parse_object

_TRAINER_STATE = "trainer_state.json"
_STATE_BYTES = 64 << 20  # it holds every line that was logged


def find_total_steps(rule: CompleteRule, resume: Committed) -> Optional[int]:
    """Find the total of a training that ends by its steps; None where it is not known."""
    if rule.kind != "steps" or rule.total_steps is not None:
        return rule.total_steps if rule.kind == "steps" else None
    try:
        state = parse_object(load_bytes(os.path.join(resume.path, _TRAINER_STATE), _STATE_BYTES))
    except (OSError, ValueError):
        return None
    if _find_count(state, "global_step") != resume.step:
        return None
    return _find_count(state, "max_steps")


def _find_count(state: Dict[str, Any], name: str) -> Optional[int]:
    value = state.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
