"""Each check by an outside tool refuses a planted violation, under the repository's own configuration."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools.check import BIN, Check, build_checks, run_all
from tools.tests.support.trees import ROOT, build_tree, copy_sources

CONFIG = ROOT / "pyproject.toml"


def _run(*argv: str | Path, folder: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    merged = {**os.environ, **(env or {})}
    return subprocess.run(argv, cwd=folder, env=merged, check=False, capture_output=True, text=True, timeout=100)


def _lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """The import contracts on a copy of the sources, which hides the installed ones."""
    return _run(BIN / "lint-imports", "--no-cache", folder=folder, env={"PYTHONPATH": "core:server:forgelet"})


def _append(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("core/starforge/contract/ids.py", "import starforge.recipes", "The contract imports nothing of the rest"),
        ("core/starforge/runner/places.py", "import pydantic", "standard library alone"),
        ("core/starforge/hardware/planted.py", "import starforge.client", "Layers of core"),
        ("core/starforge/client/planted.py", "import starforge_console.web", "side by side on core"),
        ("forgelet/starforge_forgelet/planted.py", "import starforge_console.web", "side by side on core"),
        ("server/starforge_console/domain/planted.py", "import starforge_console.ledger", "Layers of the console"),
        ("server/starforge_console/executors/planted.py", "import starforge_console.ledger", "Layers of the console"),
    ],
)
def test_an_import_against_a_contract_is_refused(tmp_path: Path, module: str, statement: str, contract: str) -> None:
    copy_sources(tmp_path)
    _append(tmp_path / module, f"\n{statement}\n")
    done = _lint_imports(tmp_path)
    assert done.returncode == 1
    assert any(contract in line and "BROKEN" in line for line in done.stdout.splitlines()), done.stdout


def test_a_folder_without_a_layer_is_refused(tmp_path: Path) -> None:
    copy_sources(tmp_path)
    _append(tmp_path / "server/starforge_console/misc/__init__.py", "")
    done = _lint_imports(tmp_path)
    assert done.returncode == 1
    assert "starforge_console.misc" in done.stdout


def test_two_siblings_that_import_each_other_are_refused(tmp_path: Path) -> None:
    copy_sources(tmp_path)
    _append(
        tmp_path / "server/starforge_console/domain/planted_one.py", "import starforge_console.domain.planted_two\n"
    )
    _append(
        tmp_path / "server/starforge_console/domain/planted_two.py", "import starforge_console.domain.planted_one\n"
    )
    done = _lint_imports(tmp_path)
    assert done.returncode == 1
    assert "No cycles between siblings BROKEN" in done.stdout


def test_an_untyped_function_is_refused(tmp_path: Path) -> None:
    _append(tmp_path / "planted.py", "def run(job):\n    return job\n")
    done = _run(BIN / "mypy", f"--config-file={CONFIG}", "planted.py", folder=tmp_path)
    assert done.returncode == 1
    assert "no-untyped-def" in done.stdout


def test_an_ignore_without_a_code_is_refused(tmp_path: Path) -> None:
    _append(tmp_path / "planted.py", 'count: int = "one"  # type: ignore\n')
    done = _run(BIN / "mypy", f"--config-file={CONFIG}", "planted.py", folder=tmp_path)
    assert done.returncode == 1
    assert "ignore-without-code" in done.stdout


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('"""M."""\ntry:\n    pass\nexcept:\n    pass\n', "E722"),
        ('"""M."""\nx = 1  # no' + "qa\n", "PGH004"),
        ('"""M."""\n\n\ndef f(a: int, b: int, c: int, d: int, e: int, g: int) -> None:\n    """Six."""\n', "PLR0913"),
    ],
)
def test_a_style_fault_is_refused_by_its_rule(tmp_path: Path, text: str, rule: str) -> None:
    _append(tmp_path / "planted.py", text)
    done = _run(BIN / "ruff", "check", "--no-cache", "--config", CONFIG, "planted.py", folder=tmp_path)
    assert done.returncode == 1
    assert rule in done.stdout


def test_an_unformatted_file_is_refused(tmp_path: Path) -> None:
    _append(tmp_path / "planted.py", "x  =  1\n")
    argv = ("format", "--no-cache", "--check", "--config", CONFIG, "planted.py")
    assert _run(BIN / "ruff", *argv, folder=tmp_path).returncode == 1


def test_a_misspelt_word_is_refused(tmp_path: Path) -> None:
    _append(tmp_path / "page.md", "It is " + "recie" + "ved.\n")
    done = _run(BIN / "codespell", "page.md", folder=tmp_path)
    assert (done.returncode, "received" in done.stdout) == (65, True)


def test_an_undeclared_import_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "forgelet/pyproject.toml").read_text(encoding="utf-8")
    planted = {"pyproject.toml": text, "starforge_forgelet/cli.py": "import click\nimport starforge\nimport rich\n"}
    build_tree(tmp_path, planted)
    done = _run(BIN / "deptry", "--no-ansi", "starforge_forgelet", folder=tmp_path)
    assert done.returncode == 1
    assert "'rich' imported" in done.stderr


def test_all_failures_are_shown_and_not_the_first_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = sys.executable
    checks = [Check("one", (python, "-c", "exit('bad one')")), Check("two", (python, "-c", "exit('bad two')"))]
    outcomes = run_all(tmp_path, [*checks, Check("three", (python, "-c", "pass"))])
    assert {outcome.output for outcome in outcomes if outcome.returncode} == {"bad one", "bad two"}
    assert sorted(line.split(" (")[0] for line in capsys.readouterr().out.splitlines()) == [
        "FAIL one",
        "FAIL two",
        "ok   three",
    ]


def test_every_tool_of_the_house_is_in_the_list_of_checks() -> None:
    own = {
        path.stem for path in (ROOT / "tools").glob("*.py") if "def find_violations" in path.read_text(encoding="utf-8")
    }
    assert own <= {check.name for check in build_checks(ROOT)}
