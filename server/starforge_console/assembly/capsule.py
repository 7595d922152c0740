"""The capsule on disk: written once per attempt, summed up, read-only from then on."""

import contextlib
import errno
import hashlib
import json
import os
import shutil
from pathlib import Path

from starforge.contract import capsule as c
from starforge.contract.canonical import digest_bytes
from starforge.contract.ids import Digest
from starforge.errors import NodeFault
from starforge.runner.archive import build_runner, load_bootstrap

_FOLDER_MODE = 0o755
_FILE_MODE = 0o444


def write_capsule(folder: Path, capsule: c.Capsule, runner: Path) -> Digest:
    """Write the capsule's four files into `folder` and give the digest of its sums.

    A capsule that is whole (its sums are written last) is kept as it is: a container may already have been started with
    it, and a newer console must not change it under the job.
    """
    sums_file = folder / c.SUMS_FILE
    if sums_file.exists():
        return digest_bytes(sums_file.read_bytes())
    folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    files = {
        c.CAPSULE_FILE: json.dumps(capsule.to_json(), sort_keys=True, ensure_ascii=False).encode(),
        c.BOOTSTRAP_FILE: load_bootstrap().encode(),
    }
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    for name, content in files.items():
        _write(folder / name, content)
    _link(runner, folder / c.RUNNER_FILE)
    sums[c.RUNNER_FILE] = runner.name.removesuffix(".pex")
    listing = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()
    _write(sums_file, listing)
    return digest_bytes(listing)


def store_runner(folder: Path) -> Path:
    """Build runner.pex into `folder` under its own digest; what is there already is kept."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".building-{os.getpid()}"
    digest = build_runner(partial)
    partial.chmod(_FILE_MODE)
    target = folder / f"{digest}.pex"
    os.replace(partial, target)  # noqa: PTH105 - replaces under one name, as Path.replace does
    return target


def make_folders(folders: tuple[Path, ...], owner: tuple[int, int] | None) -> None:
    """Make `folders` for the job's user (0750); where the image's own user runs the job, for anybody (0777).

    Raises:
        NodeFault: the storage does not let this process give the folders away.

    """
    for folder in folders:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777 if owner is None else 0o750)
        if owner is None or os.geteuid() != 0:
            continue
        try:
            os.chown(folder, *owner)
        except OSError as error:
            raise NodeFault(
                f"{folder} cannot be given to user {owner[0]}:{owner[1]}",
                why=f"{error.strerror}; a share that maps root to nobody (root_squash) answers so",
                next_step="export the share with no_root_squash to the console, or set FORGE_JOB_UID and FORGE_JOB_GID",
            ) from error


def write_control(path: Path, control: c.ControlFile) -> None:
    """Tell the runner the desired state, by rename; an attempt whose folder is gone needs no telling."""
    with contextlib.suppress(FileNotFoundError):
        _write(path, json.dumps(control.to_json()).encode())


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_bytes(content)
    partial.chmod(_FILE_MODE)
    partial.replace(path)


def _link(source: Path, target: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP}:
            raise
        shutil.copyfile(source, target)
        target.chmod(_FILE_MODE)
