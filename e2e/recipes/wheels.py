"""Frameworks as their wheels have them, unpacked and not installed: their parsers without torch, ray or a GPU."""

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from starforge.containers.lock import hold_lock

_CACHE: Final = Path("build/parsers")
_FETCH_S: Final = 600.0
_LOADER: Final = ("hydra-core==1.3.8", "omegaconf==2.3.1")
_ANY_PYTHON: Final = ("--only-binary", ":all:", "--python-version", "3.11", "--platform", "manylinux1_x86_64")
_HERE: Final = Path(__file__).parent


def load_wheel(name: str, version: str) -> Path:
    """The folder with the wheel's files; skips the test, saying why, where it cannot be fetched."""
    return _find_or_make(f"{name}-{version}", lambda folder: _unpack(f"{name}=={version}", folder))


def load_config_python() -> Path:
    """A Python with hydra and OmegaConf, and nothing else; skips the test where they cannot be fetched."""
    return _find_or_make("-".join(_LOADER), _install_loader) / "bin" / "python"


def read_with(python: Path, script: str, *arguments: str, cwd: Path) -> tuple[int, Any, str]:
    """What `script`, a file beside this one, says in JSON: exit code, what it printed, and what it complained of."""
    done = subprocess.run(
        [python, "-I", _HERE / script, *arguments], cwd=cwd, capture_output=True, text=True, check=False, timeout=120
    )
    return done.returncode, json.loads(done.stdout) if done.returncode == 0 else None, done.stderr


def _find_or_make(name: str, make: Callable[[Path], None]) -> Path:
    _CACHE.mkdir(parents=True, exist_ok=True)
    folder = (_CACHE / name).absolute()
    with hold_lock(_CACHE / "lock", _FETCH_S):
        if not folder.exists():
            unfinished = folder.with_name(f"{name}.unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            make(unfinished)
            unfinished.rename(folder)
    return folder


def _unpack(requirement: str, folder: Path) -> None:
    _run_pip(["download", "-q", "--no-deps", *_ANY_PYTHON, "-d", str(folder), requirement])
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        wheel.unlink()
    for purelib in folder.glob("*.data/purelib/*"):
        purelib.rename(folder / purelib.name)


def _install_loader(folder: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    _run_pip(["--python", str(folder / "bin" / "python"), "install", "-q", *_LOADER])


def _run_pip(words: Sequence[str]) -> None:
    options = ["--disable-pip-version-check", "--retries", "1", "--timeout", "20"]
    command = [sys.executable, "-m", "pip", *options, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        told = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        pytest.skip(f"{words[-1]} cannot be fetched: {' '.join(told[-2:])}")
