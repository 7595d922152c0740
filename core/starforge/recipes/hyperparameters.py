"""An experiment's hyperparameters against its recipe: names, types, bounds, and what must hold between them."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from starforge.contract import capsule
from starforge.contract.canonical import Json
from starforge.recipes.faults import Fault, Place
from starforge.recipes.model import Parameter, Recipe, Rule
from starforge.recipes.names import find_twice, flatten, list_above, locate
from starforge.recipes.rules import find_truth, list_names
from starforge.recipes.values import check_value, spell_value
from starforge.recipes.yaml12 import Document, Doubt, Path
from starforge.wording import describe_nearest

EXTRA: Final = "extra"
"""The hyperparameter below which a recipe takes further keys of the framework, unchecked."""
_EXTRA_NAME: Final = re.compile(r"\+{0,2}[A-Za-z_][A-Za-z0-9_.@-]*")
_OPTIONS: Final = frozenset({"trl", "openrlhf"})
"""Adapters whose framework reads its settings as options: the beginning of an option stands for the whole of it."""
_PLACES: Final = (
    *(capsule.PLACE_WORK, capsule.PLACE_CKPT, capsule.PLACE_OUT),
    *(capsule.PLACE_RESUME, capsule.PLACE_RESUME_STEP, capsule.PLACE_PYTHON),
)
_ABOUT_GPUS: Final = frozenset({"gpus", "nodes", "processes"})
_SECTION: Final = ("hyperparameters",)
_LISTED_AT_MOST: Final = 12
_NEAR: Final = 0.7


def resolve(recipe: Recipe, values: Mapping[str, Json]) -> dict[str, Json]:
    """Every hyperparameter with the value that it has: what was set, above the recipe's defaults. Pure."""
    defaults = {parameter.name: parameter.default for parameter in recipe.parameters}
    return {**defaults, **flatten(recipe, values)}


def check_hyperparameters(recipe: Recipe, values: Mapping[str, Json], document: Document) -> list[Fault]:
    """Every fault in `values`, which stand under `hyperparameters` in `document`."""
    known = {parameter.name: parameter for parameter in recipe.parameters}
    faults: list[Fault] = []
    for name, (value, path) in locate(recipe, values, _SECTION).items():
        if is_platform_owned(recipe, name):
            message = f"{name!r} is set by the platform"
            key = recipe.instead.get(name)
            why = recipe.removed[name]["en"] if name in recipe.removed else "remove it"
            hint = f"write {key}: at the top of the config instead" if key else why
            faults.append(Fault("key_platform_owned", message, document.key_place_of(path), hint))
        elif name in known:
            faults += _check_known(recipe, known[name], value, document.place_of(path))
            faults += _check_words(recipe, value, document.place_of(path))
            if _is_untyped(known[name]):
                faults += _list_old_words(document, path)
            if name == EXTRA and isinstance(value, dict):
                faults += _check_extra(recipe, value, document, path)
        elif name in recipe.removed:
            message, hint = f"{recipe.name} has no hyperparameter {name!r}", recipe.removed[name]["en"]
            faults.append(Fault("key_removed", message, document.key_place_of(path), hint))
        elif recipe.open_parameters:
            faults += _list_old_words(document, path)
        else:
            message = f"{recipe.name} has no hyperparameter {name!r}"
            hint = _describe_nearest_name(recipe, name)
            faults.append(Fault("key_unknown", message, document.key_place_of(path), hint))
    for other, own, (_, path) in find_twice(recipe, values, _SECTION):
        message = f"{other!r} is another name of {own!r}, and both are set"
        faults.append(Fault("key_twice", message, document.key_place_of(path), "set one of them"))
    return faults


def list_doubtful(recipe: Recipe, values: Mapping[str, Json], document: Document) -> list[Fault]:
    """What in `values` may be meant differently than it is read, where the recipe does not say what it should be."""
    known = {parameter.name: parameter for parameter in recipe.parameters}
    warnings = []
    for name, (_, path) in locate(recipe, values, _SECTION).items():
        if name in known and not _is_untyped(known[name]):
            continue
        for below, doubt in _find_doubts(document, path):
            if doubt.kind == "word":
                continue
            read = "the text" if doubt.kind == "text" else f"the number {float(doubt.text):g}, not as the text"
            message = f"{below[-1]}: {doubt.text} is read as {read} {doubt.text!r}"
            hint = "quote it to say so" if doubt.kind == "text" else "quote it if it is a name or a version"
            warnings.append(Fault("value_doubtful", message, document.place_of(below), hint))
    return warnings


