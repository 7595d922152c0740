"""Each command that the pages for users name exists: its program, its groups, its options, and each target of make."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from starforge.cli.lazy import LazyGroup
from tools.references.cli import PROGRAMS
from tools.tree import load_files

PAGES: Final = ("README.md", "README.zh-Hans.md", "docs/en/*.md", "docs/zh-Hans/*.md")

_FENCE: Final = re.compile(r"^ *```(\w*)")
_SHELL: Final = frozenset({"sh", "bash", "ini", "console", "dockerfile", ""})
_SPAN: Final = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_CALL: Final = re.compile(
    r"(?:^ *(?:\$ +)?|&& *|; *|\| *|\$\(|Exec\w+=|CMD )(?:[A-Z][A-Z_]*=\S* +)*(?:sudo +)?(?:/\S*/|\.venv/bin/)?"
    r"(sf|starforge-console|forgelet|make)((?: +[^|;&#<>()]*)?)"
)
_OPTION: Final = re.compile(r"--?[a-z][\w-]*")
_WORD: Final = re.compile(r"[a-z][a-z-]*")


def find_violations(root: Path) -> list[str]:
    """`page:line: sentence` for each command, option or target that nothing answers to."""
    targets = set(re.findall(r"^([a-z0-9-]+):.*## ", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    violations = []
    for page in load_files(root, *PAGES):
        for number, code in _codes(root / page):
            for program, rest in _CALL.findall(code):
                words = rest.split()
                wrong = _judge_make(words, targets) if program == "make" else _judge(program, words)
                if wrong:
                    violations.append(f"{page}:{number}: {wrong}")
    return violations


def _codes(page: Path) -> Iterator[tuple[int, str]]:
    """What stands in backticks, and the lines of fences for a shell; a line that goes on is joined to the next."""
    language: str | None = None
    begun = ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence is not None:
            language = fence[1] if language is None else None
        elif language is None:
            yield from ((number, span) for span in _SPAN.findall(line))
        elif language in _SHELL and line.endswith("\\"):
            begun += line[:-1]
        elif language in _SHELL:
            yield number, begun + line
            begun = ""


def _judge_make(words: list[str], targets: set[str]) -> str | None:
    named = next((word for word in words if "=" not in word and not word.startswith("-")), None)
    if named is None or named in targets or not _WORD.fullmatch(named):
        return None
    return f"make has no target {named}"


def _judge(program: str, words: list[str]) -> str | None:
    """What is wrong with the command, or None."""
    command = PROGRAMS[program]
    context = click.Context(command, info_name=program)
    left = list(words)
    while isinstance(command, click.Group) and left and _WORD.fullmatch(left[0]):
        below = command.get_command(context, left[0])
        if below is None and isinstance(command, LazyGroup) and command.default:
            left.insert(0, command.default)  # what follows is not the name of a command
            continue
        if below is None:
            return f"{context.command_path} has no command {left[0]}"
        command, context = below, click.Context(below, context, info_name=left.pop(0))
    known = {name for option in command.get_params(context) for name in (*option.opts, *option.secondary_opts)}
    unknown = [found[0] for word in left if (found := _OPTION.match(word)) and found[0] not in known]
    return f"{context.command_path} has no option {unknown[0]}" if unknown else None


if __name__ == "__main__":
    found = find_violations(Path.cwd())
    sys.exit("\n".join(found) if found else 0)
