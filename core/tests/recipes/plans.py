"""A job of a built-in method, and the plan that its adapter makes of it."""

from pydantic import JsonValue

from starforge.contract.capsule import Plan
from starforge.contract.jobspec import JobSpec, parse_jobspec
from starforge.recipes.adapters import build_plan
from starforge.recipes.adapters.inputs import InputPaths, PlanInputs
from starforge.recipes.catalog import load_method
from starforge.recipes.faults import Place
from starforge.recipes.hyperparameters import build_facts, check_rules

DIGEST = "sha256:" + "0" * 64
INPUTS = InputPaths(model="/inputs/model", train="/inputs/data/train.jsonl")


def build_spec(method: str, version: str, gpus: int, hyperparameters: dict[str, JsonValue], nodes: int = 1) -> JobSpec:
    """A job that was submitted from `experiments/first`."""
    return parse_jobspec(
        {
            "metadata": {"name": "first", "project": "demo"},
            "spec": {
                "recipe": {"name": method, "version": "1", "digest": DIGEST},
                "framework": {"kind": "demo", "image": "demo:1", "version": version},
                "resources": {"pools": [{"gpus_per_node": gpus, "nodes": nodes}]},
                "hyperparameters": hyperparameters,
                "entry": {"kind": "experiment", "value": "experiments/first"},
                "workspace": {"digest": DIGEST, "bytes": 1, "files": 1},
            },
        }
    )


def plan_of(  # noqa: PLR0913 - what differs from one test to another
    method: str,
    hyperparameters: dict[str, JsonValue],
    *,
    version: str = "",
    gpus: int = 0,
    nodes: int = 1,
    paths: InputPaths = INPUTS,
) -> Plan:
    """The plan of an attempt that may go on from a checkpoint, of the newest version unless one is named."""
    recipe = load_method(method)
    version = version or recipe.framework_versions[0]
    runtime = recipe.find_version(version)
    assert runtime is not None
    spec = build_spec(method, version, gpus, hyperparameters, nodes)
    return build_plan(PlanInputs(recipe=recipe.at(version), runtime=runtime, spec=spec, paths=paths, resume=True))


def broken_rules(
    method: str, hyperparameters: dict[str, JsonValue], *, version: str = "", gpus: int = 1, nodes: int = 1
) -> list[str]:
    """What the method's rules say to `hyperparameters`; `gpus` are those of all nodes."""
    recipe = load_method(method)
    at = recipe.at(version or recipe.framework_versions[0])
    facts = build_facts(at, hyperparameters, gpus, nodes)
    return [fault.message for fault in check_rules(at, hyperparameters, facts, Place("config.yaml"))]
