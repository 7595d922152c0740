"""`make check`: runs every check, prints a line for each as it ends, and all failures at the end."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.tree import load_files

BIN: Final = Path(sys.executable).parent
PACKAGES: Final = (("core", "starforge"), ("server", "starforge_console"), ("forgelet", "starforge_forgelet"))
TEST_FOLDERS: Final = ("core/tests", "server/tests", "forgelet/tests", "e2e", "tools", "bench", "simulation")
WORKERS: Final = 2


@dataclass(frozen=True, slots=True)
class Check:
    """One command that must end with 0."""

    name: str
    argv: tuple[str, ...]
    folder: str = "."


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check's command came to."""

    check: Check
    returncode: int
    output: str
    took_s: float


def build_checks(root: Path) -> list[Check]:
    """All checks, the long ones first, so that two workers end together."""
    python = str(BIN / "python")
    tested = ["conftest.py", *(folder for folder in TEST_FOLDERS if load_files(root, f"{folder}/*.py"))]
    names = [word for _, module in PACKAGES for word in ("-p", module)]
    quiet = ("--no-error-summary",)
    own = (
        "contracts sizes forbidden bilingual terms dependencies fragments vendored docs_check doc_names doc_commands"
    ).split()
    return [
        Check("types of the packages", _tool("mypy", *quiet, "--cache-dir=.mypy_cache/packages", *names)),
        Check(
            "types of tests and tools",
            _tool("mypy", *quiet, "--cache-dir=.mypy_cache/tests", "--explicit-package-bases", *tested),
        ),
        Check("import contracts", _tool("lint-imports", "--no-logo", "--cache-dir=.import_linter_cache")),
        Check("ruff check", _tool("ruff", "check", "--quiet", ".")),
        Check("ruff format", _tool("ruff", "format", "--check", "--quiet", ".")),
        *(
            Check(f"dependencies of {folder}", _tool("deptry", "--no-ansi", module), folder)
            for folder, module in PACKAGES
        ),
        Check("spelling", _tool("codespell", *map(str, load_files(root)))),
        Check("changelog draft", _tool("towncrier", "build", "--draft", "--version", "next")),
        *(Check(name, (python, "-m", f"tools.{name}")) for name in (*own, "node_lock")),
    ]


def run_all(root: Path, checks: Sequence[Check]) -> list[Outcome]:
    """Runs them two at a time and prints a line as each one ends; the outcomes in that order."""
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(max_workers=WORKERS) as pool:
        for future in as_completed([pool.submit(_run, root, check) for check in checks]):
            outcome = future.result()
            mark = "ok  " if outcome.returncode == 0 else "FAIL"
            print(f"{mark} {outcome.check.name} ({outcome.took_s:.1f} s)", flush=True)
            outcomes.append(outcome)
    return outcomes


def main(root: Path) -> int:
    """0 when every check passed; else 1, after all that the failed ones said."""
    outcomes = run_all(root, build_checks(root))
    failed = [outcome for outcome in outcomes if outcome.returncode != 0]
    for outcome in failed:
        command = " ".join(outcome.check.argv)[:200]
        print(f"\n--- {outcome.check.name}: {command} (exit {outcome.returncode})\n{outcome.output}")
    print(f"check: {len(outcomes) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


def _tool(name: str, *arguments: str) -> tuple[str, ...]:
    return (str(BIN / name), *arguments)


def _run(root: Path, check: Check) -> Outcome:
    started = time.monotonic()
    done = subprocess.run(
        check.argv,
        cwd=root / check.folder,
        env={**os.environ, "COLUMNS": "140"},
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return Outcome(check, done.returncode, done.stdout.strip(), time.monotonic() - started)


if __name__ == "__main__":
    sys.exit(main(Path.cwd()))
