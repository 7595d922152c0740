"""`sf submit`: an experiment becomes a job."""

import json
import secrets
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from starforge.cli.output import json_option, note, print_json, say, warn
from starforge.cli.pack import describe_origin, describe_packed
from starforge.cli.progress import show_progress
from starforge.cli.session import load_profiles, open_console
from starforge.client.console import Console, render
from starforge.client.login import load_session
from starforge.client.upload import Sink, send_blob
from starforge.contract.api import AdmissionRecord, SubmitRequest
from starforge.contract.canonical import Json
from starforge.contract.ids import Digest
from starforge.contract.jobspec import JobSpec, Resources, digest_of
from starforge.contract.secrets import check_name
from starforge.errors import InputError, SignInRequired, Unavailable
from starforge.hardware.profiles import build_resources
from starforge.wording import count_of, describe_bytes, join_sentences
from starforge.workspace.config import Setting, parse_setting
from starforge.workspace.difference import load_difference
from starforge.workspace.experiment import Experiment, apply_resources, check_experiment, read_experiment
from starforge.workspace.git import GitStanding
from starforge.workspace.manifest import Manifest, load_manifest
from starforge.workspace.pack import Packed, check_manifest, pack_manifest
from starforge.workspace.project import load_project, resolve_experiment
from starforge.workspace.provenance import Origin, load_origin
from starforge.workspace.remember import find_memory_folder, pack_or_recall
from starforge.workspace.submission import Contents, build_jobspec, build_share, check_clean, check_data_travels


class _Key(NamedTuple):
    """An option that sets one key of the config."""

    option: str
    path: tuple[str, ...]
    type: Any
    help: str

    @property
    def argument(self) -> str:
        return "set_" + "__".join(self.path)


_KEYS: Final = (
    _Key("--image", ("image",), str, "The training image."),
    _Key("--model", ("model",), str, "The model to start from."),
    _Key("--train-data", ("data", "train"), str, "The training data."),
    _Key("--fleet", ("placement", "fleet"), str, "The fleet to run on."),
    _Key("--priority", ("placement", "priority"), click.Choice(["low", "normal", "high"]), "How urgent it is."),
    _Key("--init-from", ("init_from",), str, "run/JOB/checkpoint[@step=N] to start from."),
    _Key("--retries", ("lifecycle", "retries"), int, "How often a failed job is run again."),
    _Key("--max-runtime", ("lifecycle", "max_runtime_s"), float, "Seconds after which it is ended."),
    _Key("--note", ("note",), str, "A line about this run."),
)


def _key_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for key in reversed(_KEYS):
        function = click.option(key.option, key.argument, type=key.type, help=key.help)(function)
    return function


@click.command()
@click.argument("experiment")
@click.option("--profile", "profiles", multiple=True, required=True, help="[ROLES=]NAME[:GPUS], for instance h200:4.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Put a setting above the config's.")
@_key_options
@click.option("--secret", "named_secrets", multiple=True, metavar="NAME", help="Pass a secret of yours to the job.")
@click.option("--allow-dirty", is_flag=True, help="Send the files as they are, committed or not.")
@click.option("--dry-run", is_flag=True, help="Show what would be sent and what every gate says; keep nothing.")
@click.option("--follow", is_flag=True, help="Show the log until the job ends; end with its outcome.")
@json_option
def submit(experiment: str, profiles: tuple[str, ...], settings: tuple[str, ...], **flags: Any) -> int:  # noqa: ANN401 - click's
    r"""Submit an experiment as a job.

    With --follow the exit code is 0 only when the job succeeded; Ctrl-C leaves the job running. --secret may be given
    several times; `sf secret set NAME` sets one.

    \b
    JSON: {job, spec_digest, admission: {checks, warnings, refusals, …}, uploaded}
          with --follow also {outcome: the job as `sf job ls` shows it}, printed
          at the end
    JSON of --dry-run: {spec, spec_digest, workspace: as `sf pack`,
          admission: {…} or null, would_upload: true, false or null}
    """
    as_json, wants_to_follow = bool(flags["as_json"]), bool(flags["follow"])
    named = [Setting(key.path, flags[key.argument], key.option) for key in _KEYS if flags[key.argument] is not None]
    if not flags["dry_run"]:
        load_session()  # who is not signed in learns it before anything is packed
    # The gates say it of a dry run, among whatever else they say.
    may_be_dirty = flags["allow_dirty"] or flags["dry_run"]
    asked = _Asked(
        profiles,
        [*map(parse_setting, settings), *named],
        _read_names(flags["named_secrets"]),
        bool(flags["allow_dirty"]),
        bool(may_be_dirty),
    )
    prepared = _prepare(experiment, asked)
    if flags["dry_run"]:
        return _show_dry_run(prepared, as_json=as_json)
    with open_console() as console:
        answer = _send(console, prepared)
        if wants_to_follow:
            return follow_submitted(console, answer, as_json=as_json)
    if as_json:
        print_json(answer)
    elif not sys.stdout.isatty():
        click.echo(answer["job"])  # for a script: the id alone
    return 0


