"""An experiment as a whole: config, lock and entry read together, with every fault at once."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

import starforge
from starforge.contract import jobspec
from starforge.contract.canonical import Json, digest_json
from starforge.contract.ids import Digest
from starforge.contract.images import parse_image_reference
from starforge.errors import ProjectError, SpecError
from starforge.recipes.arguments import read_arguments
from starforge.recipes.catalog import load_catalog
from starforge.recipes.faults import Fault, Place
from starforge.recipes.hyperparameters import (
    build_facts,
    check_hyperparameters,
    check_rules,
    find_broken_rules,
    list_doubtful,
)
from starforge.recipes.lock import LOCK_FILE, Lock, LockState, compare_lock, load_lock
from starforge.recipes.model import Need, Recipe, Rule
from starforge.recipes.rules import list_names
from starforge.wording import count_of, describe_nearest, join_sentences
from starforge.workspace.config import CONFIG_FILE, Config, Setting, apply_setting, read_config
from starforge.workspace.datasets import (
    Named,
    find_columns_fault,
    find_data_fault,
    find_data_warning,
    find_format_fault,
)
from starforge.workspace.launching import find_launch_fault
from starforge.workspace.project import EXPERIMENTS_FOLDER, Project

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MODEL: Final = "model"
_PROBE: Final[dict[str, Json]] = {
    "recipe": {"name": "probe/probe", "version": "1", "digest": "sha256:" + "0" * 64},
    "resources": {"pools": [{"gpus_per_node": 0}]},
    "entry": {"kind": "experiment", "value": "probe"},
    "workspace": {"digest": "sha256:" + "0" * 64, "bytes": 0, "files": 0},
}
"""What a spec needs beside the settings, so that the settings can be checked by the contract itself."""


_NEEDS: Final[Mapping[Need, tuple[tuple[str, ...], str]]] = {
    "model": (("model",), "a model"),
    "train": (("data", "train"), "training data"),
}
"""The key of each input that a method may need, and what it is called."""


@dataclass(slots=True)
class Experiment:
    """What the files of an experiment say. `lock` and `recipe` are None where they could not be read."""

    project: Project
    name: str
    config: Config
    lock: Lock | None = None
    recipe: Recipe | None = None
    lock_state: LockState = LockState.MALFORMED
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)

    @property
    def folder(self) -> str:
        """The experiment's folder below the project's root."""
        return f"{EXPERIMENTS_FOLDER}/{self.name}"

    @property
    def values(self) -> dict[str, Json]:
        """The resolved settings."""
        return self.config.values

    @property
    def image(self) -> str | None:
        """The image that the config names."""
        image = self.values.get("image")
        return image if isinstance(image, str) else None

    @property
    def config_digest(self) -> Digest:
        """The digest of the resolved settings."""
        return digest_json(self.values)

    def section(self, name: str) -> dict[str, Json]:
        """A part of the settings; empty where it is not set."""
        part = self.values.get(name)
        return part if isinstance(part, dict) else {}


def read_experiment(project: Project, name: str, settings: Sequence[Setting] = ()) -> Experiment:
    """Read and check the experiment `name` with `settings` above its config. Needs no network.

    What is wrong with the files is in `faults`, all of it.

    Raises:
        ProjectError: one of `settings` cannot be applied.

    """
    file = Path(EXPERIMENTS_FOLDER, name, CONFIG_FILE)
    experiment = Experiment(project, name, read_config(project.root, file))
    config = experiment.config
    for setting in settings:
        apply_setting(config, setting)
    experiment.faults += config.faults
    experiment.warnings += config.warnings
    _read_lock(experiment)
    _check_entry(experiment)
    if config.faults and not config.own.places:
        return experiment  # nothing could be read of it: what is missing would be told beside the reason
    _check_image(experiment)
    _check_datasets(experiment)
    if experiment.recipe is not None:
        _check_hyperparameters(experiment, experiment.recipe)
        _check_needs(experiment, experiment.recipe)
        _check_columns(experiment, experiment.recipe)
        _check_against_contract(experiment, experiment.recipe)
        _check_rules(experiment, experiment.recipe, None)
        _check_launch(experiment, experiment.recipe, None)
    return experiment


def apply_resources(experiment: Experiment, resources: jobspec.Resources) -> None:
    """Add to the faults what breaks a rule about the GPUs and nodes that were asked for, or is no launch with them."""
    if experiment.recipe is not None:
        _check_rules(experiment, experiment.recipe, resources)
        _check_launch(experiment, experiment.recipe, resources)


def apply_arguments(experiment: Experiment, file: str, content: bytes) -> None:
    """Add to the faults what is wrong with a framework's arguments as hyperparameters of the experiment's method."""
    document = read_arguments(content, file)
    experiment.faults += document.faults
    values = document.mapping().get("hyperparameters")
    if experiment.recipe is None or not isinstance(values, dict):
        return
    recipe = experiment.recipe
    experiment.faults += check_hyperparameters(recipe, values, document)
    experiment.faults += check_rules(recipe, values, build_facts(recipe, values, None, None), Place(file))


def check_experiment(experiment: Experiment) -> None:
    """Raise ProjectError with every fault of the experiment, if it has one."""
    if not experiment.faults:
        return
    lines = [f"{fault.place}: {fault.message}{f' ({fault.hint})' if fault.hint else ''}" for fault in experiment.faults]
    options = set(experiment.config.options.values())
    if all(fault.place.file in options for fault in experiment.faults):
        raise ProjectError("\n".join(lines), next_step="mend the option and submit again")
    raise ProjectError(
        f"{experiment.name} has {count_of(len(lines), 'fault')}",
        why="\n".join(lines),
        next_step=f"mend what is named; `sf validate {experiment.name}` shows what is left in the files",
    )


def list_named_inputs(experiment: Experiment) -> list[tuple[str, str]]:
    """The keys that name the model and the data, with what they name."""
    data = {f"data.{name}": value for name, value in experiment.section("data").items()}
    named = {_MODEL: experiment.values.get(_MODEL), **data}
    return [(key, value) for key, value in named.items() if isinstance(value, str) and value]


def _read_lock(experiment: Experiment) -> None:
    file = f"{experiment.folder}/{LOCK_FILE}"
    try:
        lock = load_lock(experiment.project.root / file)
    except ProjectError as error:
        message = error.what.replace(f"{experiment.project.root}/", "") + (f": {error.why}" if error.why else "")
        experiment.faults.append(Fault("lock_malformed", message, Place(file), error.next_step))
        return
    catalog = load_catalog()
    standing = compare_lock(lock, catalog, starforge.__version__)
    experiment.lock, experiment.lock_state = lock, standing.state
    recipe = catalog.get(lock.recipe.name)
    experiment.recipe = recipe.at(lock.framework.version) if recipe else None
    hint = f"`sf recipe upgrade {experiment.name}` moves it to what is here; --dry-run shows the difference first"
    if not standing.usable:
        if experiment.recipe is None:
            hint = join_sentences(describe_nearest(lock.recipe.name, catalog), "`sf methods` lists what is published")
        elif not standing.upgradable:
            hint = "install a newer sf"
        experiment.faults.append(Fault(f"lock_{standing.state}", f"the lock: {standing.why}", Place(file), hint))
    elif standing.state is LockState.COMPATIBLE:
        experiment.warnings.append(Fault("lock_compatible", f"the lock: {standing.why}", Place(file), hint))


def _check_image(experiment: Experiment) -> None:
    if experiment.image is None:
        return
    try:
        parse_image_reference(experiment.image)
    except SpecError as error:
        place = experiment.config.origin.place_of(["image"])
        message = f"{error.what}: {error.why}"
        experiment.faults.append(Fault("image_invalid", message, place, error.next_step))


def _check_datasets(experiment: Experiment) -> None:
    suffixes = experiment.recipe.options.get("data_suffixes") if experiment.recipe else None
    wanted = [str(suffix) for suffix in suffixes] if isinstance(suffixes, list) else []
    for key, value in list_named_inputs(experiment):
        named = Named(key, value, experiment.config.origin.place_of(key.split(".")))
        fault = find_data_fault(experiment.project.root, experiment.folder, named)
        fault = fault or (find_format_fault(named, wanted) if wanted and key != _MODEL else None)
        warning = find_data_warning(named)
        experiment.faults += [fault] if fault else []
        experiment.warnings += [warning] if warning else []


def _check_entry(experiment: Experiment) -> None:
    if experiment.recipe is None:
        return
    entry = experiment.recipe.entry
    if entry.kind != "experiment":
        return
    shown = f"{experiment.folder}/{entry.value}"
    file, place = experiment.project.root / shown, Place(shown)
    if not file.is_file():
        message = f"{shown} is missing: {experiment.recipe.name} starts it"
        experiment.faults.append(Fault("entry_missing", message, place, "write it, or take the one of `sf new`"))
        return
    content = file.read_bytes()
    if b"\r\n" in content:
        line = content[: content.index(b"\r\n")].count(b"\n") + 1
        hint = f"sed -i 's/\\r$//' {shown}, and in .gitattributes: *.sh text eol=lf"
        message = f"{shown} has Windows line ends: the shell would look for commands that end in \\r"
        experiment.faults.append(Fault("entry_line_ends", message, Place(shown, line, 1), hint))
    if content.startswith(b"\xef\xbb\xbf"):
        message = f"{shown} starts with a byte-order mark"
        experiment.faults.append(Fault("entry_bom", message, Place(shown, 1, 1), "save it as UTF-8 without BOM"))
    if entry.executable and not os.stat(file).st_mode & 0o100:  # noqa: PTH116 - one stat, as the packer looks at it
        hint = f"chmod +x {shown}"
        experiment.faults.append(Fault("entry_not_executable", f"{shown} is not executable", place, hint))


def _check_hyperparameters(experiment: Experiment, recipe: Recipe) -> None:
    values, origin = experiment.section("hyperparameters"), experiment.config.origin
    experiment.faults += check_hyperparameters(recipe, values, origin)
    experiment.warnings += list_doubtful(recipe, values, origin)


def _check_needs(experiment: Experiment, recipe: Recipe) -> None:
    """The inputs without which no job of the method starts."""
    origin = experiment.config.origin
    for need in recipe.needs:
        key, what = _NEEDS[need]
        holder = experiment.section("data") if len(key) > 1 else experiment.values
        is_broken = key in origin.places and key[-1] not in holder
        is_replaced = need == "model" and bool(experiment.values.get("init_from"))
        if holder.get(key[-1]) or is_broken or is_replaced:
            continue
        shown, place = ".".join(key), origin.key_place_of(key)
        hint = f"add {shown}: hf://OWNER/NAME, or a path in the project"
        experiment.faults.append(Fault("input_missing", f"{recipe.name} needs {what} ({shown})", place, hint))


def _check_columns(experiment: Experiment, recipe: Recipe) -> None:
    """What the first rows of data in the project have, once the names of its columns are known."""
    if experiment.faults:
        return
    values = experiment.section("hyperparameters")
    for key, value in list_named_inputs(experiment):
        named = Named(key, value, experiment.config.origin.place_of(key.split(".")))
        fault = find_columns_fault(experiment.project.root, named, recipe, values) if key != _MODEL else None
        experiment.faults += [fault] if fault else []


def _check_rules(experiment: Experiment, recipe: Recipe, resources: jobspec.Resources | None) -> None:
    """Rules between hyperparameters, and with `resources` those about GPUs too; none is told twice."""
    values = experiment.section("hyperparameters")
    pools = resources.pools if resources else ()
    gpus = sum(pool.nodes * pool.gpus_per_node for pool in pools) if resources else None
    nodes = sum(pool.nodes for pool in pools) if resources else None
    for rule, shown in find_broken_rules(recipe, values, build_facts(recipe, values, gpus, nodes)):
        fault = Fault("rule_broken", rule.message["en"], _find_rule_place(experiment, rule), shown)
        if not any((told.code, told.message) == (fault.code, fault.message) for told in experiment.faults):
            experiment.faults.append(fault)


def _find_rule_place(experiment: Experiment, rule: Rule) -> Place:
    """Where the first of the rule's hyperparameters that was set stands."""
    origin = experiment.config.origin
    for name in (*list_names(rule.require), *list_names(rule.when or "True")):
        for path in (("hyperparameters", name), ("hyperparameters", *name.split("."))):
            if path in origin.places:
                return origin.place_of(path)
    return origin.key_place_of(["hyperparameters"])


