"""Signs in a log that a training went on: whatever was written before several of them did not end it."""

import re
from collections.abc import Sequence
from typing import Final

from starforge.diagnosis.lines import Line

SIGNS_NEEDED: Final = 3

_STEP: Final = re.compile(
    r"\{['\"](?:loss|grad_norm|train_loss|eval_loss|reward|learning_rate|step|epoch|num_tokens)['\"]: "
    r"|(?:\[?\w*\]? ?)?(?:global_)?(?:step|iter|iteration|epoch)s?[ :=]{1,3}\d+[^A-Za-z]{0,12}.{0,80}?\bloss\b"
    r"|step:\d+ - "
    r"| ?iteration +\d+/ *\d+ \|"
    r"|Epoch \d+[ :,].{0,120}\bloss\b",
    re.IGNORECASE,
)
_OVER: Final = re.compile(r"\{['\"]train_runtime['\"]: |Training completed\b|Model saved to ")
_BAR_AT: Final = re.compile(r"\| {0,8}([\d.,]{1,15})[kMGT]?/[\d.,]{1,15}[kMGT]?i?B? \[")
_NO_TRAINING: Final = re.compile(
    r"shards|Download|Fetching|Generating|Map|Tokeniz|Loading|Filter|Capturing|Resolving", re.IGNORECASE
)


def find_survived(lines: Sequence[Line]) -> int:
    """The index up to which nothing ended the training: of lines before it, at least three signs of progress follow."""
    signs = 0
    last_bar = ""
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        if line.bar and (at := _BAR_AT.search(line.bar)) and not _NO_TRAINING.search(line.bar):
            if at[1] not in {last_bar, "0"}:
                signs += 1
            last_bar = at[1]
        if _OVER.match(line.text):
            signs += SIGNS_NEEDED
        elif _STEP.match(line.text):
            signs += 1
        if signs >= SIGNS_NEEDED:
            return index
    return 0
