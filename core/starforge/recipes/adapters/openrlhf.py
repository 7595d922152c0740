"""The adapter of OpenRLHF: its programs with their flags, under torchrun or as the driver of Ray."""

from dataclasses import replace
from typing import Final

from starforge.contract.canonical import Json
from starforge.contract.capsule import (
    PLACE_CKPT,
    PLACE_OUT,
    PLACE_PYTHON,
    PLACE_RESUME_STEP,
    PLACE_WORK,
    CheckpointRule,
    Plan,
    ResumeMirror,
)
from starforge.errors import LaunchRefused
from starforge.recipes.adapters.inputs import PlanInputs
from starforge.recipes.adapters.materials import (
    OFFLINE,
    build_torchrun,
    count_gpus,
    find_model,
    list_own_files,
    locate_folder,
    place_data,
)
from starforge.recipes.adapters.overrides import flatten_extra
from starforge.recipes.adapters.rules import build_checkpoint_rule, build_complete_rule, build_metric_sources
from starforge.recipes.adapters.settings_file import split_extra
from starforge.runner.versions import is_in_range

_SUFFIXES: Final = (".jsonl", ".json", ".csv", ".parquet", ".arrow")
_TENSORBOARD: Final = f"{PLACE_WORK}/starforge-run/tensorboard"
_TAG: Final = f"global_step{PLACE_RESUME_STEP}"
_ENVIRONMENT: Final = {**OFFLINE, "TOKENIZERS_PARALLELISM": "true"}
_WITHOUT_DOTS: Final = "<0.10"
_OLD_NAMES: Final = {
    "model.model_name_or_path": "pretrain",
    "actor.model_name_or_path": "pretrain",
    "data.dataset": "dataset",
    "data.prompt_dataset": "prompt_data",
    "eval.dataset": "eval_dataset",
    "ckpt.output_dir": "save_path",
    "ckpt.path": "ckpt_path",
    "ckpt.load_enable": "load_checkpoint",
    "logger.tensorboard_dir": "use_tensorboard",
    "logger.wandb.run_name": "wandb_run_name",
}
_ENGINES: Final = "vllm.num_engines"


def build_plan(inputs: PlanInputs) -> Plan:
    """The plan of one attempt. Pure.

    OpenRLHF goes on from its own checkpoint folder alone, so the committed checkpoint is mirrored there.

    Raises:
        LaunchRefused: no GPU, model or data is there, the parts of a job do not fit onto its GPUs, or `extra` holds
            what it must not.

    """
    gpus = count_gpus(inputs)
    uses_ray = bool(inputs.recipe.options.get("ray"))
    settings, extra = split_extra(inputs)
    extra = {name.lstrip("+"): value for name, value in flatten_extra(inputs.recipe, extra).items()}
    data = place_data(inputs, _SUFFIXES)
    owned = {
        "actor.model_name_or_path" if uses_ray else "model.model_name_or_path": find_model(inputs),
        "data.prompt_dataset" if uses_ray else "data.dataset": data.train,
        "eval.dataset": data.validation,
        "ckpt.output_dir": f"{PLACE_OUT}/model",
        "ckpt.path": PLACE_CKPT,
        "logger.tensorboard_dir": _TENSORBOARD,
        "logger.wandb.run_name": "run",
    }
    settings |= {_name(inputs, name): value for name, value in owned.items()}
    settings |= list_own_files(inputs) | (_spread(inputs, gpus) if uses_ray else {})
    return Plan(
        argv=(*_build_launcher(inputs, gpus, uses_ray), *_build_flags(settings), *_build_flags(extra)),
        env=dict(_ENVIRONMENT),
        links=data.links,
        metric_sources=build_metric_sources(inputs),
        checkpoint=_build_checkpoint_rule(inputs, gpus),
        complete=build_complete_rule(inputs),
        resume=(f"--{_name(inputs, 'ckpt.load_enable')}",) if inputs.resume else (),
        cwd=inputs.folder,
        python_path=(locate_folder(inputs),),
        resume_mirror=_build_mirror(inputs, uses_ray) if inputs.resume else None,
    )