def _check_against_contract(experiment: Experiment, recipe: Recipe) -> None:
    """What the JobSpec itself would refuse, with the position of the setting that it came from."""
    origin = experiment.config.origin
    is_broken = ("image",) in origin.places and "image" not in experiment.values
    if not experiment.values.get("image") and not is_broken:
        message, place = f"{recipe.name} needs an image", origin.key_place_of(["image"])
        experiment.faults.append(Fault("image_missing", message, place, "add image: NAME:TAG"))
    is_told = any(fault.code == "image_invalid" for fault in experiment.faults)
    image = "none" if is_told or not experiment.image else experiment.image
    members = _build_members(experiment, recipe, image)
    experiment.faults += _collect(experiment, lambda: build_metadata(experiment))
    experiment.faults += _collect(experiment, lambda: jobspec.Spec.model_validate(members))
    experiment.faults += _collect(experiment, lambda: digest_json(experiment.values))


def _check_launch(experiment: Experiment, recipe: Recipe, resources: jobspec.Resources | None) -> None:
    """What only the launch would refuse. Anything else that is wrong is told better by its own name, and first."""
    if experiment.faults:
        return
    members = _build_members(experiment, recipe, experiment.image or "none")
    fault = find_launch_fault(recipe, members, resources, experiment.config.origin)
    experiment.faults += [fault] if fault else []


