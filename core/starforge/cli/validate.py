"""`sf validate`: every fault of an experiment at once, without a network."""

from pathlib import Path
from typing import NamedTuple

import click

from starforge.cli.output import json_option, note, print_json, say
from starforge.errors import InputError
from starforge.recipes.faults import Fault, Place
from starforge.recipes.hyperparameters import count_rules_about_gpus
from starforge.recipes.yaml12 import MAX_BYTES
from starforge.wording import count_of, describe_duration, join_sentences
from starforge.workspace.experiment import Experiment, apply_arguments, apply_resources, read_experiment
from starforge.workspace.project import find_root, load_project, read_project_file, resolve_experiment
from starforge.workspace.submission import build_share


@click.command()
@click.argument("experiment")
@click.option("--profile", "profiles", multiple=True, help="Also check what depends on it: [ROLES=]NAME[:GPUS].")
@click.option(
    "--args",
    "arguments",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also check a file of the framework's own arguments as hyperparameters.",
)
@json_option
def validate(experiment: str, profiles: tuple[str, ...], arguments: Path | None, as_json: bool) -> int:  # noqa: FBT001 - click passes flags so
    r"""Check an experiment, without a network.

    Ends with 1 when there is a fault; warnings alone do not count. Rules about GPUs are checked with --profile alone;
    profiles are those that `sf login` kept. A file for --args holds name=value or --name value, as in a launch script.

    \b
    JSON: {ok, errors: [{code, message, file, line, column, hint}],
           warnings: [the same], profiles_age_s, rules_about_gpus_left}
    Line and column count from 1; 0 is the file as a whole. profiles_age_s is
    null where no kept profile was used. rules_about_gpus_left is how many rules
    wait for --profile.
    """
    found = _check(experiment, profiles, arguments)
    faults, warnings = found.faults, found.warnings
    if as_json:
        errors = [fault.to_json() for fault in faults]
        answer = {"ok": not faults, "errors": errors, "warnings": [warning.to_json() for warning in warnings]}
        print_json({**answer, "profiles_age_s": found.profiles_age_s, "rules_about_gpus_left": found.rules_left})
        return 1 if faults else 0
    for kind, told in (("error", faults), ("warning", warnings)):
        for fault in told:
            hint = f" ({fault.hint})" if fault.hint else ""
            say(f"{fault.place}: {kind}: {fault.message}{hint} [{fault.code}]")
    if found.profiles_age_s is not None:
        note(f"profiles as they were {describe_duration(found.profiles_age_s)} ago, at the last sign-in")
    if found.rules_left:
        verb = "was" if found.rules_left == 1 else "were"
        note(f"{count_of(found.rules_left, 'rule')} about GPUs {verb} not looked at: add --profile")
    click.echo(f"{experiment}: {count_of(len(faults), 'fault') if faults else 'no fault'}", err=bool(faults))
    return 1 if faults else 0


class _Found(NamedTuple):
    faults: list[Fault]
    warnings: list[Fault]
    profiles_age_s: float | None = None
    rules_left: int = 0


def _check(name: str, profiles: tuple[str, ...], arguments: Path | None) -> _Found:
    root = find_root(Path.cwd())
    if root is not None:
        document = read_project_file(root)
        if document.faults:
            return _Found(document.faults, document.warnings)
    project = load_project(Path.cwd())
    experiment = read_experiment(project, resolve_experiment(project, name))
    age_s = _check_profiles(experiment, profiles) if profiles else None
    if arguments is not None:
        apply_arguments(experiment, str(arguments), _read(arguments))
    left = 0
    if experiment.recipe is not None and not profiles:
        left = count_rules_about_gpus(experiment.recipe, experiment.section("hyperparameters"))
    return _Found(experiment.faults, experiment.warnings, age_s, left)


def _check_profiles(experiment: Experiment, texts: tuple[str, ...]) -> float | None:
    """Adds what breaks a rule about GPUs, or is wrong with the profiles; gives the age of kept ones that were used."""
    from starforge.cli.kept_profiles import load_kept_profiles  # noqa: PLC0415 - only with --profile
    from starforge.hardware.profiles import BUILT_IN, build_resources, name_wanted  # noqa: PLC0415 - as above

    kept = load_kept_profiles()
    roles = experiment.recipe.roles if experiment.recipe else ()
    try:
        apply_resources(experiment, build_resources(texts, kept.profiles, roles, build_share(experiment)))
    except InputError as error:
        hint = join_sentences(error.why, error.next_step)
        experiment.faults.append(Fault("profile_invalid", error.what, Place("--profile"), hint))
    uses_kept = any(name_wanted(text) not in BUILT_IN for text in texts)
    return kept.age_s if uses_kept else None


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as content:  # a pipe may be meant: what is too much of it is told as of a file
            return content.read(MAX_BYTES + 1)
    except OSError as error:
        raise InputError(f"--args {file} cannot be read", why=str(error.strerror)) from error
