"""Logs built around one line, as tests want them, and the lines of the samples."""

from pathlib import Path

from starforge.diagnosis.rule import Rule

Samples = dict[str, tuple[list[str], list[str]]]
"""By kind: what it must know, and what it must not take for it."""

MARK = "=> "
_FRAMES = 'Traceback (most recent call last):\n  File "/app/train.py", line 12, in main\n    run(settings)\n'
UNKNOWN_ERROR = _FRAMES + "KeyError: 'my own key'\n"
STEPS = "".join(f"{{'loss': {2.5 - step / 10:.3f}, 'grad_norm': 1.2, 'epoch': 0.{step}}}\n" for step in range(1, 6))


SAMPLES = Path(__file__).parent / "samples"


def build_log(sample: str, rule: Rule) -> tuple[bytes, int]:
    """A log that ends with `sample`, and the number of the line in it that is the cause."""
    is_error = any(pattern.is_error for pattern in rule.patterns) and MARK not in sample
    lines = sample.split("\n")
    marked = next((index for index, line in enumerate(lines) if line.startswith(MARK)), 0)
    lines[marked] = lines[marked].removeprefix(MARK)
    head = f"{STEPS}{_FRAMES if is_error and 'Traceback' not in sample else ''}"
    return (head + "\n".join(lines) + "\n").encode(), head.count("\n") + marked + 1


def load_samples() -> Samples:
    """The samples of every kind, from the text files beside this module."""
    samples: Samples = {}
    for path in (SAMPLES / "machines.txt", SAMPLES / "programs.txt"):
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line.startswith("["):
                held = samples.setdefault(line.strip("[]"), ([], []))
            elif line[:1] in {"+", "-"}:
                last = held[line[0] == "-"]
                last.append(line[2:])
            elif line.startswith("|"):
                last[-1] += "\n" + line[2:]
    return samples


def load_whole_logs() -> list[tuple[str, str, int, bytes]]:
    """Name, category, exit code and content of each whole log."""
    _, *parts = (SAMPLES / "whole-logs.txt").read_text(encoding="utf-8").split("=== ")
    logs = []
    for part in parts:
        head, _, content = part.partition("\n")
        name, category, code = head.split()
        logs.append((name, category, int(code), content.encode()))
    return logs
