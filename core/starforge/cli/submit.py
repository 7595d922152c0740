"""`sf submit`: an experiment becomes a job."""

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from starforge.cli.follow import NoLog, TextLog, decide_exit_code, follow_job, show_end
from starforge.cli.output import describe_bytes, json_option, note, print_json, warn
from starforge.cli.pack import describe_origin, describe_packed
from starforge.cli.progress import show_progress
from starforge.cli.session import load_profiles, open_console
from starforge.client.console import Console, render
from starforge.client.upload import send_workspace
from starforge.contract.api import AdmissionRecord, SubmitRequest
from starforge.contract.canonical import Json
from starforge.contract.jobspec import JobSpec, digest_of
from starforge.errors import SignInRequired, Unavailable
from starforge.hardware.profiles import build_resources
from starforge.workspace.config import Setting, parse_setting
from starforge.workspace.experiment import Experiment, check_experiment, read_experiment
from starforge.workspace.manifest import Manifest, load_manifest
from starforge.workspace.pack import check_manifest, pack_manifest
from starforge.workspace.project import load_project, resolve_experiment
from starforge.workspace.provenance import load_origin
from starforge.workspace.submission import Contents, build_jobspec, build_share, check_clean

Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def _overrides(*options: tuple[str, tuple[str, ...], Any, str]) -> Option:
    """Options that set one key of the config each, collected in the argument `overrides`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for flag, path, kind, text in reversed(options):
            function = click.option(flag, _argument_of(path), type=kind, help=text)(function)
        return function

    return decorate


def _argument_of(path: tuple[str, ...]) -> str:
    return "set_" + "__".join(path)


@click.command()
@click.argument("experiment")
@click.option("--profile", "profiles", multiple=True, required=True, help="[ROLES=]NAME[:GPUS], for instance h200:4.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Put a setting above the config's.")
@_overrides(
    ("--image", ("image",), str, "The training image."),
    ("--model", ("model",), str, "The model to start from."),
    ("--train-data", ("data", "train"), str, "The training data."),
    ("--fleet", ("placement", "fleet"), str, "The fleet to run on."),
    ("--priority", ("placement", "priority"), click.Choice(["low", "normal", "high"]), "How urgent it is."),
    ("--init-from", ("init_from",), str, "run/JOB/checkpoint[@step=N] to start from."),
    ("--retries", ("lifecycle", "retries"), int, "How often a failed job is run again."),
    ("--max-runtime", ("lifecycle", "max_runtime_s"), float, "Seconds after which it is ended."),
)
@click.option("--note", "note_text", help="A line about this run.")
@click.option("--allow-dirty", is_flag=True, help="Send the files as they are, committed or not.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent and what every gate says; keep nothing.")
@click.option("--follow", is_flag=True, help="Show the log until the job ends; end with its outcome.")
@json_option
def submit(experiment: str, profiles: tuple[str, ...], settings: tuple[str, ...], **flags: Any) -> int:  # noqa: ANN401 - click's
    r"""Submit an experiment as a job.

    With --follow the exit code is 0 only when the job succeeded; Ctrl-C leaves the job running.

    \b
    JSON: {job, spec_digest, admission: {checks, warnings, refusals, …}, uploaded}
          with --follow also {outcome: the job as `sf job ls` shows it}, printed at the end
    JSON of --dry-run: {spec, spec_digest, workspace: as `sf pack`, admission: {…} or null}
    """
    overrides = [Setting(path, flags[_argument_of(path)]) for path in _PATHS if flags[_argument_of(path)] is not None]
    if flags["note_text"] is not None:
        overrides.append(Setting(("note",), flags["note_text"]))
    prepared = _prepare(experiment, profiles, [*map(parse_setting, settings), *overrides], flags["allow_dirty"])
    if flags["dry_run"]:
        return _show_dry_run(prepared, as_json=flags["as_json"])
    with open_console() as console:
        uploaded = _upload(console, prepared)
        record = console.submit(prepared.request, f"sf-{secrets.token_hex(16)}")
        _show_record(prepared, record, uploaded=uploaded, as_json=flags["as_json"] and not flags["follow"])
        if not flags["follow"] or record.job is None:
            return 0
        ended = follow_job(console, record.job, NoLog() if flags["as_json"] else TextLog())
        if ended is not None and not flags["as_json"]:
            show_end(console, ended)
        if flags["as_json"]:
            answer = _describe_record(prepared, record, uploaded=uploaded)
            print_json({**answer, "outcome": ended.model_dump(mode="json") if ended else None})
        return decide_exit_code(ended)


_PATHS = (
    ("image",),
    ("model",),
    ("data", "train"),
    ("placement", "fleet"),
    ("placement", "priority"),
    ("init_from",),
    ("lifecycle", "retries"),
    ("lifecycle", "max_runtime_s"),
)


@dataclass(frozen=True, slots=True)
class _Prepared:
    experiment: Experiment
    manifest: Manifest
    contents: Contents
    request: SubmitRequest

    @property
    def spec(self) -> JobSpec:
        return self.request.spec


def _prepare(name: str, profiles: tuple[str, ...], settings: list[Setting], allow_dirty: bool) -> _Prepared:  # noqa: FBT001 - click's flag
    project = load_project(Path.cwd())
    experiment = read_experiment(project, resolve_experiment(project, name), settings)
    check_experiment(experiment)
    for warning in experiment.warnings:
        warn(f"{warning.place}: {warning.message}")
    registry, age = load_profiles()
    if age:
        note(f"profiles as they were {age} ago (sf login fetches them anew)")
    roles = experiment.recipe.roles if experiment.recipe else ()
    resources = build_resources(profiles, registry, roles, build_share(experiment))
    manifest = load_manifest(project.root)
    check_manifest(manifest, project.pack_limit_bytes)
    origin = load_origin(manifest)
    check_clean(origin, allow_dirty=allow_dirty)
    with show_progress("packing", manifest.content_bytes) as progress:
        packed = pack_manifest(manifest, None, progress)
    contents = Contents(packed=packed, origin=origin)
    spec = build_jobspec(experiment, resources, contents)
    return _Prepared(experiment, manifest, contents, SubmitRequest(spec=spec, allow_dirty=allow_dirty))


def _upload(console: Console, prepared: _Prepared) -> bool:
    packed = prepared.contents.packed
    with show_progress("sending", packed.bytes) as progress:
        return send_workspace(console, prepared.manifest, packed, progress)


def _show_dry_run(prepared: _Prepared, *, as_json: bool) -> int:
    record, missing = _find_verdict(prepared)
    contents = prepared.contents
    spec = render(prepared.request)["spec"]
    if as_json:
        workspace = {**describe_packed(contents.packed), "provenance": describe_origin(contents.origin)}
        answer = {"spec": spec, "spec_digest": digest_of(prepared.spec), "workspace": workspace}
        print_json({**answer, "admission": record.model_dump(mode="json") if record else None})
    else:
        click.echo(json.dumps(spec, indent=2))
        click.echo(f"{len(contents.packed.files)} files, {describe_bytes(contents.packed.bytes)} (sf pack lists them)")
        for check in record.checks if record else ():
            click.echo(f"{check.gate}: {check.outcome} {check.message}".rstrip())
        for refusal in record.refusals if record else ():
            click.echo(f"refused: {refusal.what}. {refusal.why}. {refusal.next_step}", err=True)
    if missing:
        warn(f"no gate was asked: {missing}")
    return 1 if record and record.refusals else 0


def _find_verdict(prepared: _Prepared) -> tuple[AdmissionRecord | None, str]:
    """What the gates say, or why they could not be asked: a dry run is of use without a server too."""
    try:
        with open_console() as console:
            return console.check(prepared.request), ""
    except (SignInRequired, Unavailable) as error:
        return None, str(error)


def _show_record(prepared: _Prepared, record: AdmissionRecord, *, uploaded: bool, as_json: bool) -> None:
    for warning in record.warnings:
        warn(warning)
    if as_json:
        print_json(_describe_record(prepared, record, uploaded=uploaded))
    else:
        note(f"submitted {prepared.experiment.name} as {record.job}; look at it with: sf job show {record.job}")


def _describe_record(prepared: _Prepared, record: AdmissionRecord, *, uploaded: bool) -> dict[str, Json]:
    admission = record.model_dump(mode="json")
    return {"job": record.job, "spec_digest": digest_of(prepared.spec), "admission": admission, "uploaded": uploaded}
