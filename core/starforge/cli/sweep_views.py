"""`sf sweep ls`, `show` and `stop`."""

import time

import click

from starforge.cli.job_views import describe_age
from starforge.cli.output import json_option, note, print_json, print_table, say, warn
from starforge.cli.plot import render_number
from starforge.cli.session import open_console_as
from starforge.client.sweeps import SweepConsole
from starforge.contract.api import StopRequest
from starforge.contract.sweeps import SweepDetail, SweepView
from starforge.recipes.values import spell_value
from starforge.wording import count_of, describe_duration, join_sentences


@click.command()
@click.option("--project", help="Only sweeps of this project.")
@click.option("--user", help="Only sweeps of this user; `me` is yourself.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=30, show_default=True, help="At most so many.")
@json_option
def ls(project: str | None, user: str | None, limit: int, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List sweeps, newest first.

    \b
    JSON: {items: [{id, name, experiment, project, user, keys, size, submitted_at,
                    states: {state: count of jobs}, active}]}
    """
    with open_console_as(SweepConsole) as console:
        chosen = console.whoami().user if user == "me" else user
        wanted = {"project": project, "user": chosen}
        found = console.sweeps({key: value for key, value in wanted.items() if value}, limit)
    if as_json:
        print_json({"items": [one.model_dump(mode="json") for one in found]})
        return
    if not found:
        click.echo("no sweep")
        return
    now = time.time()
    rows = [
        (
            one.id,
            one.name,
            one.user,
            describe_duration(now - one.submitted_at),
            _describe_states(one),
            ", ".join(one.keys),
        )
        for one in found
    ]
    print_table(("SWEEP", "NAME", "USER", "AGE", "JOBS", "KEYS"), rows)


@click.command()
@click.argument("sweep")
@json_option
def show(sweep: str, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Show the runs of a sweep, the best first.

    The best is that of the method's primary metric; `sf methods METHOD` names it. Of a
    method without one, as custom/custom, the runs stand in the order of their values,
    and `sf compare` lays them side by side.

    \b
    JSON: {sweep: as `sf sweep ls`, primary: {key, better} or null,
           runs: [{job: as `sf job ls`, best, best_step}]}
    """
    with open_console_as(SweepConsole) as console:
        detail = console.sweep(sweep)
    if as_json:
        print_json(detail.model_dump(mode="json"))
        return
    _print_runs(detail)


@click.command()
@click.argument("sweep")
@click.option("--grace", type=click.FloatRange(0, 3600), help="Seconds for a last checkpoint of each job.")
@click.option("--note", "text", help="Why; the history of each job keeps it.")
@json_option
def stop(sweep: str, grace: float | None, text: str | None, as_json: bool) -> int:  # noqa: FBT001 - click passes flags so
    r"""End all jobs of a sweep; each may write a last checkpoint.

    Returns once the wishes are kept. Jobs that have ended stay as they are. The exit
    code is 1 where a job could not be asked; the command may be repeated.

    \b
    JSON: {sweep, asked, ended, refusals: [{code, what, why, next_step, gate}]}
    """
    with open_console_as(SweepConsole) as console:
        stopped = console.stop_sweep(sweep, StopRequest(grace_s=grace, note=text))
    if as_json:
        print_json(stopped.model_dump(mode="json"))
    elif stopped.asked:
        click.echo(
            f"stopping {count_of(stopped.asked, 'job')} of {sweep}; look at them with: sf job ls --sweep {sweep}"
        )
    elif not stopped.refusals:
        click.echo(f"all {count_of(stopped.ended, 'job')} of {sweep} have ended already")
    for refusal in () if as_json else stopped.refusals:
        warn(join_sentences(refusal.what, refusal.why, refusal.next_step))
    return 1 if stopped.refusals else 0


def _print_runs(detail: SweepDetail) -> None:
    sweep, now = detail.sweep, time.time()
    whose = f"{sweep.project}/{sweep.experiment} of {sweep.user}"
    say(f"{sweep.id}  {sweep.name}: {whose}, {_describe_states(sweep)}")
    best = ("BEST", "STEP") if detail.primary else ()
    rows = []
    for run in detail.runs:
        given = run.job.sweep.combination if run.job.sweep else {}
        values = (spell_value(given[key]) if key in given else "-" for key in sweep.keys)
        step = "-" if run.best_step is None else str(run.best_step)
        told = (render_number(run.best), step) if detail.primary else ()
        rows.append((run.job.id, *values, *told, run.job.state, describe_age(run.job, now)))
    print_table(("JOB", *sweep.keys, *best, "STATE", "SINCE"), rows)
    if detail.primary is not None:
        note(f"by {detail.primary.key}, {detail.primary.better} is better")
    elif detail.runs:
        note("the method names no metric to compare runs by; by any other: sf compare JOB JOB --metric NAME")
    gone = sweep.size - len(detail.runs)
    if gone:
        note(f"{count_of(gone, 'job')} of it {'was' if gone == 1 else 'were'} deleted")


def _describe_states(sweep: SweepView) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(sweep.states.items()))
