"""`sf pack`: what travels with a job, its digest, and where it comes from."""

from pathlib import Path
from typing import Any, Final

import click

from starforge.cli.output import json_option, print_json, print_table, say, warn
from starforge.errors import PackError
from starforge.logtext import clean_line
from starforge.wording import count_of, describe_bytes
from starforge.workspace.git import GitStanding
from starforge.workspace.manifest import Manifest, Refusal, load_manifest
from starforge.workspace.pack import Packed, SecretsFound, check_manifest, find_unreadable, pack_manifest
from starforge.workspace.project import load_project, resolve_experiment
from starforge.workspace.provenance import Origin, build_provenance, load_origin
from starforge.workspace.remember import find_memory_folder, pack_or_recall

_NO_COMMIT: Final = {
    GitStanding.REPOSITORY: "the repository has none yet",
    GitStanding.NO_REPOSITORY: "it lies in no repository of git",
    GitStanding.NO_GIT: "git is not installed here",
    GitStanding.DUBIOUS_OWNERSHIP: "git refuses a repository of another owner",
}


@click.command()
@click.argument("experiment")
@click.option("--output", type=click.Path(path_type=Path, dir_okay=False), help="Also write the tar to this file.")
@json_option
def pack(experiment: str, output: Path | None, as_json: bool) -> int:  # noqa: FBT001 - click passes flags so
    r"""Show what travels with a job, and its digest.

    A job gets the project as a whole, and starts in the experiment's folder. Nothing is sent. Ends with 1 when a path
    is refused.

    \b
    JSON: {digest, bytes, files: [{path, bytes, mode, sha256, link?}],
           refused: [{path, reason}],
           provenance: {git, commit, branch, remote, dirty, dirty_files,
                        line_ends_only, submodules}}
    bytes is the size of the tar. digest and bytes are null when something is
    refused.
    """
    project = load_project(Path.cwd())
    resolve_experiment(project, experiment)
    manifest = load_manifest(project.root)
    refused = [*manifest.refused, *find_unreadable(manifest)]
    packed = None
    if not refused:
        check_manifest(manifest, project.pack_limit_bytes)
        try:
            packed = _pack(manifest, output)
        except SecretsFound as error:
            refused.extend(error.refused)
        except PackError as error:
            if not as_json or error.path is None:
                raise
            refused.append(Refusal(error.path, error.why or error.what))
    origin = load_origin(manifest, packed)
    if as_json:
        print_json(_build_answer(packed, refused, origin))
    else:
        _print(packed, refused, origin)
    return 1 if packed is None else 0


def describe_origin(origin: Origin) -> dict[str, Any]:
    """The provenance as JSON: what a JobSpec holds, what git is here, and files that differ in line ends alone."""
    provenance = build_provenance(origin, None).model_dump(mode="json", exclude={"config_digest"})
    return {"git": str(origin.standing), **provenance, "line_ends_only": list(origin.line_ends_only)}


def describe_packed(packed: Packed) -> dict[str, Any]:
    """Digest, size and members as JSON."""
    files = [file.to_json() for file in packed.files]
    return {"digest": packed.digest, "bytes": packed.bytes, "files": files}


def _pack(manifest: Manifest, output: Path | None) -> Packed:
    if output is None:
        return pack_or_recall(manifest, find_memory_folder())
    with output.open("wb") as sink:
        return pack_manifest(manifest, sink)


def _build_answer(packed: Packed | None, refused: list[Refusal], origin: Origin) -> dict[str, Any]:
    contents = describe_packed(packed) if packed else {"digest": None, "bytes": None, "files": []}
    return {**contents, "refused": [item.to_json() for item in refused], "provenance": describe_origin(origin)}


def _print(packed: Packed | None, refused: list[Refusal], origin: Origin) -> None:
    for item in refused:
        say(f"refused: {clean_line(item.path)}: {item.reason}", err=True)
    if packed is not None:
        rows = [(f"{file.mode:04o}", describe_bytes(file.bytes), file.path) for file in packed.files]
        print_table(("MODE", "SIZE", "PATH"), rows)
        click.echo(f"{count_of(len(packed.files), 'file')}, {describe_bytes(packed.bytes)}, {packed.digest}")
    if origin.commit is None and origin.clone is None:
        warn(f"no commit is known of it ({_NO_COMMIT[origin.standing]}): a job of it says what ran by its digest alone")
    for path in origin.line_ends_only:
        warn(f"{path} differs from its commit in line ends alone (see .gitattributes and core.autocrlf)")
    if origin.dirty:
        warn(f"differs from its commit: {origin.name_dirty()}")
