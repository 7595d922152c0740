"""`config.yaml` of an experiment: its keys, its parents, and every fault with its position."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from starforge.contract.canonical import Json
from starforge.errors import ProjectError
from starforge.recipes.faults import Fault, Place
from starforge.recipes.files import load_file
from starforge.recipes.model import ParameterType
from starforge.recipes.values import check_bounds, describe_value, has_type, hint_for_type
from starforge.recipes.yaml12 import Document, Located, read_yaml
from starforge.recipes.yaml12 import Path as KeyPath
from starforge.wording import cut_middle, describe_nearest
from starforge.workspace.project import CONFIGS_FOLDER

CONFIG_FILE: Final = "config.yaml"
_SHOWN: Final = 200


class _Key(NamedTuple):
    type: ParameterType
    wanted: str
    bounds: tuple[float | None, float | None] = (None, None)
    choices: tuple[str, ...] = ()


_TEXT: Final = _Key("text", "a text")
_SCHEMA: Final[Mapping[str, _Key | Mapping[str, _Key]]] = {
    "image": _TEXT,
    "model": _TEXT,
    "note": _TEXT,
    "init_from": _TEXT,
    "observability": _TEXT,
    "defaults": _Key("list", "a list of files below configs/"),
    "labels": _Key("map", "names and texts"),
    "hyperparameters": _Key("map", "names and values"),
    "data": {"train": _TEXT, "validation": _TEXT},
    "resources": {
        "cpus": _Key("number", "a number of processors a node", (0.01, 4096)),
        "memory_gib": _Key("number", "GiB of memory a node", (0.0625, 65536)),
    },
    "lifecycle": {
        "retries": _Key("int", "a whole number", (0, 100)),
        "max_runtime_s": _Key("number", "seconds", (1, None)),
        "grace_s": _Key("number", "seconds", (0, 3600)),
        "resume": _Key("text", "auto or never", choices=("auto", "never")),
    },
    "placement": {
        "fleet": _TEXT,
        "priority": _Key("text", "low, normal or high", choices=("low", "normal", "high")),
    },
}
_PLATFORM_KEYS: Final = frozenset(
    {"apiVersion", "kind", "metadata", "spec", "name", "project", "recipe", "framework", "entry", "workspace"}
    | {"provenance", "user", "job", "attempt", "env", "environment", "secrets", "command", "mounts"}
)


class Setting(NamedTuple):
    """A value that the command line puts above the files; `option` is what it was written as."""

    path: tuple[str, ...]
    value: Json
    option: str


@dataclass(slots=True)
class Config:
    """An experiment's settings with those of its parents below them.

    What could not be read is in `faults` and not in `values`. `own` is the experiment's own file; `origin` says of
    every value where it came from: the experiment's file, a parent or an option.
    """

    own: Document
    origin: Document
    values: dict[str, Json] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    warnings: list[Fault] = field(default_factory=list)
    documents: dict[str, Document] = field(default_factory=dict)
    options: dict[KeyPath, str] = field(default_factory=dict)


def read_config(root: Path, file: Path) -> Config:
    """`file` (relative to `root`) and its parents. Never raises for what the files hold, or that one is missing."""
    try:
        content = load_file(root / file)
    except OSError as error:
        hint = "restore it from git, or make an experiment with `sf new`"
        missing = Fault("config_missing", f"{file} cannot be read: {error.strerror}", Place(str(file)), hint)
        return Config(own=Document(str(file)), origin=Document(str(file)), faults=[missing])
    own = read_yaml(content, str(file))
    config = Config(own=own, origin=Document(str(file)))
    config.values = _merge_parents(config, root, own, (str(file),))
    return config


def parse_setting(text: str) -> Setting:
    """`--set key=value`: `a.b=1` sets `b` in `a`, a bare name sets a hyperparameter; values are YAML.

    Raises:
        ProjectError: no `=`, an empty part in the key, or a value that is no YAML, or more than one.

    """
    key, equals, raw = text.partition("=")
    shown, parts = repr(cut_middle(text, _SHOWN)), tuple(key.strip().split("."))
    if not equals or not all(parts):
        raise ProjectError(f"--set {shown} has no key and value", next_step="write --set learning_rate=1e-5")
    document = read_yaml(f"value: {raw}".encode(errors="surrogatepass"), "--set")
    if document.faults:
        fault = document.faults[0]
        raise ProjectError(f"--set {shown}: {fault.message}", next_step=fault.hint)
    if len(document.mapping()) > 1:
        raise ProjectError(
            f"--set {shown} goes on in another line",
            next_step=r'for a text of several lines write name="first\nsecond"',
        )
    return build_setting(parts, document.mapping()["value"], f"--set {key.strip()}")


def build_setting(parts: tuple[str, ...], value: Json, option: str) -> Setting:
    """The setting of a key that may be the bare name of a hyperparameter. Pure."""
    return Setting(parts if parts[0] in _SCHEMA else ("hyperparameters", *parts), value, option)


def apply_setting(config: Config, setting: Setting) -> None:
    """Put `setting` above what the files say, and add what is wrong with it to the faults.

    Raises:
        ProjectError: it goes below something that is no map.

    """
    place = config.values
    for part in setting.path[:-1]:
        inner = place.get(part)
        if inner is None:
            inner = place[part] = {}
        if not isinstance(inner, dict):
            raise ProjectError(
                f"{setting.option} cannot be set",
                why=f"{part} holds {describe_value(inner)}",
                next_step=f"name a key below one that holds a map, or change {part}",
            )
        place = inner
    place[setting.path[-1]] = setting.value
    config.options[setting.path] = setting.option
    _forget(config.origin, setting.path)
    config.origin.places[setting.path] = Located(Place(setting.option), Place(setting.option))
    nested: Json = setting.value
    for part in reversed(setting.path):
        nested = {part: nested}
    check_values(config, nested if isinstance(nested, dict) else {}, Document(setting.option))


def check_values(config: Config, values: Mapping[str, Json], document: Document) -> None:
    """Add to `config.faults` whatever in `values` does not fit the schema; positions are those of `document`."""
    for key, value in values.items():
        rule = _SCHEMA.get(key)
        if rule is None:
            config.faults.append(_unknown(document, (key,), _SCHEMA))
        elif isinstance(rule, _Key):
            config.faults += _check_key((key,), value, rule, document)
        elif isinstance(value, dict):
            for name, inner in value.items():
                if name in rule:
                    config.faults += _check_key((key, name), inner, rule[name], document)
                else:
                    config.faults.append(_unknown(document, (key, name), rule))
        elif value is not None:
            message = f"{key} must hold names and values, not {describe_value(value)}"
            config.faults.append(Fault("value_type", message, document.place_of([key]), f"known: {', '.join(rule)}"))


def _merge_parents(config: Config, root: Path, document: Document, chain: tuple[str, ...]) -> dict[str, Json]:
    config.documents[chain[-1]] = document
    config.faults += document.faults
    config.warnings += document.warnings
    own = dict(document.mapping())
    check_values(config, own, document)
    parents = own.pop("defaults", None)
    merged: dict[str, Json] = {}
    for index, name in enumerate(parents if isinstance(parents, list) else ()):
        parent = _read_parent(config, root, (document, index, name), chain)
        merged = _merge(merged, parent)
    _put_above(config.origin, document)
    return _merge(merged, own)


def _put_above(origin: Document, document: Document) -> None:
    """Let `origin` say of every value of `document` that it came from there."""
    for path in document.places:
        origin.doubts.pop(path, None)
    origin.places.update(document.places)
    origin.doubts.update(document.doubts)


def _forget(origin: Document, path: KeyPath) -> None:
    """Let `origin` say nothing of what stood at `path` and below it."""
    for places in (origin.places, origin.doubts):
        for below in [one for one in places if one[: len(path)] == path]:
            del places[below]


def _read_parent(
    config: Config, root: Path, named: tuple[Document, int, Json], chain: tuple[str, ...]
) -> dict[str, Json]:
    document, index, name = named
    place = document.place_of(["defaults", index])
    if not isinstance(name, str):
        config.faults.append(Fault("value_type", f"a parent is {describe_value(name)}", place, "name a file"))
        return {}
    with_suffix = name if name.endswith((".yaml", ".yml")) else f"{name}.yaml"
    file = os.path.normpath(f"{CONFIGS_FOLDER}/{with_suffix}")
    if not file.startswith(f"{CONFIGS_FOLDER}/") or name.startswith("/"):
        message = f"the parent {name!r} lies outside {CONFIGS_FOLDER}/"
        config.faults.append(Fault("parent_outside", message, place, f"move it into {CONFIGS_FOLDER}/"))
        return {}
    if file in chain:
        loop = " > ".join((*chain[chain.index(file) :], file))
        config.faults.append(Fault("parent_loop", f"the parents form a loop: {loop}", place))
        return {}
    try:
        content = load_file(root / file)
    except OSError as error:
        present = [path.stem for path in (root / CONFIGS_FOLDER).glob("*.yaml")]
        hint = describe_nearest(name, present) or f"{CONFIGS_FOLDER}/ holds no file"
        config.faults.append(Fault("parent_missing", f"{file} cannot be read: {error.strerror}", place, hint))
        return {}
    known = config.documents.get(file)
    if known is not None and known.faults:
        return {}
    return _merge_parents(config, root, read_yaml(content, file), (*chain, file))


def _merge(below: Mapping[str, Json], above: Mapping[str, Json]) -> dict[str, Json]:
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        both = isinstance(under, dict) and isinstance(value, dict)
        merged[key] = _merge(under, value) if both else value  # type: ignore[arg-type]  # `both` says that they are maps
    return merged


def _unknown(document: Document, path: KeyPath, known: Mapping[str, object]) -> Fault:
    key, place = str(path[-1]), document.key_place_of(path)
    if len(path) == 1 and key in _PLATFORM_KEYS:
        return Fault("key_platform_owned", f"{key!r} is set by the platform", place, "remove it")
    where = f"{path[0]} has" if len(path) > 1 else "there is"
    hint = describe_nearest(key, known)
    if len(path) == 1 and not hint.startswith("did you"):
        hint = f"a setting of your own goes under hyperparameters:; {hint}"
    return Fault("key_unknown", f"{where} no key {key!r}", place, hint)


def _check_key(path: Sequence[str], value: Json, rule: _Key, document: Document) -> list[Fault]:
    name, place = ".".join(path), document.place_of(path)
    if value is None:
        return []
    if not has_type(rule.type, value):
        message = f"{name} must be {rule.wanted}, not {describe_value(value)}"
        return [Fault("value_type", message, place, hint_for_type(rule.type, value))]
    if rule.choices and value not in rule.choices:
        hint = describe_nearest(str(value), rule.choices)
        return [Fault("value_choice", f"{name} must be {rule.wanted}, not {value!r}", place, hint)]
    if path[0] == "labels" and isinstance(value, dict):
        return _check_labels(value, document)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return check_bounds(name, value, rule.bounds, place)
    return []


def _check_labels(labels: Mapping[str, Json], document: Document) -> list[Fault]:
    faults = []
    for name, value in labels.items():
        if not isinstance(value, str):
            message = f"the label {name} must be a text, not {describe_value(value)}"
            faults.append(Fault("value_type", message, document.place_of(["labels", name]), "quote it"))
    return faults
