"""`sf submit`: an experiment becomes a job."""

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

from starforge.cli.output import json_option, note, print_json, say, warn
from starforge.cli.pack import describe_origin, describe_packed
from starforge.cli.progress import show_progress
from starforge.cli.session import load_profiles, open_console
from starforge.client.console import Console, render
from starforge.client.login import load_session
from starforge.client.submitting import Asked, Prepared, check_secret_names, prepare, send
from starforge.contract.api import AdmissionRecord
from starforge.contract.canonical import Json
from starforge.contract.jobspec import digest_of
from starforge.errors import SignInRequired, Unavailable
from starforge.wording import count_of, describe_bytes, join_sentences
from starforge.workspace.config import Setting, parse_setting
from starforge.workspace.pack import Packed


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
    _Key("--note", ("note",), str, "A line about this run; `sf job show` has it."),
)


def key_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a command take every option that sets one key of the config."""
    for key in reversed(_KEYS):
        function = click.option(key.option, key.argument, type=key.type, help=key.help)(function)
    return function


@click.command()
@click.argument("experiment")
@click.option("--profile", "profiles", multiple=True, required=True, help="[ROLES=]NAME[:GPUS], for instance h200:4.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Put a setting above the config's.")
@key_options
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
    if not flags["dry_run"]:
        load_session()  # who is not signed in learns it before anything is packed
    asked = build_asked(profiles, settings, flags)
    prepared = prepare(Path.cwd(), experiment, asked, load_profiles, Terminal())
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


def build_asked(profiles: tuple[str, ...], settings: tuple[str, ...], flags: Mapping[str, Any]) -> Asked:
    """What the options ask for. Raises InputError for those that cannot be read."""
    named = [Setting(key.path, flags[key.argument], key.option) for key in _KEYS if flags[key.argument] is not None]
    # The gates say it of a dry run, among whatever else they say.
    may_be_dirty = flags["allow_dirty"] or flags["dry_run"]
    return Asked(
        profiles,
        [*map(parse_setting, settings), *named],
        check_secret_names(flags["named_secrets"]),
        bool(flags["allow_dirty"]),
        bool(may_be_dirty),
    )


class Terminal:
    """Hears on stderr what happens while an experiment is sent."""

    def warn(self, text: str) -> None:
        """Something that may be a mistake."""
        warn(text)

    def note(self, text: str) -> None:
        """Something good to know."""
        note(text)

    def watch(self, doing: str, total_bytes: int) -> AbstractContextManager[Callable[..., object]]:
        """A piece of work, with a bar in a terminal."""
        return show_progress(doing, total_bytes)


def _send(console: Console, prepared: Prepared) -> dict[str, Json]:
    """Upload and submit; gives the answer for `--json`."""
    sent = send(console, prepared, Terminal())
    note(f"submitted {prepared.experiment.name} as {sent.job}; look at it with: sf job show {sent.job}")
    admission = sent.record.model_dump(mode="json")
    return {"job": sent.job, "spec_digest": digest_of(prepared.spec), "admission": admission, "uploaded": sent.uploaded}


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


def _show_dry_run(prepared: Prepared, *, as_json: bool) -> int:
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


def _ask_gates(prepared: Prepared) -> tuple[_Answer | None, str]:
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