def _build_launcher(inputs: PlanInputs, gpus: int, uses_ray: bool) -> tuple[str, ...]:  # noqa: FBT001 - a fact of the recipe
    return (PLACE_PYTHON, "-m", inputs.recipe.entry.value) if uses_ray else build_torchrun(inputs, gpus)


def _build_flags(settings: dict[str, Json]) -> tuple[str, ...]:
    """As argparse takes them, sorted. What is null or false is left out: a flag without a value is true."""
    flags: list[str] = []
    for name in sorted(settings):
        value = settings[name]
        if isinstance(value, list):
            flags += [f"--{name}", *(str(item) for item in value)]
        elif value is True:
            flags.append(f"--{name}")
        elif value is not None and value is not False:
            flags.append(f"--{name}={value}")
    return tuple(flags)


def _name(inputs: PlanInputs, name: str) -> str:
    """A flag that the platform sets, as the version spells it."""
    has_dots = not is_in_range(inputs.runtime.version or "", _WITHOUT_DOTS)
    return name if has_dots else _OLD_NAMES[name]


def _spread(inputs: PlanInputs, gpus: int) -> dict[str, Json]:
    """Every model on every GPU unless it was placed by hand; engines that fill them where all share."""
    settings: dict[str, Json] = {}
    for parameter in inputs.recipe.parameters:
        owner, _, what = parameter.name.rpartition(".")
        if what in {"num_nodes", "num_gpus_per_node"} and owner:
            set_by_hand = inputs.find(parameter.name)
            whole = inputs.nodes if what == "num_nodes" else gpus
            settings[parameter.path] = whole if set_by_hand is None else set_by_hand
    path = next(one.path for one in inputs.recipe.parameters if one.name == _ENGINES)
    estimator = "algo.advantage.estimator"
    settings[next(one.path for one in inputs.recipe.parameters if one.name == estimator)] = inputs.find(estimator)
    if inputs.find(_ENGINES) is None:
        settings[path] = _count_engines(inputs, gpus)
    return settings


def _count_engines(inputs: PlanInputs, gpus: int) -> int:
    width = inputs.find("vllm.tensor_parallel_size")
    if not inputs.find("train.colocate_all") or inputs.find("train.async_enable") or not isinstance(width, int):
        raise LaunchRefused(
            f"{_ENGINES} is not set", why="the engines do not share all GPUs", next_step="say how many there are to be"
        )
    engines, rest = divmod(gpus * inputs.nodes, width)
    if rest:
        raise LaunchRefused(
            f"vllm.tensor_parallel_size is {width} and there are {gpus * inputs.nodes} GPUs",
            next_step="choose a size that divides them",
        )
    return engines


def _build_checkpoint_rule(inputs: PlanInputs, gpus: int) -> CheckpointRule:
    """The recipe's, and for versions without metric.json a file of each GPU, where their names are known."""
    rule = build_checkpoint_rule(inputs)
    if not is_in_range(inputs.runtime.version or "", _WITHOUT_DOTS):
        return rule
    names = tuple(name for name in rule.complete if name != "metric.json")
    is_plain = inputs.find("ds.tensor_parallel_size") == 1 and inputs.find("ds.ring_attn_size") == 1
    if not is_plain or inputs.find("ds.zero_stage") == 0:
        return replace(rule, complete=names)
    each, nodes = inputs.find("actor.num_gpus_per_node"), inputs.find("actor.num_nodes")
    ranks = (each if isinstance(each, int) else gpus) * (nodes if isinstance(nodes, int) else inputs.nodes)
    states = tuple(f"*zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(ranks))
    return replace(rule, complete=(*names, *states))


def _build_mirror(inputs: PlanInputs, uses_ray: bool) -> ResumeMirror:  # noqa: FBT001 - a fact of the recipe
    if not uses_ray:
        return ResumeMirror(directory=_TAG, files={"latest": _TAG})
    files = {"_actor/latest": _TAG}
    if inputs.find("algo.advantage.estimator") != "gae":
        return ResumeMirror(directory=f"_actor/{_TAG}", files=files)
    return ResumeMirror(
        directory=f"_actor/{_TAG}",
        files={**files, "_critic/latest": _TAG},
        also=(f"_critic/{_TAG}",),
    )
