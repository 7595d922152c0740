"""`sf sweep start`, which is `sf sweep`: every combination of some values becomes a job."""

import sys
from pathlib import Path
from typing import Any

import click

from starforge.cli.output import json_option, note, print_json, print_table, say, warn
from starforge.cli.session import load_profiles, open_console_as
from starforge.cli.submit import Terminal, build_asked, key_options
from starforge.client.login import load_session
from starforge.client.sweeps import PreparedSweep, SweepAsked, SweepConsole, prepare_sweep, send_sweep
from starforge.contract.canonical import Json
from starforge.contract.sweeps import SweepRecord
from starforge.errors import SignInRequired, Unavailable
from starforge.recipes.values import spell_value
from starforge.wording import count_of, join_sentences
from starforge.workspace.grid import parse_grid


@click.command()
@click.argument("experiment")
@click.option(
    "-g",
    "--grid",
    "texts",
    multiple=True,
    required=True,
    metavar="KEY=V1,V2",
    help="The values of a hyperparameter; one for each that differs.",
)
@click.option("--name", metavar="NAME", help="What the sweep is called; else as the experiment.")
@click.option("--profile", "profiles", multiple=True, required=True, help="[ROLES=]NAME[:GPUS], of each job.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Put a setting above the config's.")
@key_options
@click.option("--secret", "named_secrets", multiple=True, metavar="NAME", help="Pass a secret of yours to the jobs.")
@click.option("--allow-dirty", is_flag=True, help="Send the files as they are, committed or not.")
@click.option("--dry-run", is_flag=True, help="Show the combinations and what every gate says; keep nothing.")
@json_option
def start(experiment: str, texts: tuple[str, ...], name: str | None, profiles: tuple[str, ...], **flags: Any) -> int:  # noqa: ANN401 - click's
    r"""Submit an experiment once for each combination of values.

    Every -g names a hyperparameter and its values, which are YAML as those of --set;
    a value that is a list is written in brackets. Each combination is checked before
    anything is sent, and all of them are admitted or none. One sweep has 200
    combinations at most. Repeated as it was, the command finds the sweep of before
    and makes no second one; under another --name it makes another.

    \b
    JSON: {sweep, name, jobs: [{job, combination, spec_digest}], checks, warnings,
           refusals, repeated, uploaded}
    JSON of --dry-run: the same without uploaded, null for sweep and each job;
          checks, warnings, refusals are null where no gate was asked
    """
    as_json = bool(flags["as_json"])
    if not flags["dry_run"]:
        load_session()  # who is not signed in learns it before anything is packed
    asked = SweepAsked(build_asked(profiles, flags["settings"], flags), parse_grid(texts), name)
    prepared = prepare_sweep(Path.cwd(), experiment, asked, load_profiles, Terminal())
    if flags["dry_run"]:
        return _show_dry_run(prepared, as_json=as_json)
    with open_console_as(SweepConsole) as console:
        sent = send_sweep(console, prepared, Terminal())
    jobs = count_of(len(sent.record.jobs), "job")
    if sent.record.repeated:
        note(f"{sent.sweep} was submitted before, with {jobs}: nothing was added; --name makes another sweep of it")
    else:
        note(f"submitted {experiment} as sweep {sent.sweep}, {jobs}; look at it with: sf sweep show {sent.sweep}")
    if as_json:
        print_json({**sent.record.model_dump(mode="json"), "uploaded": sent.uploaded})
    elif not sys.stdout.isatty():
        click.echo(sent.sweep)  # for a script: the id alone
    return 0


def _show_dry_run(prepared: PreparedSweep, *, as_json: bool) -> int:
    record, missing = _ask_gates(prepared)
    request = prepared.request
    if as_json:
        print_json(_describe_dry_run(prepared, record))
    else:
        rows = [[spell_value(one[key]) for key in request.keys] for one in request.combinations]
        print_table(request.keys, rows)
        click.echo(f"{count_of(len(rows), 'job')} in all")
        for check in record.checks if record else ():
            say(f"{check.gate}: {check.outcome} {check.message}".rstrip())
        for warning in record.warnings if record else ():
            warn(warning)
        for refusal in record.refusals if record else ():
            say(f"refused: {join_sentences(refusal.what, refusal.why, refusal.next_step)}", err=True)
    if missing:
        warn(f"no gate was asked: {missing}")
    return 1 if record and record.refusals else 0


def _describe_dry_run(prepared: PreparedSweep, record: SweepRecord | None) -> dict[str, Json]:
    if record is not None:
        told: dict[str, Json] = record.model_dump(mode="json")
        return told
    request = prepared.request
    jobs: list[Json] = [
        {"job": None, "combination": dict(one), "spec_digest": digest}
        for one, digest in zip(request.combinations, prepared.digests, strict=True)
    ]
    unknown: dict[str, Json] = {"checks": None, "warnings": None, "refusals": None, "repeated": False}
    return {"sweep": None, "name": request.name or request.spec.metadata.name, "jobs": jobs, **unknown}


def _ask_gates(prepared: PreparedSweep) -> tuple[SweepRecord | None, str]:
    """What the gates say, or why they could not be asked: a dry run is of use without a server too."""
    try:
        with open_console_as(SweepConsole) as console:
            return console.check_sweep(prepared.request), ""
    except (SignInRequired, Unavailable) as error:
        return None, str(error)
