"""A page for contributors names only what exists."""

from pathlib import Path

import pytest

from tools.doc_names import find_violations
from tools.tests.support.trees import build_tree

SOURCE = '''"""M."""

LIMIT: int = 1


class Loop:
    """L."""

    async def run(self) -> None:
        """R."""


def decide() -> None:
    """D."""
'''
FILES = {
    "core/starforge/loop.py": SOURCE,
    "core/starforge/reporting.py": SOURCE,
    "core/starforge/cli/output.py": "",
    "tools/legs.py": "",
    "docs/dev/page.md": "",
}


def _violations(tmp_path: Path, text: str) -> list[str]:
    return find_violations(build_tree(tmp_path, {**FILES, "docs/dev/page.md": text}))


@pytest.mark.parametrize(
    "name",
    [
        "core/starforge/loop.py",
        "core/starforge/",
        "core/",
        "loop.py",
        "core/starforge/<kind>.py",
        "cli/output.py",
        "cli/output",
        "cli/",
        "starforge.loop",
        "core/starforge/loop.py::decide",
        "core/starforge/loop.py::run",
        "starforge.loop.LIMIT",
        "starforge.loop.Loop.run",
        "starforge.loop.decide",
        "starforge.report.decide",
        "starforge",
    ],
)
def test_what_exists_may_be_named(tmp_path: Path, name: str) -> None:
    assert _violations(tmp_path, f"See `{name}`.\n") == []


@pytest.mark.parametrize(
    "name",
    [
        "core/starforge/gone.py",
        "core/gone/",
        "gone.py",
        "core/gone/<kind>.py",
        "cli/gone",
        "cli/gone.py",
        "core/starforge/loop.py::test_gone",
        "core/starforge/gone.py::decide",
        "starforge.gone",
        "starforge.loop.GONE",
        "starforge.loop.Loop.gone",
        "starforge.loop.decide.gone",
    ],
)
def test_what_does_not_exist_is_refused_with_its_line(tmp_path: Path, name: str) -> None:
    assert _violations(tmp_path, f"# A page\n\nSee `{name}`.\n") == [
        f"docs/dev/page.md:3: names `{name}`, which does not exist"
    ]


@pytest.mark.parametrize("language", ["en", "zh-Hans"])
def test_a_table_of_promises_names_only_what_exists_in_each_language(tmp_path: Path, language: str) -> None:
    page = f"docs/{language}/ops/executor-backends.md"
    tree = build_tree(
        tmp_path, {**FILES, page: "| a promise | `core/starforge/loop.py` | `tools/legs.py::test_gone` |\n"}
    )
    assert find_violations(tree) == [f"{page}:1: names `tools/legs.py::test_gone`, which does not exist"]


@pytest.mark.parametrize(
    "text", ["`exit.json`", "`/run/starforge/x`", "`spool/log.bin`", "`sf job ls`", "`starforge.yaml`"]
)
def test_what_is_not_of_this_tree_is_passed_over(tmp_path: Path, text: str) -> None:
    assert _violations(tmp_path, f"It writes {text}.\n") == []


def test_a_program_in_a_code_fence_names_nothing(tmp_path: Path) -> None:
    assert _violations(tmp_path, "```sh\ncat `core/gone.py`\n```\n") == []
