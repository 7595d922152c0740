"""Ignore rules in git's notation, for `.sfignore` and for folders that no repository holds."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

IGNORE_FILE: Final = ".sfignore"

BY_DEFAULT: Final = (
    "__pycache__/",
    "*.pyc",
    ".venv/",
    "venv/",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    ".ipynb_checkpoints/",
    ".DS_Store",
    "wandb/",
)
"""What is never meant to travel; only a rule of the project's own (`!wandb/`) takes such an untracked file along."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line. `base` is the folder of its file, relative to the root (`""` or ending in a slash)."""

    base: str
    pattern: re.Pattern[str]
    keeps: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules in the order in which they override one another."""

    rules: tuple[Rule, ...] = ()

    def find_answer(self, path: str, *, is_folder: bool = False) -> bool | None:
        """True: `path` itself is ignored; False: it is kept by name; None: no rule speaks of it."""
        for rule in reversed(self.rules):
            below = path.removeprefix(rule.base)
            if rule.base and below == path:
                continue
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(below):
                return not rule.keeps
        return None

    def find_file_answer(self, path: str) -> bool | None:
        """As `find_answer`, and what is inside an ignored folder is ignored whatever else is said of it."""
        if not self.rules:
            return None
        parts = path.split("/")
        for end in range(1, len(parts)):
            if self.find_answer("/".join(parts[:end]), is_folder=True):
                return True
        return self.find_answer(path)

    def extended(self, more: "Rules") -> "Rules":
        """These rules, overridden by `more`."""
        return Rules(self.rules + more.rules)


def parse_rules(lines: Iterable[str], base: str = "") -> Rules:
    """The rules of an ignore file in the folder `base`."""
    return Rules(tuple(rule for line in lines if (rule := _parse_rule(line, base)) is not None))


def _parse_rule(line: str, base: str) -> Rule | None:
    text = line.rstrip("\r\n")
    while text.endswith(" ") and not text.endswith("\\ "):
        text = text[:-1]
    if not text or text.startswith("#"):
        return None
    keeps = text.startswith("!")
    text = text[1:] if keeps else text
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    if not text:
        return None
    expression = _translate(text) if anchored else f"(?:.*/)?{_translate(text)}"
    return Rule(base, re.compile(expression, re.DOTALL), keeps, folders_only)


def _translate(pattern: str) -> str:
    """A regular expression for one pattern: `*` and `?` stay within a name, `**` crosses folders."""
    out, at = "", 0
    while at < len(pattern):
        taken, expression = _translate_next(pattern, at)
        out += expression
        at += taken
    return out


def _translate_next(pattern: str, at: int) -> tuple[int, str]:
    rest = pattern[at:]
    if rest.startswith("**/") and (at == 0 or pattern[at - 1] == "/"):
        return 3, "(?:.*/)?"
    if rest == "**" and at and pattern[at - 1] == "/":
        return 2, ".+"
    if rest[0] == "*":
        return len(rest) - len(rest.lstrip("*")), "[^/]*"
    if rest[0] == "\\" and len(rest) > 1:
        return 2, re.escape(rest[1])
    if rest[0] == "[":
        return _translate_class(rest)
    return 1, "[^/]" if rest[0] == "?" else re.escape(rest[0])


def _translate_class(rest: str) -> tuple[int, str]:
    end = rest.find("]", 3 if rest[1:2] in {"!", "^"} else 2)
    if end == -1:
        return 1, re.escape("[")
    body = rest[1:end].replace("\\", "\\\\").replace("[", "\\[")
    negated = body[0] in {"!", "^"}
    return end + 1, f"(?!/)[{'^' if negated else ''}{body[1:] if negated else body}]"
