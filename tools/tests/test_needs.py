"""tools/needs.sh on machines that lack something: what it installs, what it says."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.support.engines import NEEDED
from tools.tests.support.trees import ROOT

PRIVATE_ENGINE = ("dockerd", "docker", "containerd", "runc", "ip", "iptables", "unshare", "nsenter", "setpriv", "mount")
ON_EVERY_MACHINE = ("bash", "cat", "dirname", "mktemp", "rm", "tail")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The bin folder of a machine that has next to nothing, used as the whole PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ON_EVERY_MACHINE:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    return folder


def _put(machine: Path, name: str, body: str) -> None:
    path = machine / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)


def _needs(machine: Path, *names: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [str(machine / "bash"), str(ROOT / "tools/needs.sh"), *names]
    merged = {"PATH": str(machine), "HOME": str(machine), "TMPDIR": str(machine), **env}
    return subprocess.run(argv, env=merged, check=False, capture_output=True, text=True, timeout=60)


def test_a_plain_user_is_told_the_package_and_the_way_around(machine: Path) -> None:
    _put(machine, "id", "echo 1000")
    done = _needs(machine, "tini")
    assert done.returncode == 1
    assert "missing: tini. Install the package tini" in done.stderr
    assert "ALLOW_SKIP=tini" in done.stderr


def test_every_missing_need_is_named_and_not_the_first_alone(machine: Path) -> None:
    _put(machine, "id", "echo 1000")
    done = _needs(machine, "engine", "tini", "interpreters")
    assert [line.split(".")[0] for line in done.stderr.splitlines()] == [
        "missing: engine",
        "missing: tini",
        "missing: interpreters",
    ]


def test_an_engine_without_what_a_private_one_takes_is_a_missing_need(machine: Path) -> None:
    _put(machine, "id", "echo 0")
    _put(machine, "apt-get", f'echo "$@" >> {machine}/asked')
    for name in PRIVATE_ENGINE:
        _put(machine, name, "exit 0")
    assert _needs(machine, "engine").returncode == 0
    for name in PRIVATE_ENGINE:
        (machine / name).unlink()
        done = _needs(machine, "engine")
        assert (name, done.returncode) == (name, 1)
        _put(machine, name, "exit 0")
    asked = (machine / "asked").read_text(encoding="utf-8")
    assert "install -qy --no-install-recommends docker.io iproute2 iptables util-linux" in asked


def test_what_the_engines_of_tests_look_for_is_part_of_the_need() -> None:
    assert set(NEEDED) <= {*PRIVATE_ENGINE, "tini"}


def test_a_need_that_may_be_left_out_fails_nothing(machine: Path) -> None:
    _put(machine, "id", "echo 1000")
    done = _needs(machine, "engine", "tini", ALLOW_SKIP="tini,engine")
    assert (done.returncode, done.stderr) == (0, "")


def test_root_gets_what_is_missing_from_the_distribution(machine: Path) -> None:
    _put(machine, "id", "echo 0")
    _put(
        machine,
        "apt-get",
        f'echo "$@" >> {machine}/asked; : > {machine}/tini; {shutil.which("chmod")} +x {machine}/tini',
    )
    done = _needs(machine, "tini")
    assert done.returncode == 0, done.stderr
    assert (machine / "asked").read_text(encoding="utf-8").splitlines() == [
        "update -q",
        "install -qy --no-install-recommends tini",
    ]


def test_an_installation_that_brought_nothing_is_a_failure(machine: Path) -> None:
    _put(machine, "id", "echo 0")
    _put(machine, "apt-get", "echo no such package; exit 100")
    done = _needs(machine, "engine")
    assert done.returncode == 1
    assert "no such package" in done.stderr
    assert "missing: engine" in done.stderr


def test_a_python_that_is_too_old_is_not_taken_for_the_need(machine: Path) -> None:
    _put(machine, "id", "echo 1000")
    _put(machine, "python3", "exit 1")
    done = _needs(machine, "venv")
    assert done.returncode == 1
    assert "Python 3.11 or newer" in done.stderr


def test_nothing_is_asked_for_what_is_there(machine: Path) -> None:
    _put(machine, "tini", "exit 0")
    _put(machine, "apt-get", f"echo asked > {machine}/asked")
    assert _needs(machine, "tini").returncode == 0
    assert not (machine / "asked").exists()


def test_a_name_that_is_no_need_is_refused_with_the_known_ones(machine: Path) -> None:
    done = _needs(machine, "docker")
    assert done.returncode == 2
    assert "known: venv engine" in done.stderr
    assert os.fspath(machine) not in done.stderr
