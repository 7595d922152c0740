"""Every declared dependency is described and pinned."""

from pathlib import Path

from tools.dependencies import find_violations
from tools.tests.support.trees import build_tree

MEMBER = '[project]\ndependencies = ["{}"]\n'


def _tree(
    folder: Path, *, page: str = "| `click` | x |\n| `ruff` | x |\n", lock: str = "click==8.5.1 \\\nruff==0.17.6 \\\n"
) -> Path:
    return build_tree(
        folder,
        {
            "pyproject.toml": '[dependency-groups]\ndev = ["ruff>=0.17"]\n',
            "core/pyproject.toml": MEMBER.format("click>=8.5,<9"),
            "server/pyproject.toml": MEMBER.format("starforge-core==1"),
            "forgelet/pyproject.toml": MEMBER.format("click>=8.5,<9"),
            "docs/dev/dependencies.md": page,
            "requirements.lock": lock,
        },
    )


def test_described_and_pinned_dependencies_are_fine(tmp_path: Path) -> None:
    assert find_violations(_tree(tmp_path)) == []


def test_a_dependency_without_its_line_is_refused(tmp_path: Path) -> None:
    (violation,) = find_violations(_tree(tmp_path, page="| `click` | x |\n"))
    assert violation == "ruff: is declared and has no line in docs/dev/dependencies.md"


def test_a_line_that_speaks_of_no_dependency_is_refused(tmp_path: Path) -> None:
    (violation,) = find_violations(_tree(tmp_path, page="| `click` | x |\n| `ruff` | x |\n| `typer` | x |\n"))
    assert violation.startswith("typer: ")


def test_a_pin_outside_what_is_declared_is_refused(tmp_path: Path) -> None:
    (violation,) = find_violations(_tree(tmp_path, lock="click==7.0 \\\nruff==0.17.6 \\\n"))
    assert "has 7.0, declared is click<9,>=8.5" in violation


def test_a_dependency_without_a_pin_is_refused(tmp_path: Path) -> None:
    (violation,) = find_violations(_tree(tmp_path, lock="click==8.5.1 \\\n"))
    assert violation.startswith("ruff: requirements.lock has no version")
