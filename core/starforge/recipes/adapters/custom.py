"""The adapter of custom jobs: start `train.sh` in the experiment's folder and take what it reports."""

from typing import Final

from starforge.contract.capsule import Plan
from starforge.recipes.adapters.inputs import PlanInputs
from starforge.recipes.adapters.rules import build_checkpoint_rule, build_complete_rule, build_metric_sources

ENV_MODEL = "FORGE_MODEL"
ENV_TRAIN = "FORGE_TRAIN_DATA"
ENV_VALIDATION = "FORGE_VALIDATION_DATA"
ENV_START = "FORGE_INIT_FROM"
PORTS: Final = {"MASTER_PORT": 0, "PET_MASTER_PORT": 1, "DLTS_MASTER_PORT": 2}
"""What torch, torchrun and DeepSpeed's launcher read: without it each of them takes one fixed port."""


def build_plan(inputs: PlanInputs) -> Plan:
    """The plan of a custom job. Pure.

    The script finds its inputs in FORGE_MODEL, FORGE_TRAIN_DATA, FORGE_VALIDATION_DATA and FORGE_INIT_FROM, each unset
    where the job has none, and the newest committed checkpoint, where the attempt was given one, in FORGE_RESUME_FROM.
    On the host's network the ports from FORGE_PORT_BASE on are its own.
    """
    paths = inputs.paths
    named = {ENV_MODEL: paths.model, ENV_TRAIN: paths.train, ENV_VALIDATION: paths.validation, ENV_START: paths.start}
    return Plan(
        argv=("bash", inputs.recipe.entry.value),
        env={name: path for name, path in named.items() if path is not None},
        cwd=inputs.folder,
        metric_sources=build_metric_sources(inputs),
        checkpoint=build_checkpoint_rule(inputs),
        complete=build_complete_rule(inputs),
        ports=dict(PORTS),
    )
