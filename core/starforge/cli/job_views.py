"""`sf job ls` and `sf job show`: what the console knows of jobs."""

import re
import time
from typing import Final

import click

from starforge.cli.follow import CURVE_POINTS, describe_curve, find_plot, paint_state
from starforge.cli.job_cause import find_cause, list_cause
from starforge.cli.output import (
    describe_time,
    find_width,
    join_lines,
    json_option,
    print_json,
    print_table,
    render_row,
    say,
)
from starforge.cli.session import open_console
from starforge.client.console import Console
from starforge.contract.api import EventView, InputView, JobDetail, JobView
from starforge.contract.combinations import SweepPart, describe_combination
from starforge.contract.results import CheckpointView, Curve, FileView, Outputs
from starforge.contract.states import JobState
from starforge.errors import NotFound
from starforge.logtext import clean_line
from starforge.wording import describe_bytes, describe_duration, describe_nearest

STATES: Final = tuple(str(state) for state in JobState)
_SHOWN_DIGITS: Final = 12
_FIRST_FOLDER: Final = FileView.model_fields["folder"].default
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


@click.command()
@click.option(
    "--state",
    type=click.Choice(STATES, case_sensitive=False),
    metavar="STATE",
    help="Only jobs in this state, such as RUNNING.",
)
@click.option("--project", help="Only jobs of this project.")
@click.option("--user", help="Only jobs of this user; `me` is yourself.")
@click.option("--sweep", metavar="SWEEP", help="Only jobs of this sweep.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=30, show_default=True, help="At most so many.")
@json_option
def ls(  # noqa: PLR0913 - one parameter an option
    state: str | None, project: str | None, user: str | None, sweep: str | None, *, limit: int, as_json: bool
) -> None:
    r"""List jobs, newest first.

    \b
    JSON: {items: [{id, name, project, user, state, reason, desired, note,
                    note_code, fleet, gpus, attempt, submitted_at, started_at,
                    ended_at, retry_at,
                    state_since, waits: [{reason, code, places, more}], recipe,
                    series, got_series, node, max_runtime_s, retries_left, step,
                    total_steps,
                    sweep: {id, name, combination} or null}]}
    Times are Unix seconds.
    """
    with open_console() as console:
        chosen = console.whoami().user if user == "me" else user
        wanted = {"state": state, "project": project, "user": chosen, "sweep": sweep}
        jobs = console.jobs({key: value for key, value in wanted.items() if value}, limit)
    if as_json:
        print_json({"items": [job.model_dump(mode="json") for job in jobs]})
        return
    if not jobs:
        click.echo("no job")
        return
    now = time.time()
    rows = [
        # A note may hold lines of its own; a row of the table is one, also for whoever reads it from a pipe.
        (job.id, job.name, job.user, job.state, describe_gpus(job), describe_age(job, now), join_lines(job.note))
        for job in jobs
    ]
    print_table(("JOB", "EXPERIMENT", "USER", "STATE", "GPUS", "SINCE", "NOTE"), rows)


@click.command()
@click.argument("job")
@click.option("--lineage", is_flag=True, help="Show where it came from and nothing else, every digest whole.")
@click.option("--diff", is_flag=True, help="Show how its tree differs from its commit and nothing else.")
@click.option("--metric", metavar="NAME", help="Draw this metric's curve and nothing else.")
@click.option("--native", is_flag=True, help="Show what was sent to the cluster and nothing else.")
@json_option
def show(job: str, metric: str | None, *, lineage: bool, diff: bool, native: bool, as_json: bool) -> None:  # noqa: PLR0913 - one parameter an option
    r"""Show everything about a job.

    \b
    JSON: {job, spec, spec_digest, admission, events, attempts, log, inputs,
           lineage: {rerun_of, difference_bytes, difference_is_cut, config},
           outputs: {artifacts, checkpoints}, metrics: {key: count of points},
           diagnosis: as of sf diagnose, or null}
    JSON of --diff: {job, commit, text, is_cut}
    JSON of --metric: {key, steps, values, times, total_points}
    JSON of --native: {job, attempt, fleet, text}
    Digests are shown short; --lineage and --json hold the whole of them.
    """
    from starforge.cli.job_lineage import print_difference, print_lineage  # noqa: PLC0415 - `ls` needs none of it

    with open_console() as console:
        if diff:
            found = console.difference(job)
            print_json(found.model_dump(mode="json")) if as_json else print_difference(found)
            return
        if native:
            sent = console.native(job)
            print_json(sent.model_dump(mode="json")) if as_json else click.echo(sent.text)
            return
        if metric is not None:
            curve = _load_curve(console, job, metric)
            print_json(curve.model_dump(mode="json")) if as_json else click.echo(describe_curve(curve))
            return
        if lineage and not as_json:
            print_lineage(console.job(job))
            return
        detail, outputs = console.job(job), console.outputs(job)
        if as_json:
            metrics = console.metric_keys(job).keys
            answer = {**detail.model_dump(mode="json", by_alias=True), "outputs": outputs.model_dump(mode="json")}
            cause = find_cause(console, detail.job)
            told = None if cause is None else cause.model_dump(mode="json")
            print_json({**answer, "metrics": metrics, "diagnosis": told})
            return
        _print_detail(console, detail, outputs)


def _load_curve(console: Console, job: str, metric: str) -> Curve:
    """Raises NotFound, which names what the job did report."""
    keys = console.metric_keys(job).keys
    if metric not in keys:
        raise NotFound(
            f"job {job} reported no metric {metric!r}",
            next_step=describe_nearest(metric, keys) if keys else "it has reported none yet",
        )
    return console.curve(job, metric, CURVE_POINTS)


def describe_gpus(job: JobView) -> str:
    """How many GPUs the job asks for, and of which series: those that it got, once it has some."""
    return f"{' + '.join(job.got_series) or job.series or 'any'} x {job.gpus}" if job.gpus else "-"


def describe_asked(job: JobView) -> str:
    """The same, and what was asked for where that is another thing."""
    asked = job.series or "any"
    differs = job.gpus and job.got_series and job.got_series != (asked,)
    return f"{describe_gpus(job)} (asked for {asked})" if differs else describe_gpus(job)


def describe_steps(job: JobView) -> str:
    """How far the job has trained, and of how many steps where it has said so."""
    if job.step is None or job.total_steps is None:
        return "-" if job.step is None else f"{job.step:,}"
    percent = max(0, min(100, 100 * job.step // job.total_steps))
    return f"{job.step:,} / {job.total_steps:,} ({percent}%)"


def describe_age(job: JobView, now: float) -> str:
    """How long the job has been in its state."""
    return describe_duration(now - job.state_since)


def describe_sweep(part: SweepPart) -> str:
    """The sweep that a job belongs to, and the values that it was given there."""
    named = f"{part.id} {part.name}" if part.name else part.id
    return f"{named}: {describe_combination(part.combination)}"


def describe_place(detail: JobDetail) -> str:
    """Where the job runs or ran last, or where it is to run."""
    if detail.attempts:
        newest = detail.attempts[-1]
        node = newest.node or "a machine not told"
        return f"{newest.fleet}, on {node}" if newest.fleet else f"on {node}"
    return f"{detail.job.fleet}, not placed yet" if detail.job.fleet else "any fleet, not placed yet"


def shorten_digests(text: str) -> str:
    """`text` with its digests cut to as many digits as tell them apart."""
    return _DIGEST.sub(lambda found: found[0][: len("sha256:") + _SHOWN_DIGITS], text)


def _print_detail(console: Console, detail: JobDetail, outputs: Outputs) -> None:
    job, spec = detail.job, detail.spec.spec
    retrying = ""
    if job.retry_at is not None:
        retrying = " (to be retried)" if job.state == "FAILED" else f" (goes on {describe_time(job.retry_at)})"
    click.echo(f"{job.id}  {paint_state(job.state, err=False)} ({job.reason}){retrying}")
    width = find_width()
    facts = [
        ("experiment", f"{job.project}/{job.name} of {job.user}"),
        *([("about", detail.spec.metadata.note)] if detail.spec.metadata.note else []),
        ("method", f"{spec.recipe.name} {spec.recipe.version}"),
        ("image", shorten_digests(spec.framework.image)),
        ("fleet", describe_place(detail)),
        ("GPUs", describe_asked(job)),
        *([("step", describe_steps(job))] if job.step is not None else []),
        (
            "commit",
            (spec.provenance.commit or "none")[:_SHOWN_DIGITS] + (" (with changes)" if spec.provenance.dirty else ""),
        ),
        ("workspace", shorten_digests(spec.workspace.digest)),
        *([("sweep", describe_sweep(job.sweep))] if job.sweep else []),
        *([("rerun of", detail.lineage.rerun_of)] if detail.lineage.rerun_of else []),
        ("lineage", f"whole: sf job show --lineage {job.id}"),
        ("log", _describe_log(detail)),
        *((one.member, describe_input(one)) for one in detail.inputs),
        *([("secrets", _describe_secrets(detail))] if spec.secrets else []),
        *([("note", shorten_digests(job.note))] if job.note else []),
        *list_cause(console, job),
    ]
    for name, value in (*facts, *_describe_admission(detail)):
        click.echo(render_row(f"  {name:<11} ", value, width))
    for attempt in detail.attempts:
        code = f"exit {attempt.exit_code}" if attempt.exit_code is not None else ""
        parts = (attempt.node or "", ",".join(attempt.gpus), attempt.reason or "", code)
        say(f"  attempt {attempt.number}   {' '.join(part for part in parts if part)}")
    for event in detail.events:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
        click.echo(render_row(f"  {at}  ", _describe_event(event), width))
    for artifact in outputs.artifacts:
        path = artifact.path if artifact.folder == _FIRST_FOLDER else f"{artifact.folder}/{artifact.path}"
        say(f"  artifact    {clean_line(path)} ({describe_bytes(artifact.bytes)})")
    for folder in sorted({one.folder for one in outputs.artifacts} - {_FIRST_FOLDER}):
        say(f"              {clean_line(folder)} is apart since the attempt before it was lost with its machine")
    if not outputs.artifacts and any(one.committed for one in outputs.checkpoints):
        say("  artifact    none: what the job trained is its newest checkpoint")
    for checkpoint in outputs.checkpoints:
        _print_checkpoint(job.id, checkpoint)
    plot = find_plot(console, job.id)
    if plot is not None:
        click.echo(plot)


def _print_checkpoint(job: str, checkpoint: CheckpointView) -> None:
    told = f"  checkpoint  step {checkpoint.step} of attempt {checkpoint.attempt}"
    if checkpoint.removed_at is not None:
        say(f"{told}, removed by retention on {time.strftime('%Y-%m-%d', time.localtime(checkpoint.removed_at))}")
        return
    if checkpoint.best:
        told += f", the best by its primary metric ({checkpoint.value:g})"
    if not checkpoint.committed:
        say(f"{told}, not committed")
        return
    say(f"{told}, committed; to start from it: --init-from run/{job}/checkpoint@step={checkpoint.step}")
    if checkpoint.storage_path is not None:
        say(f"              {clean_line(checkpoint.storage_path)}")


def describe_input(given: InputView) -> str:
    """What an input of the job was pinned to."""
    if given.kind == "hub":
        return f"hf://{given.name}, " + (
            f"commit {given.version[:_SHOWN_DIGITS]}" if given.version else "not pinned yet"
        )
    return f"job {given.name}, {given.version}" if given.kind == "checkpoint" else given.name


def _describe_secrets(detail: JobDetail) -> str:
    """What the newest attempt was given; before there is one, what it is to be given."""
    from starforge.cli.job_lineage import describe_given  # noqa: PLC0415 - most jobs have none

    given = detail.attempts[-1].secrets if detail.attempts else ()
    return describe_given(given) if given else f"{', '.join(detail.spec.spec.secrets)}, not passed yet"


def _describe_admission(detail: JobDetail) -> list[tuple[str, str]]:
    """The admission record: its digest, and what each gate checked against which version, with what it said."""
    record = detail.admission
    lines = [
        ("admitted", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.decided_at))),
        ("record", shorten_digests(record.digest or "without a digest")),
        ("spec", shorten_digests(record.spec_digest)),
    ]
    for check in record.checks:
        said = "; ".join(text for text in (check.against, check.message) if text)
        lines.append((f"- {check.gate}", shorten_digests(f"{check.outcome}: {said}" if said else check.outcome)))
    return lines


def _describe_log(detail: JobDetail) -> str:
    log = detail.log
    if log.removed_at is not None:
        return f"removed by retention on {time.strftime('%Y-%m-%d', time.localtime(log.removed_at))}"
    produced = "" if log.produced_bytes is None else f" of {describe_bytes(log.produced_bytes)}"
    missing = f", missing {', '.join(f'{start}-{end}' for start, end in log.missing)}" if log.missing else ""
    return f"{describe_bytes(log.received_bytes)}{produced}{missing}"


def _describe_event(event: EventView) -> str:
    reason, note = f" ({event.reason})" if event.reason else "", f" {shorten_digests(event.note)}" if event.note else ""
    return f"{event.state or event.kind}{reason}{note}{f' {event.count} times' if event.count > 1 else ''}"
