"""`sf job artifacts` and `sf job get`: what a job left on the storage, listed and brought here."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from starforge.cli.output import json_option, note, print_json, print_table, say
from starforge.cli.progress import show_progress
from starforge.cli.session import open_console_as
from starforge.client.files import FilesConsole, Wanted
from starforge.client.outputs import OUT, complete_path, is_here, list_wanted, refuse_overwriting
from starforge.contract.files import FileEntry
from starforge.logtext import clean_line
from starforge.wording import count_of, describe_bytes

_NAMED: Final = 5
"""So many of what was left out are named."""


@click.command()
@click.argument("job")
@click.argument("folder", default=OUT)
@json_option
def artifacts(job: str, folder: str, as_json: bool) -> None:  # noqa: FBT001 - click's
    r"""List what a job left on the storage.

    FOLDER is below the job's outputs, such as `adapter`; `checkpoints/1` holds those
    of attempt 1. Without one the outputs themselves are listed.

    \b
    JSON: {path, items: [{name, kind, bytes, modified_at, sha256}], unlisted}
    """
    path = complete_path(folder)
    with open_console_as(FilesConsole) as console:
        items = list(console.entries(job, path))
    if as_json:
        print_json({"path": path, "items": [one.model_dump(mode="json") for one in items]})
        return
    if not items:
        click.echo(f"{path} is empty")
        return
    print_table(("SIZE", "CHANGED", "SHA256", "NAME"), [_row(one) for one in items])
    if path == OUT:
        note(f"to bring them here: sf job get {job}")


@click.command()
@click.argument("job")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--to", "target", type=click.Path(path_type=Path), default=Path(), help="Where to; a folder.")
@click.option("--force", is_flag=True, help="Write over files that are there.")
@json_option
def get(job: str, paths: tuple[str, ...], target: Path, force: bool, as_json: bool) -> None:  # noqa: FBT001 - click's
    r"""Bring files or checkpoints of a job here.

    A PATH is below the job's outputs (`model.safetensors`, `adapter`), or
    `checkpoint` for the newest one, `checkpoint@step=N` for another; without one all
    outputs come. A download that was cut goes on where it was when the command is
    run again, and what came is compared with the size and the digest that are known.
    A file that is there already in the right size is not brought again. Links are not
    followed: those that are left out are named.

    \b
    JSON: {files: [{path, to, bytes, sha256, saved}], left_out: [path]}
    """
    with open_console_as(FilesConsole) as console:
        left_out: list[str] = []
        wanted = [one for path in paths or (OUT,) for one in list_wanted(console, job, path, target, left_out)]
        missing = [one for one in wanted if force or not is_here(one)]
        refuse_overwriting([] if force else missing, "choose another folder with --to, or write over them with --force")
        total = sum(one.entry.bytes or 0 for one in missing)
        with show_progress("fetching", total) as progress:
            for one in missing:
                console.save(job, one, progress)
    if as_json:
        print_json({"files": [_as_json(one, is_saved=one in missing) for one in wanted], "left_out": left_out})
        return
    _print_saved(wanted, missing)
    if left_out:
        named = ", ".join(clean_line(path) for path in left_out[:_NAMED])
        more = f" and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
        note(f"left out, for links are not followed: {named}{more}")


def _print_saved(wanted: Sequence[Wanted], saved: Sequence[Wanted]) -> None:
    for one in saved:
        say(str(one.target))
    here = len(wanted) - len(saved)
    if here:
        note(f"{count_of(here, 'file')} {'was' if here == 1 else 'were'} here already")
    if not wanted:
        note("there is nothing to bring")


def _as_json(one: Wanted, *, is_saved: bool) -> dict[str, Any]:
    return {
        "path": one.path,
        "to": str(one.target),
        "bytes": one.entry.bytes,
        "sha256": one.entry.sha256,
        "saved": is_saved,
    }


def _row(one: FileEntry) -> Sequence[str]:
    size = {"folder": "folder", "link": "link", "other": "-"}.get(one.kind) or describe_bytes(one.bytes or 0)
    at = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.modified_at)) if one.modified_at is not None else "-"
    return size, at, (one.sha256 or "-")[:12], clean_line(one.name)
