"""The adapter of benchmarks: lm-evaluation-harness with one file of settings, one copy of the model a GPU."""

from typing import Final

from starforge.contract.capsule import PLACE_OUT, PLACE_PYTHON, PLACE_WORK, Plan
from starforge.errors import LaunchRefused
from starforge.recipes.adapters.inputs import PlanInputs
from starforge.recipes.adapters.materials import OFFLINE
from starforge.recipes.adapters.rules import build_checkpoint_rule, build_complete_rule, build_metric_sources
from starforge.recipes.adapters.settings_file import dump_settings, split_extra

SETTINGS_FILE: Final = "starforge-run/lm_eval.yaml"
_ENVIRONMENT: Final = {**OFFLINE, "TOKENIZERS_PARALLELISM": "false"}


def build_plan(inputs: PlanInputs) -> Plan:
    """The plan of one attempt. Pure.

    lm_eval refuses a key of its file that it does not know. Results come in one file at the end, so an interrupted
    attempt starts over.

    Raises:
        LaunchRefused: there is no model, or `extra` holds what it must not.

    """
    model = inputs.paths.start or inputs.paths.model
    if model is None:
        raise LaunchRefused(f"{inputs.recipe.name} has no model to look at", next_step="name one under model:")
    settings, extra = split_extra(inputs)
    settings |= extra
    model_args = settings.get("model_args")
    settings |= {
        "model": inputs.find("model"),
        "model_args": {**(model_args if isinstance(model_args, dict) else {}), "pretrained": model},
        "device": "cuda" if inputs.gpus_per_node else "cpu",
        "output_path": f"{PLACE_OUT}/lm_eval",
    }
    return Plan(
        argv=(*_build_launcher(inputs), "run", "--config", f"{PLACE_WORK}/{SETTINGS_FILE}"),
        env=dict(_ENVIRONMENT),
        files={SETTINGS_FILE: dump_settings(settings)},
        metric_sources=build_metric_sources(inputs),
        checkpoint=build_checkpoint_rule(inputs),
        complete=build_complete_rule(inputs),
        cwd=inputs.folder,
    )


def _build_launcher(inputs: PlanInputs) -> tuple[str, ...]:
    if inputs.nodes > 1:
        raise LaunchRefused(f"{inputs.recipe.name} evaluates on one node", next_step="choose a profile of one node")
    copies = _count_copies(inputs)
    module = inputs.recipe.entry.value
    if copies == 1:
        return (PLACE_PYTHON, "-m", module)
    # What accelerate launch starts for several GPUs; unlike it, also without one.
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(copies))
    return (PLACE_PYTHON, *launcher, "-m", module)


def _count_copies(inputs: PlanInputs) -> int:
    set_by_hand = inputs.find("nproc_per_node")
    if isinstance(set_by_hand, int):
        return set_by_hand
    model_args = inputs.find("model_args")
    spreads = isinstance(model_args, dict) and bool(model_args.get("parallelize"))
    return max(inputs.gpus_per_node, 1) if inputs.find("model") == "hf" and not spreads else 1
