"""The adapter of trl: its script, one process a GPU, and one file of settings."""

import posixpath
from typing import Final

from starforge.contract.canonical import Json
from starforge.contract.capsule import ENV_TRAINER_RESUMES, PLACE_CKPT, PLACE_PYTHON, PLACE_RESUME, PLACE_WORK, Plan
from starforge.errors import LaunchRefused
from starforge.recipes.adapters.inputs import PlanInputs
from starforge.recipes.adapters.materials import DATA_FOLDER, OFFLINE, find_model
from starforge.recipes.adapters.rules import build_checkpoint_rule, build_complete_rule, build_metric_sources
from starforge.recipes.adapters.settings_file import dump_float, dump_settings, list_option, split_extra

SETTINGS_FILE: Final = "starforge-run/trl.yaml"

PORTS: Final = {"MASTER_PORT": 0, "PET_MASTER_PORT": 1}
"""Where vLLM in the Trainer's own process meets its like, else at one fixed port; and where the nodes of a job meet:
on a single one torchrun finds a free port itself."""

_FILE_SUFFIXES: Final = (".jsonl", ".json", ".parquet", ".csv", ".txt", ".arrow")
_PACKED_SUFFIXES: Final = (".gz", ".zst", ".xz", ".bz2")
_ENVIRONMENT: Final = {
    **OFFLINE,
    "TOKENIZERS_PARALLELISM": "false",
    # Up to 1.14 the scripts call train() without the checkpoint that --resume_from_checkpoint names.
    ENV_TRAINER_RESUMES: "1",
}


def build_plan(inputs: PlanInputs) -> Plan:
    """The plan of one attempt. Pure.

    trl passes over a key of its file that it does not know and refuses such an option, so what may be unknown to the
    image's transformers, and what `extra` holds, are options.

    Raises:
        LaunchRefused: there is no model or no data, training and validation data do not fit together, or `extra` holds
            what it must not.

    """
    settings, options = _split_settings(inputs)
    dataset, links = _place_data(inputs)
    settings |= {
        "model_name_or_path": find_model(inputs),
        "dataset_name": dataset,
        "output_dir": PLACE_CKPT,
    }
    if inputs.gpus_per_node == 0:
        settings["use_cpu"] = True
        settings.setdefault("bf16", False)
    return Plan(
        argv=(*_build_launcher(inputs), "--config", f"{PLACE_WORK}/{SETTINGS_FILE}", *options),
        env=dict(_ENVIRONMENT),
        files={SETTINGS_FILE: dump_settings(settings)},
        links=links,
        metric_sources=build_metric_sources(inputs),
        checkpoint=build_checkpoint_rule(inputs),
        complete=build_complete_rule(inputs),
        resume=("--resume_from_checkpoint", PLACE_RESUME) if inputs.resume else (),
        cwd=inputs.folder,
        ports=dict(PORTS),
    )


def count_processes(inputs: PlanInputs) -> int:
    """How many processes train: what was set, else one a GPU, else one."""
    set_by_hand = inputs.find("nproc_per_node")
    return set_by_hand if isinstance(set_by_hand, int) else max(inputs.gpus_per_node, 1)


def _build_launcher(inputs: PlanInputs) -> tuple[str, ...]:
    processes = count_processes(inputs)
    script = ("-m", inputs.recipe.entry.value)
    if processes == 1 and inputs.gpus_per_node <= 1 and inputs.nodes == 1:
        return (PLACE_PYTHON, *script)
    # Under torchrun even for a single process of several GPUs: alone, the Trainer would spread over all it sees.
    # Of several nodes each reads in its environment how many they are and which one leads.
    alone = ("--standalone",) if inputs.nodes == 1 else ()
    launcher = ("-m", "torch.distributed.run", *alone, "--nproc_per_node", str(processes))
    return (PLACE_PYTHON, *launcher, *script)


def _split_settings(inputs: PlanInputs) -> tuple[dict[str, Json], list[str]]:
    """What goes into the file, and what goes onto the command line."""
    settings, extra = split_extra(inputs)
    options: list[str] = []
    for key in sorted(key for key in settings if key in list_option(inputs.recipe, "checked")):
        _add(key, settings.pop(key), settings, options)
    for key, value in sorted(extra.items()):
        _add(key, value, settings, options)
    return settings, options


def _add(key: str, value: Json, settings: dict[str, Json], options: list[str]) -> None:
    """As an option where it can be written as one; null leaves the key to the framework, a map goes into the file."""
    if isinstance(value, dict):
        settings[key] = value
    elif isinstance(value, list):
        options += [f"--{key}", *(_spell(item) for item in value)]
    elif value is not None:
        options.append(f"--{key}={_spell(value)}")


def _spell(value: Json) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return dump_float(value) if isinstance(value, float) else str(value)


def _place_data(inputs: PlanInputs) -> tuple[str, dict[str, str]]:
    """The folder that trl loads its data set from, and the links that make it out of single files."""
    train, validation = inputs.paths.train, inputs.paths.validation
    if train is None:
        raise LaunchRefused(f"{inputs.recipe.name} has no data to train on", next_step="name it under data.train")
    suffix = _find_suffix(train)
    if not suffix:
        if validation is not None and validation != train:
            raise LaunchRefused(
                "data.train is a folder and data.validation is set",
                why="a folder holds its own splits",
                next_step="leave data.validation out, or name two files",
            )
        return train, {}
    links = {f"{DATA_FOLDER}/{inputs.find('dataset_train_split')}{suffix}": train}
    if validation is not None:
        if _find_suffix(validation) != suffix:
            raise LaunchRefused(
                f"data.train is a {suffix} file and data.validation is {posixpath.basename(validation)}",
                why="one data set has one format",
                next_step=f"give both as {suffix}",
            )
        links[f"{DATA_FOLDER}/{inputs.find('dataset_test_split')}{suffix}"] = validation
    elif inputs.find("eval_strategy") != "no":
        raise LaunchRefused(
            f"eval_strategy is {inputs.find('eval_strategy')!r} and there is no validation data",
            next_step="name it under data.validation, or leave eval_strategy out",
        )
    return f"{PLACE_WORK}/{DATA_FOLDER}", links


def _find_suffix(path: str) -> str:
    """The ending of a data file, `.jsonl.gz` whole; empty for a folder."""
    name = posixpath.basename(path)
    packed = next((one for one in _PACKED_SUFFIXES if name.endswith(one)), "")
    plain = next((one for one in _FILE_SUFFIXES if name.removesuffix(packed).endswith(one)), "")
    return plain + packed if plain else ""