def check_rules(recipe: Recipe, values: Mapping[str, Json], facts: Mapping[str, Json], place: Place) -> list[Fault]:
    """The rules of `recipe` that `values` break. A rule about what is not known is left for whoever knows it.

    Args:
        recipe: The recipe at the framework's version.
        values: The hyperparameters that were set.
        facts: What is known of the job beside them (`build_facts`); None for what is not.
        place: Where to point: a rule has no one position.

    """
    return [
        Fault("rule_broken", rule.message["en"], place, shown)
        for rule, shown in find_broken_rules(recipe, values, facts)
    ]


def find_broken_rules(recipe: Recipe, values: Mapping[str, Json], facts: Mapping[str, Json]) -> list[tuple[Rule, str]]:
    """The same as the rules themselves, each with the numbers that it was about. Pure."""
    resolved = resolve(recipe, values)
    known = {name: None if is_interpolation(recipe, value) else value for name, value in resolved.items()}
    known.update(facts)
    return [
        (rule, _describe_rule(rule, known))
        for rule in recipe.rules
        if (not rule.when or find_truth(rule.when, known)) and find_truth(rule.require, known) is False
    ]


def count_rules_about_gpus(recipe: Recipe, values: Mapping[str, Json]) -> int:
    """How many rules nobody can answer before GPUs were chosen. Pure."""
    known = {**resolve(recipe, values), **build_facts(recipe, values, None, None)}
    return sum(
        find_truth(rule.require, known) is None
        and (not rule.when or find_truth(rule.when, known) is not False)
        and any(name in _ABOUT_GPUS for name in (*list_names(rule.require), *list_names(rule.when or "True")))
        for rule in recipe.rules
    )


def build_facts(recipe: Recipe, values: Mapping[str, Json], gpus: int | None, nodes: int | None) -> Mapping[str, Json]:
    """What rules may ask beside hyperparameters. Pure.

    Args:
        recipe: The recipe at the framework's version.
        values: The hyperparameters that were set.
        gpus: Of all nodes together; None: not chosen yet.
        nodes: How many; None: not chosen yet.

    `processes` is what the experiment asks for with `nproc_per_node`, on every node, else one for each GPU, else one.
    """
    asked = resolve(recipe, values).get("nproc_per_node")
    if isinstance(asked, int) and not isinstance(asked, bool):
        return {"gpus": gpus, "nodes": nodes, "processes": asked * (nodes or 1)}
    return {"gpus": gpus, "nodes": nodes, "processes": None if gpus is None else max(gpus, 1)}


def is_interpolation(recipe: Recipe, value: Json) -> bool:
    """Whether the framework itself will resolve `value`, so that nothing is known of its type."""
    return isinstance(value, str) and "${" in value and bool(recipe.options.get("interpolations"))


def is_platform_owned(recipe: Recipe, name: str) -> bool:
    """Whether the platform or the method itself sets `name`."""
    if name in recipe.platform_parameters or name in recipe.fixed:
        return True
    return any(own.endswith(".") and name.startswith(own) for own in recipe.platform_parameters)


def _check_known(recipe: Recipe, parameter: Parameter, value: Json, place: Place) -> list[Fault]:
    if is_interpolation(recipe, value):
        return []
    if isinstance(value, list):
        value = [item for item in value if not is_interpolation(recipe, item)]
    return check_value(parameter, value, place)


