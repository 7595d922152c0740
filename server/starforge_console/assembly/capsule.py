"""The capsule on disk: written once per attempt, summed up, read-only from then on."""

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from starforge.contract import capsule as c
from starforge.contract.canonical import digest_bytes
from starforge.contract.ids import Digest
from starforge.errors import NodeFault
from starforge.runner.archive import build_runner, load_bootstrap
from starforge.said.sentence import say
from starforge_console.assembly.layout import StorageLayout

_FOLDER_MODE = 0o755
_FILE_MODE = 0o444


def write_capsule(folder: Path, capsule: c.Capsule, runner: Path) -> Digest:
    """Write the capsule's four files into `folder`, which is there, and give the digest of its sums.

    A capsule that is whole (its sums are written last) is kept as it is: a container may already have been started with
    it, and a newer console must not change it under the job.
    """
    sums_file = folder / c.SUMS_FILE
    if sums_file.exists():
        return digest_bytes(sums_file.read_bytes())
    files = {
        c.CAPSULE_FILE: json.dumps(capsule.to_json(), sort_keys=True, ensure_ascii=False).encode(),
        c.BOOTSTRAP_FILE: load_bootstrap().encode(),
    }
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    for name, content in files.items():
        _write(folder / name, content)
    _write(folder / c.RUNNER_FILE, runner.read_bytes())  # a copy: a link would share one file with every other job
    sums[c.RUNNER_FILE] = runner.name  # a blob is named by its digest
    listing = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)).encode()
    _write(sums_file, listing)
    return digest_bytes(listing)


def load_runner_digest(folder: Path) -> Digest:
    """The digest of the runner in a capsule that is whole, as its sums have it: the runner of when it was written."""
    lines = (folder / c.SUMS_FILE).read_text("utf-8").splitlines()
    sums = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    return Digest(f"sha256:{sums[c.RUNNER_FILE]}")


def store_runner(storage: StorageLayout) -> Path:
    """Build runner.pex into the blobs, under its digest; what is there already is kept."""
    incoming = storage.root / "blobs"
    incoming.mkdir(parents=True, exist_ok=True)
    partial = incoming / f".runner-{secrets.token_hex(8)}"
    target = storage.blob(Digest("sha256:" + build_runner(partial)))
    target.parent.mkdir(parents=True, exist_ok=True)
    partial.chmod(_FILE_MODE)
    partial.replace(target)
    return target


def make_folders(folders: tuple[Path, ...], owner: tuple[int, int] | None) -> None:
    """Make `folders` for the job's user (0750); where the image's own user runs the job, for anybody (0777).

    Raises:
        NodeFault: the storage does not let this process give the folders away.

    """
    for folder in folders:
        _make_folder(folder)
        folder.chmod(0o777 if owner is None else 0o750)
        if owner is None or os.geteuid() != 0:
            continue
        try:
            os.chown(folder, *owner, follow_symlinks=False)
        except OSError as error:
            raise NodeFault(
                say("launch.not_given", folder=str(folder), user=f"{owner[0]}:{owner[1]}"),
                why=say("launch.not_given_why", why=str(error.strerror)),
                next_step=say("launch.not_given_next"),
            ) from error


def make_own_folders(folders: Sequence[Path]) -> None:
    """Make `folders` for everybody to read and for the console alone to write. Raises NodeFault where one is a link."""
    for folder in folders:
        _make_folder(folder)
        folder.chmod(_FOLDER_MODE)


def make_places(places: Mapping[Path, Path], *, bare: bool) -> None:
    """Make the places of mounts; for a job on the bare machine, links to what would be mounted there.

    Raises:
        NodeFault: something else is in such a place.

    """
    if not bare:
        make_own_folders(tuple(places))
        return
    for place, source in places.items():
        with contextlib.suppress(FileExistsError):
            place.symlink_to(source)
        if not place.is_symlink() or place.readlink() != source:
            raise NodeFault(
                say("launch.no_link", place=str(place), source=str(source)),
                why=say("launch.job_may"),
                next_step=say("launch.remove_it"),
            )


def write_control(path: Path, control: c.ControlFile) -> None:
    """Tell the runner the desired state, by rename; an attempt whose folder is gone needs no telling."""
    with contextlib.suppress(FileNotFoundError):
        _write(path, json.dumps(control.to_json()).encode())


def _make_folder(folder: Path) -> None:
    if folder.is_symlink():  # mkdir would take a link to a folder for the folder
        raise NodeFault(
            say("launch.is_link", folder=str(folder)), why=say("launch.job_may"), next_step=say("launch.remove_it")
        )
    folder.mkdir(parents=True, exist_ok=True)


def _write(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with os.fdopen(_create(partial), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), _FILE_MODE)
    try:
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _create(path: Path) -> int:
    """Make the file. The job may own the folder: a link that waits under the name is never followed."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
