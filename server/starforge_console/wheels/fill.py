"""Fills the wheelhouse: third-party wheels from the index that pip is set to, our own from a folder or the source tree.

Nothing is resolved: the release's lock names every file by its digest. A file is in the wheelhouse whole or not at all.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from starforge import __version__
from starforge.durable import sync_folder
from starforge.errors import InputError, NotFound, Unavailable
from starforge_console.wheels.index import OWN, WheelIndex, build_lock_text, select_wheels
from starforge_console.wheels.lock import Pin, choose_pins
from starforge_console.wheels.targets import Target

_CONSOLE: Final = "starforge-console"
_SOURCES: Final = ("core", "forgelet")
_READABLE: Final = 0o644
_LAST_WORDS: Final = 2000


def add_target(folder: Path, target: Target, pins: Sequence[Pin]) -> list[str]:
    """Download what of `pins` `target` needs and `folder` lacks; gives the names of the new files.

    Raises:
        Unavailable: pip could not download it all; nothing of this call is kept.

    """
    present = select_wheels(WheelIndex(folder).list_wheels(), pins, target).chosen
    lacking = [pin for pin in choose_pins(pins, target) if pin.name not in present]
    if not lacking:
        return []
    with _workplace(folder) as work:
        (work / "requirements.txt").write_text("".join(_build_requirement(pin) for pin in lacking), encoding="ascii")
        _run_pip(_build_download(target, work), f"the wheels for Python {target.python} on {target.arch}")
        return _take_in(folder, sorted(work.glob("*.whl")))


def add_own(folder: Path, source: Path | None) -> list[str]:
    """Put our own wheels of this release into `folder`: those in `source`, or built from the tree we run from.

    Raises:
        InputError: they are not in `source`, or are of another release, or there is no tree.
        Unavailable: they could not be built.

    """
    if source is not None:
        return _take_in(folder, _find_own(source))
    with _workplace(folder) as work:
        _build_own(_load_tree(), work)
        return _take_in(folder, _find_own(work))


def check_target(folder: Path, target: Target, pins: Sequence[Pin]) -> None:
    """Raises NotFound unless everything that `target` installs is there."""
    build_lock_text(select_wheels(WheelIndex(folder).list_wheels(), pins, target))


@contextmanager
def _workplace(folder: Path) -> Iterator[Path]:
    """A folder beside the wheels, so that a finished one is moved in by a rename."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".adding-", dir=folder) as work:
        yield Path(work)


def _build_requirement(pin: Pin) -> str:
    digests = " ".join(f"--hash=sha256:{digest}" for digest in sorted(pin.digests))
    return f"{pin.name}=={pin.version} {digests}\n"


def _build_download(target: Target, work: Path) -> list[str]:
    abi = f"cp{target.python.replace('.', '')}"
    kinds = ["--implementation", "cp", "--abi", abi, "--abi", "abi3", "--abi", "none"]
    platforms = [word for platform in target.platforms for word in ("--platform", platform)]
    # Markers were evaluated for the target already: pip would do it for the Python that it runs on.
    return [
        *("download", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--python-version", target.python),
        *kinds,
        *platforms,
        *("--dest", str(work), "--requirement", str(work / "requirements.txt")),
    ]


def _build_own(tree: Path, work: Path) -> None:
    sources = [str(tree / name) for name in _SOURCES]
    _run_pip(
        ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(work), *sources],
        f"forgelet's own wheels from {tree}",
    )


def _run_pip(arguments: Sequence[str], what: str) -> None:
    done = subprocess.run(  # noqa: S603 - argv is ours
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise Unavailable(
            f"pip did not supply {what}",
            why=(done.stderr or done.stdout).strip()[-_LAST_WORDS:],
            next_step="set pip to an index that this machine reaches, or copy the files into the wheelhouse",
        )


def _find_own(source: Path) -> list[Path]:
    found: dict[str, Path] = {}
    for path in sorted(source.glob("*.whl")) if source.is_dir() else ():
        try:
            name, version, _build, _tags = parse_wheel_filename(path.name)
        except InvalidWheelFilename:
            continue
        if name in OWN and str(version) == __version__:
            found[name] = path
    missing = [f"{name} {__version__}" for name in OWN if name not in found]
    if missing:
        raise InputError(
            f"{source} holds no wheel of {' and of '.join(missing)}",
            why="machines run the console's own release",
            next_step="name the folder with the wheels of this release: --own DIR",
        )
    return [found[name] for name in OWN]


def _load_tree() -> Path:
    """The source tree that this console runs from. Raises InputError when it was installed from a wheel."""
    try:
        written = distribution(_CONSOLE).read_text("direct_url.json") or "{}"
    except PackageNotFoundError:
        written = "{}"
    origin = json.loads(written)
    tree = Path(unquote(urlsplit(str(origin.get("url", ""))).path)).parent
    if origin.get("dir_info", {}).get("editable") and all(
        (tree / name / "pyproject.toml").is_file() for name in _SOURCES
    ):
        return tree
    raise InputError(
        "there is no source tree to build forgelet's own wheels from",
        why="this console was installed from a wheel",
        next_step="name the folder with the release's wheels: --own DIR",
    )


def _take_in(folder: Path, wheels: Sequence[Path]) -> list[str]:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for wheel in wheels:
        unfinished = folder / f".{wheel.name}.{os.getpid()}"
        try:
            with unfinished.open("wb") as file:
                file.write(wheel.read_bytes())
                file.flush()
                os.fsync(file.fileno())
            unfinished.chmod(_READABLE)
            unfinished.replace(folder / wheel.name)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise Unavailable(
                f"{wheel.name} could not be written to {folder}", why=str(error), next_step="make room on that disk"
            ) from error
    sync_folder(folder)
    return [wheel.name for wheel in wheels]


def require_target(python: str, arch: str, known: Sequence[Target]) -> Target:
    """The target of that Python and architecture. Raises NotFound."""
    for target in known:
        if (target.python, target.arch) == (python, arch):
            return target
    names = ", ".join(f"{target.python} on {target.arch}" for target in known)
    raise NotFound(f"forgelet is not installed with Python {python} on {arch}", next_step=f"name one of: {names}")
