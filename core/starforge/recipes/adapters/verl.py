"""The adapter of verl: its module with hydra's overrides, under torchrun or as the driver of Ray."""

from typing import Final

from starforge.contract.canonical import Json
from starforge.contract.capsule import PLACE_CKPT, PLACE_PYTHON, PLACE_RESUME, PLACE_WORK, Plan
from starforge.errors import LaunchRefused
from starforge.recipes.adapters.inputs import PlanInputs
from starforge.recipes.adapters.materials import (
    OFFLINE,
    PlacedData,
    build_torchrun,
    count_gpus,
    find_model,
    find_suffix,
    list_own_files,
    locate_folder,
    locate_own,
    place_data,
)
from starforge.recipes.adapters.overrides import build_overrides, flatten_extra
from starforge.recipes.adapters.rules import build_checkpoint_rule, build_complete_rule, build_metric_sources
from starforge.recipes.adapters.settings_file import split_extra

METRICS_FILE: Final = "starforge-run/metrics.jsonl"

_SUFFIXES: Final = (".parquet",)
_MODEL: Final = "actor_rollout_ref.model.path"
_PARALLEL: Final = "actor_rollout_ref.rollout.tensor_model_parallel_size"
_ESTIMATOR: Final = "algorithm.adv_estimator"
_TEST_FREQ: Final = "trainer.test_freq"
_ENVIRONMENT: Final = {
    **OFFLINE,
    "TOKENIZERS_PARALLELISM": "true",
    "VERL_FILE_LOGGER_PATH": f"{PLACE_WORK}/{METRICS_FILE}",
    "HYDRA_FULL_ERROR": "1",
}


def build_plan(inputs: PlanInputs) -> Plan:
    """The plan of one attempt. Pure.

    The logger of a resumed attempt empties its file, so each attempt has a file of its own.

    Raises:
        LaunchRefused: no GPU, model or data is there, the data is not parquet, a test is asked for without validation
            data, or `extra` holds what it must not.

    """
    gpus = count_gpus(inputs)
    settings, extra = split_extra(inputs)
    settings |= list_own_files(inputs)
    uses_ray = bool(inputs.recipe.options.get("ray"))
    data = _place(inputs)
    settings |= _build_data(inputs, data, uses_ray)
    settings |= {
        "trainer.default_local_dir": PLACE_CKPT,
        "trainer.resume_mode": "disable",
        "hydra.run.dir": f"{PLACE_WORK}/starforge-run/hydra",
    }
    settings |= _build_ray_settings(inputs, gpus) if uses_ray else {"model.path": find_model(inputs)}
    return Plan(
        argv=(
            *_build_launcher(inputs, gpus, uses_ray),
            *build_overrides(settings, flatten_extra(inputs.recipe, extra)),
        ),
        env=dict(_ENVIRONMENT),
        links=data.links,
        metric_sources=build_metric_sources(inputs),
        checkpoint=build_checkpoint_rule(inputs),
        complete=build_complete_rule(inputs),
        resume=("trainer.resume_mode=resume_path", f"trainer.resume_from_path='{PLACE_RESUME}'")
        if inputs.resume
        else (),
        cwd=inputs.folder,
        python_path=(locate_folder(inputs),),
    )


def _build_launcher(inputs: PlanInputs, gpus: int, uses_ray: bool) -> tuple[str, ...]:  # noqa: FBT001 - a fact of the recipe
    return (PLACE_PYTHON, "-m", inputs.recipe.entry.value) if uses_ray else build_torchrun(inputs, gpus)


def _build_ray_settings(inputs: PlanInputs, gpus: int) -> dict[str, Json]:
    """What follows from the machine and from the method; verl's own default parallelism does not fit one GPU."""
    model = find_model(inputs)
    settings: dict[str, Json] = {
        _MODEL: model,
        "trainer.n_gpus_per_node": gpus,
        "trainer.nnodes": inputs.nodes,
    }
    estimator = inputs.find(_ESTIMATOR)
    if estimator is not None:
        settings[_ESTIMATOR] = estimator
    if inputs.find(_PARALLEL) is None and gpus * inputs.nodes == 1:
        settings[_PARALLEL] = 1
    if inputs.recipe.options.get("critic"):
        critic = inputs.find("critic.model.path")
        settings["critic.model.path"] = locate_own(inputs, critic) if isinstance(critic, str) else model
    return settings


def _place(inputs: PlanInputs) -> PlacedData:
    for member, path in (("data.train", inputs.paths.train), ("data.validation", inputs.paths.validation)):
        files = inputs.find(_name_of_files(member))
        if path is not None and not files and not find_suffix(path, _SUFFIXES):
            raise LaunchRefused(
                f"{member} is {path.rpartition('/')[2]!r}, and verl reads parquet files",
                why="it takes neither JSON Lines in every version, nor a folder",
                next_step=f"convert it (pandas: read_json(…, lines=True).to_parquet(…)); of a folder, name the files"
                f" under {_name_of_files(member)}",
            )
    return place_data(inputs, _SUFFIXES)


def _build_data(inputs: PlanInputs, data: PlacedData, uses_ray: bool) -> dict[str, Json]:  # noqa: FBT001 - a fact of the recipe
    """Where the data lies. The trainers of Ray want validation data even if they never look at it."""
    settings: dict[str, Json] = {"data.train_files": _list_files(inputs, "data.train", data.train)}
    if data.validation is not None:
        return {**settings, "data.val_files": _list_files(inputs, "data.validation", data.validation)}
    test_freq = inputs.find(_TEST_FREQ)
    if test_freq is not None and test_freq != -1:
        raise LaunchRefused(
            f"{_TEST_FREQ} is {test_freq!r} and there is no validation data",
            next_step=f"name it under data.validation, or leave {_TEST_FREQ} out",
        )
    if not uses_ray:
        return settings
    return {**settings, "data.val_files": settings["data.train_files"], "trainer.val_before_train": False}


def _list_files(inputs: PlanInputs, member: str, path: str) -> Json:
    names = inputs.find(_name_of_files(member))
    return [f"{path}/{name}" for name in names] if isinstance(names, list) and names else [path]


def _name_of_files(member: str) -> str:
    return "train_files" if member == "data.train" else "val_files"
