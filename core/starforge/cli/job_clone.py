"""`sf job clone` and `sf rerun`: a job's workspace as a folder, and a job's spec once more."""

import os
import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import click

from starforge.cli.output import json_option, note, print_json, warn
from starforge.cli.progress import show_progress
from starforge.cli.same_again import Command, find_command
from starforge.cli.session import open_console
from starforge.client.console import Console
from starforge.contract import capsule
from starforge.contract.api import Difference, JobDetail
from starforge.contract.ids import Digest
from starforge.errors import InputError, PackError, StarForgeError, Unavailable
from starforge.hardware.profiles import Profile
from starforge.runner.endings import Refusal
from starforge.runner.workspace import unpack_workspace
from starforge.wording import count_of
from starforge.workspace.clone import Clone, read_files, write_clone
from starforge.workspace.manifest import load_manifest
from starforge.workspace.pack import pack_manifest
from starforge.workspace.project import load_project
from starforge.workspace.provenance import load_origin
from starforge.workspace.submission import Contents


@click.command()
@click.argument("job")
@click.argument("folder", required=False, type=click.Path(path_type=Path))
@json_option
def clone(job: str, folder: Path | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Make a folder with exactly the files that a job ran.

    FOLDER must not be there, or be empty; without it the folder is called after
    the project and the job. Prints the command that submits the same again. The
    folder remembers where its files come from for as long as they are unchanged.

    \b
    JSON: {job, folder, workspace, files, command: [word], spec_digest,
           same_digest: whether the command gives that digest, why: … if not}
    """
    with open_console() as console:
        detail = console.job(job)
        target = Path(os.path.abspath(folder or f"{detail.spec.metadata.project}-{detail.job.id}"))  # noqa: PTH100 - links stay as they were named
        _check_target(target)
        difference = None
        if detail.lineage.difference_bytes is not None:
            kept = console.difference(job)
            difference = Difference(text=kept.text, is_cut=kept.is_cut)
        files = _make_folder(console, detail, target, difference)
        registry = {item.name: Profile(**item.model_dump()) for item in console.profiles().items}
    command = _find_command(target, detail, registry)
    if as_json:
        print_json(_build_answer(detail, (target, files), command))
        return
    note(f"{target} holds the {count_of(files, 'file')} of {job}")
    if command.why:
        warn(f"this makes another spec than {detail.spec_digest}: {command.why}")
    click.echo(f"cd {shlex.quote(str(folder or target.name))} && {shlex.join(command.words)}")


@click.command()
@click.argument("job")
@click.option("--follow", is_flag=True, help="Show the log until the job ends; end with its outcome.")
@json_option
def rerun(job: str, follow: bool, as_json: bool) -> int:  # noqa: FBT001 - click passes flags so
    r"""Submit the very same JobSpec again, as a new job of yours.

    The console has the files; every gate is asked anew. Changes that no commit
    holds are allowed where they were allowed then. With --follow the exit code is
    0 only when the job succeeded; Ctrl-C leaves the job running.

    \b
    JSON: {job, spec_digest, admission: {checks, warnings, …}, rerun_of}
          with --follow also {outcome: the job as `sf job ls` shows it}, printed
          at the end
    """
    from starforge.cli.submit import follow_submitted  # noqa: PLC0415 - most of what submit needs is not needed here

    with open_console() as console:
        record = console.rerun(job, f"sf-{secrets.token_hex(16)}")
        if record.job is None:
            raise Unavailable("the console admitted the job and named none", next_step="look at `sf job ls`")
        for warning in record.warnings:
            warn(warning)
        note(f"submitted the spec of {job} again as {record.job}; look at it with: sf job show {record.job}")
        answer: dict[str, Any] = {"job": record.job, "spec_digest": record.spec_digest}
        answer |= {"admission": record.model_dump(mode="json"), "rerun_of": job}
        if follow:
            return follow_submitted(console, answer, as_json=as_json)
    if as_json:
        print_json(answer)
    elif not sys.stdout.isatty():
        click.echo(record.job)  # for a script: the id alone
    return 0


def _check_target(target: Path) -> None:
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise InputError(f"{target} is there already", next_step="name a folder that is not there, or an empty one")
    if not target.parent.is_dir():
        raise InputError(f"{target.parent} is no folder", next_step="make it first, or name another place")


def _make_folder(console: Console, detail: JobDetail, target: Path, difference: Difference | None) -> int:
    """Make the folder, whole or not at all; gives how many files it has."""
    partial = target.with_name(f".{target.name}.{secrets.token_hex(4)}.partial")
    try:
        with tempfile.NamedTemporaryFile(prefix="sf-clone-") as archive:
            _unpack(console, detail, archive, partial)
        files = read_files(partial)
        _refuse_repository(detail, files)
        workspace, provenance = Digest(detail.spec.spec.workspace.digest), detail.spec.spec.provenance
        known = Clone(job=detail.job.id, workspace=workspace, provenance=provenance, files=files, difference=difference)
        write_clone(partial, known)
        _publish(partial, target)
    except OSError as error:
        why = f"{error.strerror or error}: {error.filename or partial}"
        raise InputError(f"{target} cannot be made", why=why, next_step="name a place that can be written") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return len(files)


def _refuse_repository(detail: JobDetail, files: Iterable[str]) -> None:
    """Take no repository along: its configuration may name commands, and git runs them in whoever's shell."""
    found = next((path for path in files if ".git" in path.lower().split("/")), None)
    if found is not None:
        raise PackError(
            f"the workspace of {detail.job.id} was not taken",
            why=f"it holds {found}, which is never packed: a repository may name commands that git would run here",
            next_step="look at what it was submitted with",
        )


def _publish(partial: Path, target: Path) -> None:
    """Give the folder its name. A folder that is there stays: a shell may stand in it."""
    if not target.exists():
        partial.rename(target)
        return
    for path in sorted(partial.iterdir()):
        path.rename(target / path.name)


def _unpack(console: Console, detail: JobDetail, archive: IO[bytes], partial: Path) -> None:
    workspace = detail.spec.spec.workspace
    with show_progress("fetching", workspace.bytes) as progress:
        console.save_workspace(detail.job.id, archive, progress)
    archive.flush()
    try:
        packed = capsule.Workspace(archive.name, workspace.digest)
        unpack_workspace(packed, str(partial), workspace.files, lambda: None)
    except Refusal as error:
        raise PackError(
            f"the workspace of {detail.job.id} was not taken",
            why=error.message,
            next_step="what the console sent is not what the job was submitted with, or another program packed it",
        ) from error


def _find_command(target: Path, detail: JobDetail, registry: dict[str, Profile]) -> Command:
    plain = ("sf", "submit", detail.spec.metadata.name)
    try:
        manifest = load_manifest(target)
        packed = pack_manifest(manifest)
        origin = load_origin(manifest, packed)
        if origin.clone is None:
            return Command(plain, f"the files pack to {packed.digest} with this version of StarForge")
        return find_command(load_project(target), detail, registry, Contents(packed=packed, origin=origin))
    except StarForgeError as error:  # the folder is made, and is of use without the command
        return Command(plain, str(error))


def _build_answer(detail: JobDetail, made: tuple[Path, int], command: Command) -> dict[str, Any]:
    folder, files = made
    answer = {"job": detail.job.id, "folder": str(folder), "workspace": detail.spec.spec.workspace.digest}
    said = {"files": files, "command": list(command.words), "spec_digest": detail.spec_digest}
    return {**answer, **said, "same_digest": not command.why, "why": command.why}