def _build_members(experiment: Experiment, recipe: Recipe, image: str) -> dict[str, Json]:
    """The members of a JobSpec's `spec`, before anything is packed or asked for."""
    version = experiment.lock.framework.version if experiment.lock else None
    framework: dict[str, Json] = {"kind": recipe.framework, "image": image, "version": version}
    return {**_PROBE, "framework": framework, **build_settings(experiment)}


def _collect(experiment: Experiment, check: Callable[[], object]) -> list[Fault]:
    try:
        check()
    except ValidationError as error:
        return [fault for detail in error.errors(include_input=False) if (fault := _place_detail(experiment, detail))]
    except SpecError as error:
        return [Fault("value_invalid", str(error), experiment.config.own.place_of([]))]
    return []


def _place_detail(experiment: Experiment, detail: "ErrorDetails") -> Fault | None:
    """What the contract says of a setting; None where that setting was told of already."""
    path = tuple(part for part in detail["loc"] if part != "framework")
    origin = experiment.config.origin
    place = origin.place_of(path)
    if {place, origin.key_place_of(path)} & {fault.place for fault in experiment.faults}:
        return None
    return Fault("value_invalid", f"{'.'.join(map(str, path))}: {jobspec.describe_message(detail)}", place)


def build_metadata(experiment: Experiment) -> jobspec.Metadata:
    """Whose experiment it is, for the JobSpec."""
    values = {"name": experiment.name, "project": experiment.project.name, "labels": experiment.section("labels")}
    return jobspec.Metadata.model_validate({**values, "note": experiment.values.get("note")})


def build_settings(experiment: Experiment) -> dict[str, Json]:
    """The members of a JobSpec's `spec` that the settings say, but for the image."""
    values = experiment.values
    return {
        "model": values.get("model"),
        "data": experiment.section("data"),
        "hyperparameters": experiment.section("hyperparameters"),
        "placement": _without_nulls(experiment.section("placement")),
        "lifecycle": _without_nulls(experiment.section("lifecycle")),
        "init_from": values.get("init_from"),
        "observability": values.get("observability") or "platform",
    }


def _without_nulls(section: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in section.items() if value is not None}
