"""What a sweep goes over: the values of each hyperparameter as a command line names them, and what is wrong there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from starforge.contract.canonical import Json
from starforge.contract.combinations import (
    COMBINATIONS_AT_MOST,
    KEYS_AT_MOST,
    are_same,
    count_combinations,
    describe_some,
    find_inside,
    list_combinations,
)
from starforge.errors import InputError, ProjectError
from starforge.recipes.faults import Fault
from starforge.recipes.values import spell_value
from starforge.recipes.yaml12 import read_yaml
from starforge.wording import count_of, cut_middle
from starforge.workspace.config import Setting, build_setting
from starforge.workspace.experiment import Experiment

Grid = Mapping[str, Sequence[Json]]
"""The values of each hyperparameter, by name."""

OPTION: Final = "-g"
_SECTION: Final = "hyperparameters"
_SHOWN: Final = 100


def parse_grid(texts: Sequence[str]) -> Grid:
    """`key=v1,v2` for each key; the values are YAML, as those of `--set`: a list is written `[a,b]`.

    Raises:
        ProjectError: all that is wrong with the texts, or more combinations than a sweep may have.

    """
    grid: dict[str, Sequence[Json]] = {}
    wrong: list[str] = []
    for text in texts:
        try:
            key, values = _parse_values(text)
        except ProjectError as error:
            wrong.append(str(error))
            continue
        if key in grid:
            wrong.append(f"{OPTION} {key} is given twice: name all its values in one, {key}=V1,V2")
        grid[key] = values
    if wrong:
        raise ProjectError("\n".join(wrong), next_step=f"write {OPTION} learning_rate=1e-5,1e-4")
    return check_grid(grid)


def check_grid(grid: Grid) -> Grid:
    """`grid` as it is. Raises InputError for one without a value, with one twice, or with too many combinations."""
    if not grid or not all(grid.values()):
        what = "; ".join(f"{key} has no value" for key, values in grid.items() if not values)
        raise InputError(what or "the sweep goes over nothing", next_step=f"name values: {OPTION} learning_rate=1,2")
    twice = [
        f"{key} has {spell_value(value)} twice"
        for key, values in grid.items()
        for index, value in enumerate(values)
        if any(are_same(value, other) for other in values[:index])
    ]
    if twice:
        raise InputError("; ".join(dict.fromkeys(twice)), next_step="name each value once")
    inside = find_inside(list(grid))
    if inside is not None:
        raise InputError(
            f"{inside[0]} lies inside {inside[1]}, and the sweep goes over both", next_step="name one of them"
        )
    if len(grid) > KEYS_AT_MOST:
        raise InputError(f"the sweep goes over {len(grid)} hyperparameters", why=f"the most is {KEYS_AT_MOST}")
    count = count_combinations(grid)
    if count > COMBINATIONS_AT_MOST:
        shown = " * ".join(str(len(values)) for values in grid.values())
        raise InputError(
            f"the sweep has {shown} = {count} combinations" if len(grid) > 1 else f"the sweep has {count} combinations",
            why=f"one sweep is {COMBINATIONS_AT_MOST} jobs at most",
            next_step="name fewer values, or make several sweeps of it",
        )
    return grid


def build_settings(combination: Mapping[str, Json]) -> list[Setting]:
    """The combination as settings above the experiment's files. Pure."""
    return [Setting((_SECTION, *key.split(".")), value, f"{OPTION} {key}") for key, value in combination.items()]


def check_combinations(name: str, grid: Grid, read: Callable[[Sequence[Setting]], Experiment]) -> None:
    """Check the experiment with every combination, as `sf validate` checks it; `read` reads it with settings.

    Raises:
        ProjectError: every fault once, with the combinations that have it where that is not all of them.

    """
    found: dict[Fault, list[Mapping[str, Json]]] = {}
    count = 0
    for combination in list_combinations(grid):
        count += 1
        for fault in read(build_settings(combination)).faults:
            found.setdefault(fault, []).append(combination)
    if not found:
        return
    lines = [_describe_fault(fault, having, count) for fault, having in found.items()]
    raise ProjectError(
        f"{name} has {count_of(len(lines), 'fault')} in {count_of(count, 'combination')}",
        why="\n".join(lines),
        next_step="mend what is named and sweep again; nothing was sent",
    )


def _parse_values(text: str) -> tuple[str, Sequence[Json]]:
    key, equals, raw = text.partition("=")
    shown, parts = repr(cut_middle(text, _SHOWN)), tuple(key.strip().split("."))
    if not equals or not all(parts):
        raise ProjectError(f"{OPTION} {shown} has no key and values")
    path = build_setting(parts, None, OPTION).path
    if path[0] != _SECTION or len(path) == 1:
        raise ProjectError(f"{OPTION} {shown}: a sweep goes over hyperparameters, and {parts[0]} is none")
    document = read_yaml(f"values: [{raw}]".encode(errors="surrogatepass"), OPTION)
    if document.faults:
        fault = document.faults[0]
        raise ProjectError(f"{OPTION} {shown}: {fault.message}", next_step=fault.hint)
    values = document.mapping()["values"]
    if not isinstance(values, list) or len(document.mapping()) > 1 or any(value is None for value in values):
        raise ProjectError(f"{OPTION} {shown}: the values are no list of values with commas between them")
    if not values:
        raise ProjectError(f"{OPTION} {shown} has no value")
    return ".".join(path[1:]), values


def _describe_fault(fault: Fault, having: Sequence[Mapping[str, Json]], count: int) -> str:
    told = f"{fault.place}: {fault.message}{f' ({fault.hint})' if fault.hint else ''}"
    some = describe_some(having, count)
    return f"{told}, in {some}" if some else told
