"""Images with training frameworks: this machine's Python and pinned packages, fetched once and packed into a tar.

    python -m tools.framework_image

makes them all, or says why they cannot be made here. The tar of an image is kept below `build/images/`, under the
digest of everything that it is made of; a build that dies leaves nothing that a later one would take for whole.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from starforge.containers.lock import hold_lock
from tools.host_image import HostPython, find_or_build_tar, for_everybody, load_host_python

CACHE: Final = Path("build/images")
_LAYOUT: Final = "1"
"""Part of the cache's key: raise it when what goes into the tar changes."""

_PINS: Final = Path(__file__).parent.parent / "e2e" / "trl"
_OLDEST: Final = (3, 11)
_PLACE: Final = "/opt/frameworks"
ENVIRONMENT: Final = (
    f"PATH={_PLACE}/bin:/usr/bin:/bin",
    f"VIRTUAL_ENV={_PLACE}",
    "OMP_NUM_THREADS=1",  # several jobs on a few cores are many times slower when each takes all of them
)
"""What an image of such a tar sets."""
_BUILD_S: Final = 3600.0
_LEFT_OUT: Final = frozenset({"tests", "test", "include"})
"""Folders. What Python has compiled stays: without it a job begins five seconds later."""


class NotFetched(Exception):
    """An image cannot be made here; the text says why."""


@dataclass(frozen=True, slots=True)
class Frameworks:
    """What an image holds beside Python. `alone`: the named packages without those that they need."""

    name: str
    pins: Path
    alone: bool = False


TRL: Final = Frameworks("trl", _PINS / "requirements.txt")
OLD_TRL: Final = Frameworks("old-trl", _PINS / "requirements-old.txt", alone=True)


def find_or_build_framework_tar(frameworks: Frameworks) -> Path:
    """The packed root file system.

    Raises:
        NotFetched: the machine's Python is too old, or a package cannot be fetched.

    """
    python = load_host_python()
    if python.version < _OLDEST:
        raise NotFetched(f"{python.executable} is Python {python.version[0]}.{python.version[1]}, and TRL needs 3.11")
    CACHE.mkdir(parents=True, exist_ok=True)
    path = CACHE / f"{frameworks.name}-{_key_of(frameworks, python)}.tar"
    with hold_lock(CACHE / f"{frameworks.name}.lock", _BUILD_S):
        if not path.exists():
            _remove_leftovers(frameworks)
            _build(frameworks, python, path)
    return path


def _key_of(frameworks: Frameworks, python: HostPython) -> str:
    parts = [_LAYOUT, repr(frameworks.alone), repr(python), str(python.executable.stat().st_mtime_ns)]
    parts += [find_or_build_tar().name, frameworks.pins.read_text(encoding="utf-8")]
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:16]


def _remove_leftovers(frameworks: Frameworks) -> None:
    """What builds that died and earlier pins have left; under the lock only."""
    for left in CACHE.glob(f"{frameworks.name}-*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def _build(frameworks: Frameworks, python: HostPython, path: Path) -> None:
    print(f"fetching what {frameworks.pins.name} names and packing it into {path}; this is done once", flush=True)
    folder, unfinished = path.with_suffix(".venv").absolute(), path.with_suffix(".unfinished")
    _install(frameworks, python, folder)
    _move_programs(folder)
    _remove_unneeded(folder)
    shutil.copy(find_or_build_tar(), unfinished)
    with tarfile.open(unfinished, "a") as tar:
        present = set(tar.getnames())  # engines refuse a name that comes twice
        tar.add(folder, _PLACE.lstrip("/"), filter=for_everybody)
        for library in _list_libraries(folder):
            if str(library).lstrip("/") not in present:
                tar.add(library.resolve(), str(library).lstrip("/"), filter=for_everybody)
    shutil.rmtree(folder)
    unfinished.replace(path)


def _install(frameworks: Frameworks, python: HostPython, folder: Path) -> None:
    subprocess.run([python.executable, "-m", "venv", "--without-pip", folder], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "-q"]
    options = ["--no-deps"] if frameworks.alone else []
    done = subprocess.run([*pip, *options, "-r", str(frameworks.pins)], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        shutil.rmtree(folder)
        told = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        raise NotFetched(f"the packages of {frameworks.pins.name} cannot be fetched: {' '.join(told[-2:])}")


def _move_programs(folder: Path) -> None:
    """Let the programs name the interpreter where it will be."""
    for program in (folder / "bin").iterdir():
        if program.is_file() and not program.is_symlink():
            program.write_bytes(program.read_bytes().replace(bytes(folder), _PLACE.encode()))


def _remove_unneeded(folder: Path) -> None:
    for parent, names, _ in os.walk(folder):
        for name in set(names) & _LEFT_OUT:
            shutil.rmtree(Path(parent, name))
            names.remove(name)


def _list_libraries(folder: Path) -> set[Path]:
    """The libraries of the system that the packages' own load."""
    own = [path for path in folder.rglob("*.so*") if path.is_file()]
    asked = subprocess.run(["ldd", *own], capture_output=True, check=False, text=True)
    words = {word for word in asked.stdout.split() if word.startswith("/") and ".so" in word and word[-1] != ":"}
    return {path for path in map(Path, words) if not path.is_relative_to(folder)}


def main() -> int:
    """Make every image's tar; 1 and a reason when one cannot be made."""
    try:
        for frameworks in (TRL, OLD_TRL):
            find_or_build_framework_tar(frameworks)
    except NotFetched as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
