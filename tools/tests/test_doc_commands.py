"""A page for users names only commands that exist."""

from pathlib import Path

import pytest

from tools.doc_commands import find_violations
from tools.tests.support.trees import build_tree

MAKEFILE = "docs: ## Build the documentation\n\t@true\n"


def _violations(tmp_path: Path, text: str) -> list[str]:
    return find_violations(build_tree(tmp_path, {"Makefile": MAKEFILE, "docs/en/page.md": text}))


@pytest.mark.parametrize(
    "text",
    [
        "say `sf job show JOB`",
        "say `sf fleet token lab`, whose command is left out",
        "```sh\nsf submit first --profile h200:4   # --all of it\n```",
        "```sh\nmake docs && sf job ls\n```",
        "```sh\nsf admin window set fleet lab \\\n  --zone UTC\n```",
        "```text\nsf says nothing of what it prints\n```",
        "the word sf nothing, outside of code",
    ],
)
def test_what_exists_may_be_named(tmp_path: Path, text: str) -> None:
    assert _violations(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("say `sf job shew JOB`", "page.md:1: sf job has no command shew"),
        ("say `sf admin maintenance end`", "sf admin maintenance has no command end"),
        ("```sh\nsf submit first --profil h200\n```", "page.md:2: sf submit has no option --profil"),
        ("```sh\nFORGE_X=1 sudo /opt/x/bin/starforge-console sirve\n```", "starforge-console has no command sirve"),
        ("```sh\nsf admin window set fleet lab \\\n  --zones UTC\n```", "sf admin window set has no option --zones"),
        ("```ini\nExecStart=/opt/bin/forgelet sarve\n```", "forgelet has no command sarve"),
        ("```sh\nmake docks\n```", "make has no target docks"),
    ],
)
def test_what_does_not_exist_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (found,) = _violations(tmp_path, text)
    assert said in found
