"""`starforge-console wheelhouse` as an administrator calls it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.support.owned import MEMORY
from server.tests.wheels.builders import make_own

CONSOLE = Path(sys.executable).with_name("starforge-console")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A console that has been set up, on a machine whose pip finds nothing."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FORGE_", "PIP_"))}
    own = {
        "FORGE_CONSOLE_STATE_DIR": str(tmp_path / "state"),
        "FORGE_STORAGE_ROOT": str(tmp_path / "storage"),
        "FORGE_SECRETS_DIR": str(MEMORY / "starforge-wheelhouse"),
        "FORGE_GPU_RUNTIME": "none",
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
    }
    return {**kept, **own}


def call(environment: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([CONSOLE, *words], env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_before_there_is_a_console_nothing_is_made(environment: dict[str, str], tmp_path: Path) -> None:
    done = call(environment, "wheelhouse", "add")
    assert (done.returncode, "starforge-console init" in done.stderr) == (2, True)
    assert not (tmp_path / "state").exists()


def test_what_is_missing_is_listed_with_the_command_that_supplies_it(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert call(environment, "init").returncode == 0
    make_own(tmp_path / "release")
    failed = call(environment, "wheelhouse", "add", "--python", "3.12", "--own", str(tmp_path / "release"))
    assert failed.returncode == 1
    assert "pip did not supply the wheels for Python 3.12" in failed.stderr
    listed = json.loads(call(environment, "wheelhouse", "ls", "--json").stdout)
    assert listed["folder"] == str(tmp_path / "state" / "wheelhouse")
    missing = {(each["python"], each["arch"]): each["missing"] for each in listed["targets"]}
    assert len(missing) == 8
    assert any(name.startswith("msgspec ") for name in missing["3.12", "aarch64"])
    assert not any(name.startswith("starforge-") for name in missing["3.12", "aarch64"])
    assert "wheelhouse add --python 3.12 --arch aarch64" in call(environment, "wheelhouse", "ls").stdout


def test_a_combination_that_forgelet_does_not_run_on_is_refused(environment: dict[str, str]) -> None:
    assert call(environment, "init").returncode == 0
    done = call(environment, "wheelhouse", "add", "--python", "3.9")
    assert (done.returncode, "forgelet is not installed with Python 3.9" in done.stderr) == (1, True)