class _Asked(NamedTuple):
    profiles: tuple[str, ...]
    settings: list[Setting]
    secrets: tuple[str, ...]
    allow_dirty: bool
    may_be_dirty: bool


@dataclass(frozen=True, slots=True)
class _Prepared:
    experiment: Experiment
    manifest: Manifest
    contents: Contents
    request: SubmitRequest

    @property
    def spec(self) -> JobSpec:
        return self.request.spec

    def write(self, sink: Sink) -> Digest:
        """Pack the workspace into `sink`; gives the digest of what was packed."""
        return pack_manifest(self.manifest, sink).digest


def _prepare(name: str, asked: _Asked) -> _Prepared:
    project = load_project(Path.cwd())
    experiment = read_experiment(project, resolve_experiment(project, name), asked.settings)
    resources = _choose_resources(experiment, asked.profiles)
    check_experiment(experiment)
    for warning in experiment.warnings:
        warn(f"{warning.place}: {warning.message}")
    manifest = load_manifest(project.root)
    check_manifest(manifest, project.pack_limit_bytes)
    contents = _load_contents(manifest, may_be_dirty=asked.may_be_dirty)
    check_data_travels(experiment, contents.packed)
    request = SubmitRequest(
        spec=build_jobspec(experiment, resources, contents, asked.secrets),
        allow_dirty=asked.allow_dirty,
        difference=load_difference(manifest, contents.origin) if asked.allow_dirty else None,
        config=experiment.values,
    )
    return _Prepared(experiment, manifest, contents, request)


def _read_names(names: Sequence[str]) -> tuple[str, ...]:
    """Each name once. Raises InputError for one that no secret can have; shows nothing behind an equals sign."""
    for name in names:
        wanted, sign, _ = name.partition("=")
        if sign:
            raise InputError(
                "--secret takes the name of a secret and no value",
                why="arguments can be read by everybody on this machine",
                next_step=f"sf secret set {wanted}, then --secret {wanted}; if that was a real value, make a new one",
            )
        check_name(name)
    return tuple(dict.fromkeys(names))


def _load_contents(manifest: Manifest, *, may_be_dirty: bool) -> Contents:
    """The packed workspace and its origin. Packing takes its time: what is refused is refused before, if it can be."""
    if manifest.clone is None:
        origin = load_origin(manifest)
        check_clean(origin, allow_dirty=may_be_dirty)
        _warn_of_origin(origin)
    with show_progress("packing", manifest.content_bytes) as progress:
        packed = pack_or_recall(manifest, find_memory_folder(), progress)
    if manifest.clone is not None:
        origin = load_origin(manifest, packed)
        check_clean(origin, allow_dirty=may_be_dirty)
        _warn_of_origin(origin)
    return Contents(packed=packed, origin=origin)


def _choose_resources(experiment: Experiment, profiles: tuple[str, ...]) -> Resources:
    """The pools that were asked for; what breaks a rule about them is then among the experiment's faults."""
    roles = experiment.recipe.roles if experiment.recipe else ()
    try:
        resources = build_resources(profiles, load_profiles(profiles), roles, build_share(experiment))
    except InputError:
        check_experiment(experiment)  # its own faults come first
        raise
    apply_resources(experiment, resources)
    return resources


