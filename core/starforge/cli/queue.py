"""`sf queue`: who waits in which order, where one's own jobs stand, and by when what was promised starts."""

import time
from collections.abc import Iterable, Sequence
from typing import Final

import click

from starforge.cli.job_views import describe_age, describe_gpus
from starforge.cli.output import describe_time, join_lines, json_option, note, print_json, print_table
from starforge.cli.session import open_console_as
from starforge.cli.windows import describe_now
from starforge.client.queue import QueueConsole
from starforge.contract.queue import PromiseView, QueueEntry, QueueList
from starforge.wording import count_of

_PRIORITIES: Final = {-1: "low", 0: "normal", 1: "high"}
_HEADERS: Final = ("PLACE", "JOB", "EXPERIMENT", "USER", "PRIORITY", "GPUS", "SINCE", "WAITS FOR")


@click.command()
@click.option("--series", default="", help="Only jobs that ask for this series; `any`: that take any GPU.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=30, show_default=True, help="At most so many.")
@json_option
def queue(series: str, *, limit: int, as_json: bool) -> None:
    r"""Show the queue in its order, and where your jobs stand.

    Below the first jobs stand those of your own that come later, by when what was
    promised a start begins at the latest, and windows that are closed. `sf why JOB`
    tells of one job what keeps it from each machine.

    \b
    JSON: {items: [{place, priority, moved: first, last or null,
                    job: as `sf job ls`}], jobs, gpus, next, own: as items,
           own_jobs, shares: [{user, team, jobs, gpu_hours, team_gpu_hours}],
           promises: [{place, job, by, node, passed, passed_at_most}],
           closed: [windows as `sf windows`]}
    jobs and gpus are all that are queued; priority is -1, 0 or 1.
    """
    with open_console_as(QueueConsole) as console:
        told = console.queue(series, limit)
    if as_json:
        print_json(told.model_dump(mode="json"))
        return
    if not told.items:
        click.echo("nothing waits in the queue" + (f" for {series}" if series else ""))
    else:
        _print_entries(told, series)
    for window in told.closed:
        note(f"the window of {window.kind} {window.name} {describe_now(window)}")


def _print_entries(told: QueueList, series: str) -> None:
    asked = f" for {series}" if series else ""
    verb = "waits" if told.jobs == 1 else "wait"
    click.echo(f"{count_of(told.jobs, 'job')} {verb}{asked}, {count_of(told.gpus, 'GPU')} asked for")
    shown = {entry.place for entry in told.items}
    print_table(_HEADERS, _list_rows(told.items))
    rest = told.jobs - len(told.items)
    if rest > 0:
        note(f"{rest:,} more; --limit shows them")
    later = [entry for entry in told.own if entry.place not in shown]
    if later and not series:
        click.echo(f"\nyours further down, of {count_of(told.own_jobs, 'queued job')} of yours")
        print_table(_HEADERS, _list_rows(later))
    for line in _list_promises(told.promises):
        note(line)


def _list_rows(entries: Iterable[QueueEntry]) -> Sequence[Sequence[str]]:
    now = time.time()
    return [
        (
            f"{entry.place:,}",
            entry.job.id,
            entry.job.name,
            entry.job.user,
            f"put {entry.moved}" if entry.moved else _PRIORITIES.get(entry.priority, str(entry.priority)),
            describe_gpus(entry.job),
            describe_age(entry.job, now),
            join_lines(entry.job.note),
        )
        for entry in entries
    ]


def _list_promises(promises: Iterable[PromiseView]) -> Iterable[str]:
    for one in promises:
        if one.by is not None:
            yield f"{one.job.id} (place {one.place:,}) starts by {describe_time(one.by)} at the latest, on {one.node}"
        elif one.node is not None:
            times = count_of(one.passed, "other job")
            yield f"{one.job.id} (place {one.place:,}): {one.node} is kept for it, which {times} passed"
