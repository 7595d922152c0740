"""Packing a workspace, over tar and zstd, and over looking at each of its files."""

import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import Final

from backports import zstd

from bench.figures import Figure, Orientation, Ratio, Skipped, compare, timed
from bench.ground import Ground
from starforge.workspace.manifest import load_manifest
from starforge.workspace.pack import pack_manifest
from starforge.workspace.remember import pack_or_recall

_FILES: Final = 3000
_LARGEST_BYTES: Final = 40_000
_AT_MOST: Final = 3.0
_LEVEL: Final = 3
_WHO: Final = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")


def pack(ground: Ground) -> list[Figure]:
    """Manifest, digest and zstd of a git repository over `tar | zstd -3`; unchanged, over `lstat` of its files."""
    root, work = _make_workspace(ground.folder()), ground.folder()
    figures: list[Figure] = []
    if shutil.which("zstd") is None:
        figures.append(Skipped("pack", "zstd is not installed"))
    else:
        cold = compare(timed(lambda: _pack(root, work / "ours")), timed(lambda: _tar(root, work / "theirs")), 5)
        figures.append(Ratio("pack", cold.ratio, _AT_MOST, detail=cold.describe()))
    digest = timed(lambda: pack_manifest(load_manifest(root)))
    memory = work / "memory"
    again = compare(
        timed(lambda: pack_or_recall(load_manifest(root), memory, settled_s=0)), timed(lambda: _look(root)), 9
    )
    figures.append(Ratio("pack_unchanged", again.ratio, _AT_MOST, detail=f"over a stat pass, {again.describe()}"))
    git = timed(lambda: _git(root, "status", "--porcelain"))
    beside = compare(timed(lambda: pack_or_recall(load_manifest(root), memory, settled_s=0)), git, 5)
    figures.append(Orientation("pack_unchanged_over_git", beside.ratio, "x", detail=f"git status, {beside.describe()}"))
    return [*figures, Orientation("pack_digest", digest() * 1e3, "ms", detail="manifest and digest, nothing written")]


def _make_workspace(root: Path) -> Path:
    """Half text, half noise, in folders of 50."""
    chance = random.Random(7)  # noqa: S311 - the same files each time
    for number in range(_FILES):
        file = root / f"d{number // 50}" / f"f{number}"
        file.parent.mkdir(exist_ok=True)
        size = chance.randrange(_LARGEST_BYTES)
        file.write_bytes(chance.randbytes(size) if number % 2 else b"loss = criterion(output, target)\n" * (size // 33))
    _git(root, "init", "-q")
    _git(root, "add", "-A")
    _git(root, *_WHO, "commit", "-q", "-m", "Files")
    return root


def _pack(root: Path, target: Path) -> None:
    with target.open("wb") as file, zstd.ZstdFile(file, mode="w", level=_LEVEL) as sink:
        pack_manifest(load_manifest(root), sink)


def _tar(root: Path, target: Path) -> None:
    with target.open("wb") as file:
        command = f"tar -C {root} --exclude=.git -cf - . | zstd -q -{_LEVEL}"
        subprocess.run(["bash", "-c", command], stdout=file, check=True)


def _look(root: Path) -> int:
    seen = 0
    for folder, folders, files in os.walk(root):
        if ".git" in folders:
            folders.remove(".git")
        seen += sum(os.lstat(os.path.join(folder, name)).st_size for name in files)  # noqa: PTH118 - the cheap way is the measure
    return seen


def _git(root: Path, *arguments: str) -> None:
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *arguments], cwd=root, env=environment, check=True, capture_output=True)
