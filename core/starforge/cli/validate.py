"""`sf validate`: every fault of an experiment at once, without a network."""

from pathlib import Path

import click

from starforge.cli.output import json_option, print_json, say
from starforge.recipes.faults import Fault
from starforge.wording import count_of
from starforge.workspace.experiment import read_experiment
from starforge.workspace.project import find_root, load_project, read_project_file, resolve_experiment


@click.command()
@click.argument("experiment")
@json_option
def validate(experiment: str, as_json: bool) -> int:  # noqa: FBT001 - click passes flags so
    r"""Check an experiment, without a network.

    Ends with 1 when there is a fault; warnings alone do not count.

    \b
    JSON: {ok, errors: [{code, message, file, line, column, hint}],
           warnings: [the same]}
    Line and column count from 1; 0 is the file as a whole.
    """
    faults, warnings = _read_faults(experiment)
    if as_json:
        errors = [fault.to_json() for fault in faults]
        print_json({"ok": not faults, "errors": errors, "warnings": [warning.to_json() for warning in warnings]})
        return 1 if faults else 0
    for kind, found in (("error", faults), ("warning", warnings)):
        for fault in found:
            hint = f" ({fault.hint})" if fault.hint else ""
            say(f"{fault.place}: {kind}: {fault.message}{hint} [{fault.code}]")
    click.echo(f"{experiment}: {count_of(len(faults), 'fault') if faults else 'no fault'}", err=bool(faults))
    return 1 if faults else 0


def _read_faults(experiment: str) -> tuple[list[Fault], list[Fault]]:
    root = find_root(Path.cwd())
    if root is not None:
        document = read_project_file(root)
        if document.faults:
            return document.faults, document.warnings
    project = load_project(Path.cwd())
    found = read_experiment(project, resolve_experiment(project, experiment))
    return found.faults, found.warnings
