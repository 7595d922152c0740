"""`sf job samples`: the examples that a job reported at a step."""

import click

from starforge.cli.output import find_width, json_option, note, print_json, render_row, render_text, say
from starforge.cli.session import open_console_as
from starforge.client.samples import SamplesConsole
from starforge.contract.samples import SampleList, SampleSet
from starforge.errors import NotFound
from starforge.wording import count_of


@click.command()
@click.argument("job")
@click.option("--step", type=int, help="Of this step; otherwise of the newest.")
@click.option("--name", help="Of those that were reported under this name.")
@json_option
def samples(job: str, step: int | None, name: str | None, as_json: bool) -> None:  # noqa: FBT001 - click's
    r"""Show the examples that a job reported.

    A training reports them with `report.samples`.

    \b
    JSON: {names, steps, line: {name, step, attempt, at, rows, left_out},
           columns, rows: [{column: value}]}
    """
    with open_console_as(SamplesConsole) as console:
        told = console.sample_steps(job, name)
        if not told.items:
            raise NotFound(
                f"job {job} has reported no examples" + (f" under the name {name!r}" if name else ""),
                why=f"it has some under {', '.join(told.names)}" if told.names else "",
                next_step="a training reports them with report.samples(rows, step=N)",
            )
        found = console.samples(job, told.items[-1].step if step is None else step, told.items[0].name)
    if as_json:
        steps = [one.step for one in told.items]
        print_json({"names": told.names, "steps": steps, **found.model_dump(mode="json")})
        return
    _print(told, found)


def _print(told: SampleList, found: SampleSet) -> None:
    line, width = found.line, find_width()
    label = max((len(column) for column in found.columns), default=0)
    say(f"{line.name}, step {line.step} of attempt {line.attempt}: {count_of(line.rows, 'row')}")
    for number, row in enumerate(found.rows, 1):
        click.echo()
        say(f"{number}")
        for column in found.columns:
            if row.get(column) is not None:
                click.echo(_render_cell(f"  {column.ljust(label)}  ", str(row[column]), width))
    if line.left_out:
        note(f"{count_of(line.left_out, 'row')} more {'was' if line.left_out == 1 else 'were'} reported and not kept")
    steps = [one.step for one in told.items]
    if len(steps) > 1:
        note(f"{len(steps)} steps have some, {steps[0]} to {steps[-1]}: --step N")
    if len(told.names) > 1:
        note(f"names: {', '.join(told.names)}")


def _render_cell(label: str, text: str, width: int | None) -> str:
    """A text of one line is broken to fit; one of several keeps its own, which are part of what the model wrote."""
    return render_text(label, text) if "\n" in text.strip() else render_row(label, text, width)