def _check_extra(recipe: Recipe, values: Mapping[str, Json], document: Document, path: tuple[str, ...]) -> list[Fault]:
    """What stands below `extra` and has its own place, or none."""
    known = {name for one in recipe.parameters for name in (one.name, one.path, *one.aliases)}
    faults: dict[str, Fault] = {}
    for key in values:
        if not _EXTRA_NAME.fullmatch(key):
            message = f"{key!r} is no name of a setting"
            faults[key] = Fault("key_malformed", message, document.key_place_of((*path, key)), "write a.b.c")
    for name, below in _list_leaves(values, path):
        place, spelt = document.key_place_of(below), name.lstrip("+").partition("@")[0].replace("-", "_")
        for above in list_above(spelt):
            owned = _find_owned(recipe, above, is_whole=above == spelt)
            if owned is not None:
                also = "" if owned == name else f", as {owned!r}"
                message = f"{name!r} is set by the platform{also}"
                faults.setdefault(above, Fault("key_platform_owned", message, place, "remove it"))
            elif above in known:
                message = f"{above!r} is a hyperparameter of its own"
                faults.setdefault(above, Fault("key_misplaced", message, place, f"set it beside {EXTRA}"))
    return list(faults.values())


def _list_leaves(
    values: Mapping[str, Json], path: tuple[str, ...], prefix: str = ""
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from _list_leaves(value, (*path, key), f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", (*path, key)


def _find_owned(recipe: Recipe, name: str, *, is_whole: bool) -> str | None:
    """What the platform sets and `name` would set too: the same, what lies below it, or an option that it begins."""
    if is_platform_owned(recipe, name):
        return name
    if not is_whole or any(name == parameter.name for parameter in recipe.parameters):
        return None
    begun = name if recipe.adapter in _OPTIONS else f"{name}."
    return next((one for one in (*recipe.platform_parameters, *recipe.fixed) if one.startswith(begun)), None)


def _check_words(recipe: Recipe, value: Json, place: Place) -> list[Fault]:
    """Texts that would be read as something else than they are, at most one fault."""
    for text, is_item in _list_texts(value):
        word = next((one for one in _PLACES if one in text), None)
        if word is not None:
            message = f"{word} stands for a path that StarForge fills in, and is no value of your own"
            return [Fault("value_reserved", message, place, "write the path, or a relative one")]
        if is_item and text.startswith("-") and recipe.adapter in _OPTIONS:
            message = f"{text[:60]!r} in a list begins with '-': {recipe.framework} would take it for an option"
            return [Fault("value_option", message, place, "write it without the dash")]
    return []


def _list_texts(value: Json, *, is_item: bool = False) -> Iterator[tuple[str, bool]]:
    """Every text in `value`, keys among them, and whether it is an item of a list."""
    if isinstance(value, str):
        yield value, is_item
    elif isinstance(value, list):
        for item in value:
            yield from _list_texts(item, is_item=True)
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key, False
            yield from _list_texts(member)


def _is_untyped(parameter: Parameter) -> bool:
    return parameter.type in {"any", "map"} or (parameter.type == "list" and parameter.items in {None, "any", "map"})


def _find_doubts(document: Document, path: Path) -> list[tuple[Path, Doubt]]:
    return [(below, doubt) for below, doubt in document.doubts.items() if below[: len(path)] == path]


def _list_old_words(document: Document, path: Path) -> list[Fault]:
    """Words that YAML 1.1 takes for booleans where nobody knows what is wanted: refused, as either is a guess."""
    faults = []
    for below, doubt in _find_doubts(document, path):
        if doubt.kind == "word":
            message = f"{below[-1]}: {doubt.text} is a text to YAML 1.2 and {doubt.old} to YAML 1.1"
            hint = f"quote it: '{doubt.text}', or write {doubt.old}"
            faults.append(Fault("value_ambiguous", message, document.place_of(below), hint))
    return faults


def _describe_nearest_name(recipe: Recipe, name: str) -> str:
    """The one name that ends so, or is written nearly so; of hundreds that are far from it none is listed."""
    import difflib  # noqa: PLC0415 - only who made a mistake pays for it

    names = [parameter.name for parameter in recipe.parameters]
    below = [one for one in names if one.endswith(f".{name}")]
    near = below if len(below) == 1 else difflib.get_close_matches(name, names, n=1, cutoff=_NEAR)
    if near:
        return f"did you mean {near[0]!r}?"
    if len(names) <= _LISTED_AT_MOST:
        return describe_nearest(name, names)
    return f"`sf methods {recipe.name}` lists its hyperparameters"


def _describe_rule(rule: Rule, known: Mapping[str, Json]) -> str:
    """The numbers that the rule was about."""
    shown = dict.fromkeys(list_names(rule.require))
    return ", ".join(f"{name} is {spell_value(known.get(name))}" for name in shown)
