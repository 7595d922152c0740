"""The command `forgelet` as a person calls it."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

FORGELET = Path(sys.executable).with_name("forgelet")


def _forgelet(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([FORGELET, *arguments], capture_output=True, text=True, timeout=60, check=False)


def test_version_prints_the_installed_version_alone() -> None:
    done = _forgelet("version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{version('starforge-forgelet')}\n", "")


def test_the_version_option_names_the_program() -> None:
    done = _forgelet("--version")
    assert (done.returncode, done.stdout) == (0, f"forgelet {version('starforge-forgelet')}\n")


def test_help_lists_what_it_can_do() -> None:
    done = _forgelet("--help")
    assert done.returncode == 0
    assert "join     Register this machine with a console." in done.stdout


def test_a_command_that_is_not_there_is_refused_with_the_nearest_one() -> None:
    done = _forgelet("jion")
    assert done.returncode == 2
    assert "There is no command 'jion'. Did you mean 'join'?" in done.stderr


def test_the_three_packages_have_one_version_that_no_public_index_accepts() -> None:
    versions = {version(name) for name in ("starforge-core", "starforge-console", "starforge-forgelet")}
    assert len(versions) == 1
    assert "+" in versions.pop()