def _warn_of_origin(origin: Origin) -> None:
    if origin.dirty:
        warn(f"the project differs from its commit: {origin.name_dirty()}")
    if origin.clone is not None:
        note(f"the files are those of {origin.clone.job}, and so is what is known of their origin")
    elif origin.standing is not GitStanding.REPOSITORY and origin.commit is None:
        warn(f"the job will not know which commit it came from ({origin.standing.replace('_', ' ')})")
    for path in origin.line_ends_only:
        warn(f"{path} differs from its commit in line ends alone; its bytes are sent as they are")


def _send(console: Console, prepared: _Prepared) -> dict[str, Json]:
    """Upload and submit; gives the answer for `--json`."""
    packed = prepared.contents.packed
    with show_progress("sending", packed.bytes) as progress:
        uploaded = send_blob(console, packed.digest, prepared.write, progress)
    record = console.submit(prepared.request, f"sf-{secrets.token_hex(16)}")
    if record.job is None:
        raise Unavailable("the console admitted the job and named none", next_step="look at `sf job ls`")
    for warning in record.warnings:
        warn(warning)
    note(f"submitted {prepared.experiment.name} as {record.job}; look at it with: sf job show {record.job}")
    admission = record.model_dump(mode="json")
    return {"job": record.job, "spec_digest": digest_of(prepared.spec), "admission": admission, "uploaded": uploaded}


def follow_submitted(console: Console, answer: dict[str, Json], *, as_json: bool) -> int:
    """Show the log of the job that `answer` names until it ends; gives the exit code of the command."""
    from starforge.cli.follow import decide_exit_code, follow_job, show_end  # noqa: PLC0415 - only here
    from starforge.cli.log_writers import NoLog, TextLog  # noqa: PLC0415 - only here

    ended = follow_job(console, str(answer["job"]), NoLog() if as_json else TextLog())
    if as_json:
        print_json({**answer, "outcome": ended.model_dump(mode="json") if ended else None})
    elif ended is not None:
        show_end(console, ended)
    return decide_exit_code(ended)


def _show_dry_run(prepared: _Prepared, *, as_json: bool) -> int:
    answered, missing = _ask_gates(prepared)
    record = answered.record if answered else None
    contents = prepared.contents
    spec = render(prepared.request)["spec"]
    if as_json:
        workspace = {**describe_packed(contents.packed), "provenance": describe_origin(contents.origin)}
        answer = {"spec": spec, "spec_digest": digest_of(prepared.spec), "workspace": workspace}
        said = {"admission": record.model_dump(mode="json") if record else None}
        print_json({**answer, **said, "would_upload": answered.would_upload if answered else None})
    else:
        click.echo(json.dumps(spec, indent=2))
        click.echo(_describe_workspace(contents.packed, answered))
        for check in record.checks if record else ():
            say(f"{check.gate}: {check.outcome} {check.message}".rstrip())
        for refusal in record.refusals if record else ():
            say(f"refused: {join_sentences(refusal.what, refusal.why, refusal.next_step)}", err=True)
    if missing:
        warn(f"no gate was asked: {missing}")
    return 1 if record and record.refusals else 0


class _Answer(NamedTuple):
    record: AdmissionRecord
    would_upload: bool


def _ask_gates(prepared: _Prepared) -> tuple[_Answer | None, str]:
    """What the gates say, or why they could not be asked: a dry run is of use without a server too."""
    try:
        with open_console() as console:
            record = console.check(prepared.request)
            return _Answer(record, not console.blob(prepared.contents.packed.digest).present), ""
    except (SignInRequired, Unavailable) as error:
        return None, str(error)


def _describe_workspace(packed: Packed, answered: _Answer | None) -> str:
    size = f"{count_of(len(packed.files), 'file')}, {describe_bytes(packed.bytes)}"
    if answered is None:
        return f"workspace: {size} (sf pack lists them)"
    if answered.would_upload:
        return f"workspace: would be uploaded: {size} (sf pack lists them)"
    return f"workspace: {size}, uploaded before (sf pack lists them)"
