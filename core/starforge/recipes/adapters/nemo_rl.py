"""The adapter of NeMo RL: its example for the method, with one file of settings laid upon the example's own."""

from collections.abc import Mapping
from typing import Final

from starforge.contract.canonical import Json
from starforge.contract.capsule import PLACE_CKPT, PLACE_RESUME_STEP, PLACE_WORK, Plan, ResumeMirror
from starforge.errors import LaunchRefused
from starforge.recipes.adapters.inputs import PlanInputs
from starforge.recipes.adapters.materials import (
    OFFLINE,
    PlacedData,
    count_gpus,
    find_model,
    find_suffix,
    list_own_files,
    locate_folder,
    place_data,
)
from starforge.recipes.adapters.overrides import flatten_extra
from starforge.recipes.adapters.rules import build_checkpoint_rule, build_complete_rule, build_metric_sources
from starforge.recipes.adapters.settings_file import dump_settings, split_extra
from starforge.recipes.values import spell_value
from starforge.runner.versions import is_in_range

SETTINGS_FILE: Final = "starforge-run/nemo_rl.yaml"

_SUFFIXES: Final = (".jsonl", ".json", ".parquet", ".csv", ".arrow")
_SPLIT_OF_A_FILE: Final = "train"
_ENVIRONMENT: Final = {**OFFLINE, "TOKENIZERS_PARALLELISM": "false"}
_TOKENIZER: Final = "policy.tokenizer.name"
_METRIC: Final = "checkpointing.metric_name"
_SHARE: Final = "data.train.split_validation_size"
_OF_VALIDATION: Final = ("data.validation.split", "data.val_split")
_FLAT_DATA: Final = "<0.5"
_BOTH_DATA: Final = ">=0.5,<0.6"
_LOGGERS: Final = ("wandb", "mlflow", "swanlab")


def build_plan(inputs: PlanInputs) -> Plan:
    """The plan of one attempt. Pure.

    nemo-rl goes on from the highest step of its own checkpoint folder, so the committed checkpoint is mirrored there.

    Raises:
        LaunchRefused: no GPU, model or data is there, a test is asked for without validation data, or `extra` holds
            what it must not.

    """
    data = place_data(inputs, _SUFFIXES)
    settings = _build_settings(inputs, data)
    source = inputs.find("nemo_rl_dir")
    document = {"defaults": f"{source}/{inputs.recipe.options['config']}", **_nest(settings)}
    return Plan(
        argv=(
            "uv",
            "run",
            "--directory",
            str(source),
            _find_script(inputs),
            "--config",
            f"{PLACE_WORK}/{SETTINGS_FILE}",
        ),
        env=dict(_ENVIRONMENT),
        files={SETTINGS_FILE: dump_settings(document)},
        links=data.links,
        metric_sources=build_metric_sources(inputs),
        checkpoint=build_checkpoint_rule(inputs),
        complete=build_complete_rule(inputs),
        cwd=inputs.folder,
        python_path=(locate_folder(inputs),),
        resume_mirror=ResumeMirror(directory=f"step_{PLACE_RESUME_STEP}") if inputs.resume else None,
    )


def _build_settings(inputs: PlanInputs, data: PlacedData) -> dict[str, Json]:
    """Everything that is laid upon the example, by full name."""
    gpus = count_gpus(inputs)
    settings, extra = split_extra(inputs)
    extra = {name.lstrip("+"): value for name, value in flatten_extra(inputs.recipe, extra).items()}
    if data.validation is None:
        settings = {name: value for name, value in settings.items() if name not in _OF_VALIDATION}
    settings |= list_own_files(inputs) | _build_data(inputs, data)
    settings |= {} if _is_tested(inputs, data) else _forgo_tests(inputs)
    model = find_model(inputs)
    settings |= {
        "policy.model_name": model,
        _TOKENIZER: settings.get(_TOKENIZER) or model,
        "cluster.gpus_per_node": gpus,
        "cluster.num_nodes": inputs.nodes,
        "checkpointing.enabled": True,
        "checkpointing.checkpoint_dir": PLACE_CKPT,
        "checkpointing.checkpoint_must_save_by": None,
        "logger.log_dir": f"{PLACE_WORK}/starforge-run/logs",
        "logger.tensorboard_enabled": True,
        "logger.monitor_gpus": False,
        **{f"logger.{name}_enabled": False for name in _LOGGERS},
    }
    return {**settings, **extra}


