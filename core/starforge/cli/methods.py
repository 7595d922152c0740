"""`sf methods`: the installed methods, and one of them with its versions and hyperparameters."""

from collections.abc import Sequence
from typing import Any

import click

from starforge.cli.output import find_width, json_option, print_json, print_table, render_row, say
from starforge.errors import NotFound
from starforge.recipes.catalog import load_catalog, load_method
from starforge.recipes.model import Parameter, Recipe, Runtime
from starforge.recipes.upgrade import describe_nearest_version
from starforge.wording import join_sentences


@click.command()
@click.argument("name", required=False)
@click.option("--framework-version", "version", metavar="VERSION", help="Hyperparameters of this version; the newest.")
@json_option
def methods(name: str | None, version: str | None, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List the training methods, or show one.

    With NAME: its versions with images and requirements, what it needs, and its hyperparameters by group.

    \b
    JSON: {items: [{name, version, digest, framework_versions: [text], image,
                    summary: {language: text}}]}
    JSON with NAME: {name, version, digest, framework, summary, roles, needs,
          primary_metric, actions, requires_core, framework_version,
          versions: [{version, runtime, image, python, modules}],
          parameters: [{name, group, type, items, default, minimum, maximum,
                        choices, nullable, path, help: {language: text}}],
          open_parameters, platform_parameters: [name], fixed: {name: value},
          rules: [{require, when, message: {language: text}}]}
    """
    if name is None:
        if version is not None:
            message = "--framework-version belongs to one method: name it"
            raise click.UsageError(message)
        _list(list(load_catalog().values()), as_json=as_json)
        return
    recipe = load_method(name)
    runtime = choose_runtime(recipe, version)
    present = recipe.at(runtime.version)
    if as_json:
        print_json(_describe(present, runtime))
    else:
        _show(present, runtime)


def choose_runtime(recipe: Recipe, version: str | None) -> Runtime:
    """The runtime of that version, the newest without one; NotFound with the nearest."""
    found = recipe.runtimes[0] if version is None else recipe.find_version(version)
    if found is None:
        offered = recipe.framework_versions
        hint = describe_nearest_version(str(version), offered)
        every = f"it runs on {', '.join(offered)}" if offered else ""
        raise NotFound(f"{recipe.name} has no version {version!r}", next_step=join_sentences(hint, every))
    return found


def _list(recipes: Sequence[Recipe], *, as_json: bool) -> None:
    if not as_json:
        rows = [
            (recipe.name, ", ".join(recipe.framework_versions) or "any", recipe.summary["en"]) for recipe in recipes
        ]
        print_table(("METHOD", "FRAMEWORK", "WHAT IT DOES"), rows)
        return
    items = [
        {
            "name": recipe.name,
            "version": recipe.version,
            "digest": recipe.digest,
            "framework_versions": list(recipe.framework_versions),
            "image": recipe.runtimes[0].image,
            "summary": dict(recipe.summary),
        }
        for recipe in recipes
    ]
    print_json({"items": items})


def _describe(recipe: Recipe, runtime: Runtime) -> dict[str, Any]:
    primary = recipe.primary_metric
    return {
        "name": recipe.name,
        "version": recipe.version,
        "digest": recipe.digest,
        "framework": recipe.framework,
        "summary": dict(recipe.summary),
        "roles": list(recipe.roles),
        "needs": list(recipe.needs),
        "primary_metric": {"key": primary.key, "better": primary.better} if primary else None,
        "actions": list(recipe.actions),
        "requires_core": recipe.requires_core,
        "framework_version": runtime.version,
        "versions": [_describe_runtime(one) for one in recipe.runtimes],
        "parameters": [_describe_parameter(parameter) for parameter in recipe.parameters],
        "open_parameters": recipe.open_parameters,
        "platform_parameters": list(recipe.platform_parameters),
        "fixed": {**recipe.fixed, **runtime.fixed},
        "rules": [
            {"require": rule.require, "when": rule.when or None, "message": dict(rule.message)} for rule in recipe.rules
        ],
    }


def _describe_runtime(runtime: Runtime) -> dict[str, Any]:
    facts = {"version": runtime.version, "runtime": runtime.id, "image": runtime.image}
    return {**facts, "python": runtime.python or None, "modules": dict(runtime.modules)}


def _describe_parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "group": parameter.group,
        "type": parameter.type,
        "items": parameter.items,
        "default": parameter.default,
        "minimum": parameter.minimum,
        "maximum": parameter.maximum,
        "choices": list(parameter.choices),
        "nullable": parameter.nullable,
        "path": parameter.path,
        "help": dict(parameter.help),
    }


def _show(recipe: Recipe, runtime: Runtime) -> None:
    width = find_width()
    for label, text in _list_facts(recipe):
        say(render_row(f"{label:<15}", text, width))
    click.echo()
    rows = [_build_version_row(one) for one in recipe.runtimes]
    print_table(("VERSION", "IMAGE", "NEEDS"), rows)
    if recipe.parameters:
        click.echo()
        say(f"hyperparameters{f' of {recipe.framework} {runtime.version}' if runtime.version else ''}")
    for group in dict.fromkeys(parameter.group for parameter in recipe.parameters):
        say(f"\n{group}")
        for parameter in recipe.parameters:
            if parameter.group == group:
                say(f"  {parameter.name}: {_describe_value(parameter)}")
                say(render_row("      ", parameter.help["en"], width))
    if recipe.open_parameters:
        say("\nany other name is passed on as it is")


def _list_facts(recipe: Recipe) -> list[tuple[str, str]]:
    keys = {"model": "model", "train": "data.train"}
    primary = recipe.primary_metric
    facts = [
        ("method", f"{recipe.name}, version {recipe.version}: {recipe.summary['en']}"),
        ("needs", ", ".join(keys[need] for need in recipe.needs)),
        ("roles", ", ".join(recipe.roles)),
        ("compared by", f"{primary.key} ({primary.better} is better)" if primary else ""),
        ("start with", f"sf new NAME --method {recipe.name}"),
    ]
    return [(label, text) for label, text in facts if text]


def _build_version_row(runtime: Runtime) -> tuple[str, str, str]:
    modules = [f"{name} {versions}".strip() for name, versions in runtime.modules.items()]
    needs = [f"Python {runtime.python}"] if runtime.python else []
    return runtime.version or "any", runtime.image or "none is published", ", ".join([*needs, *modules]) or "-"


def _describe_value(parameter: Parameter) -> str:
    """Type, bounds or choices, and default, as short as may be."""
    kind = f"list of {parameter.items}" if parameter.type == "list" and parameter.items else parameter.type
    bounds = [
        f"{sign} {bound:g}"
        for sign, bound in ((">=", parameter.minimum), ("<=", parameter.maximum))
        if bound is not None
    ]
    parts = [kind, *bounds]
    if parameter.choices:
        parts.append(f"one of {', '.join(parameter.choices)}")
    parts.append("default: the framework's" if parameter.default is None else f"default: {_spell(parameter.default)}")
    return ", ".join(parts)


def _spell(value: object) -> str:
    import json  # noqa: PLC0415 - not where there are no defaults

    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)