def _find_script(inputs: PlanInputs) -> str:
    """The example's program; the recipe's option `scripts` names those of other versions."""
    others = inputs.recipe.options.get("scripts")
    version = inputs.runtime.version or ""
    named = others.items() if isinstance(others, dict) else ()
    return next(
        (str(script) for versions, script in named if is_in_range(version, versions)), inputs.recipe.entry.value
    )


def _build_data(inputs: PlanInputs, data: PlacedData) -> dict[str, Json]:
    """The data in the layout of the version. Validation data is read as training data is.

    It is not known of 0.5 which of both it takes for preferences: it gets both, and passes over the other.
    """
    version = inputs.runtime.version or ""
    name = inputs.find("data.train.dataset_name")
    flat: dict[str, Json] = {"data.dataset_name": name, "data.train_data_path": data.train}
    if not find_suffix(data.train, _SUFFIXES):
        flat["data.train_split"] = inputs.find("data.train.split")
    if data.validation is not None:
        flat["data.val_data_path"] = data.validation
        if not find_suffix(data.validation, _SUFFIXES):
            flat["data.val_split"] = inputs.find("data.validation.split")
    if is_in_range(version, _FLAT_DATA):
        return flat
    both = inputs.recipe.options.get("algorithm") == "dpo" and is_in_range(version, _BOTH_DATA)
    keys = {key: value for key, value in inputs.settings.items() if key.startswith("data.train.") and key != _SHARE}
    if both:
        flat |= {
            f"data.{key.removeprefix('data.train.')}": value for key, value in keys.items() if key.endswith("_key")
        }
    nested = _build_nested_data(inputs, data, keys)
    return {**flat, **nested} if both else nested


def _build_nested_data(inputs: PlanInputs, data: PlacedData, keys: Mapping[str, Json]) -> dict[str, Json]:
    settings: dict[str, Json] = {
        "data.train.dataset_name": inputs.find("data.train.dataset_name"),
        "data.train.data_path": data.train,
        "data.train.split": _find_split(inputs, data.train, "data.train.split"),
    }
    if data.validation is None:
        return {**settings, "data.validation": None}
    shared = {key: value for key, value in {**keys, **settings}.items() if not key.endswith((".data_path", ".split"))}
    settings |= {key.replace("data.train.", "data.validation.", 1): value for key, value in shared.items()}
    settings["data.validation.data_path"] = data.validation
    settings["data.validation.split"] = _find_split(inputs, data.validation, "data.validation.split")
    if any(parameter.name == _SHARE for parameter in inputs.recipe.parameters):
        settings[_SHARE] = 0
    return settings


def _find_split(inputs: PlanInputs, path: str, name: str) -> Json:
    return _SPLIT_OF_A_FILE if find_suffix(path, _SUFFIXES) else inputs.find(name)


def _is_tested(inputs: PlanInputs, data: PlacedData) -> bool:
    share = inputs.find(_SHARE)
    return data.validation is not None or (share is not None and share != 0)


def _forgo_tests(inputs: PlanInputs) -> dict[str, Json]:
    """nemo-rl stops at its first test when there is nothing to test with, and its examples want some."""
    algorithm = inputs.recipe.options["algorithm"]
    names = [f"{algorithm}.{name}" for name in ("val_period", "val_at_start", "val_at_end")]
    asked = [name for name in names if inputs.settings.get(name)]
    if asked:
        raise LaunchRefused(
            f"{asked[0]} is {spell_value(inputs.settings[asked[0]])} and there is no validation data",
            next_step=f"name it under data.validation, or leave {asked[0]} out",
        )
    forgone: dict[str, Json] = {names[0]: 0, names[1]: False, names[2]: False}
    return forgone if inputs.settings.get(_METRIC) is not None else {**forgone, _METRIC: None}


def _nest(settings: Mapping[str, Json]) -> dict[str, Json]:
    """Dotted names as maps below one another; shorter names first, so that members add to a map that is set whole."""
    nested: dict[str, Json] = {}
    for name in sorted(settings):
        *above, last = name.split(".")
        inner = nested
        for part in above:
            below = inner.setdefault(part, {})
            if not isinstance(below, dict):
                raise LaunchRefused(f"{name} is set, and {part} above it is no map", next_step="leave one of them out")
            inner = below
        value = settings[name]
        inner[last] = dict(value) if isinstance(value, dict) else value
    return nested
