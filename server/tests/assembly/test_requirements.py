"""What the image and the machine must offer before a training process starts."""

from pathlib import Path
from typing import Any

import pytest

from server.tests.assembly.support import ATTEMPT, INGEST_URL, SPEC
from starforge.contract.capsule import Ingest, Requirement, Requirements
from starforge.contract.jobspec import JobSpec, parse_jobspec
from starforge.contract.launch import Network
from starforge.recipes.catalog import load_method
from starforge.recipes.model import Recipe
from starforge_console.assembly.build import Placed, build_capsule, needs_ray
from starforge_console.assembly.layout import StorageLayout

PLACED = Placed(
    attempt=ATTEMPT,
    install="i",
    fleet="here",
    network=Network.BRIDGE,
    user=None,
    ingest=Ingest(INGEST_URL),
    out=Path("/storage/runs/j/out"),
)


def requirements_of(method: str, *pools: dict[str, Any]) -> Requirements:
    recipe, spec = build_job(method, *pools)
    return build_capsule(spec, recipe, PLACED, StorageLayout(Path("/storage"))).requirements


def build_job(method: str, *pools: dict[str, Any]) -> tuple[Recipe, JobSpec]:
    recipe = load_method(method)
    version = recipe.framework_versions[0] if recipe.framework_versions else None
    framework = {"kind": recipe.framework, "image": "registry.test/train:1", "version": version}
    members: dict[str, Any] = {
        "recipe": {**SPEC["spec"]["recipe"], "name": method},
        "framework": framework,
        "model": "models/tiny",
        "hyperparameters": {},
        "data": {"train": "data/train.jsonl"},
        "resources": {"pools": [{"name": f"p{number}", **pool} for number, pool in enumerate(pools)]},
    }
    submitted: dict[str, Any] = {**SPEC, "spec": {**SPEC["spec"], **members}}
    return recipe, parse_jobspec(submitted)


@pytest.mark.parametrize(
    ("method", "pools", "gpus"),
    [
        ("trl/sft", [{"gpus_per_node": 4}], 4),
        ("trl/sft", [{"gpus_per_node": 0}], None),
        ("evalkit/benchmark", [{"gpus_per_node": 1}], 1),
        ("trl/sft", [{"gpus_per_node": 8}, {"gpus_per_node": 4}], None),
        ("custom/custom", [{"gpus_per_node": 2}], None),
    ],
)
def test_a_frameworks_job_starts_only_where_it_sees_its_gpus(
    method: str, pools: list[dict[str, Any]], gpus: int | None
) -> None:
    assert requirements_of(method, *pools).gpus == gpus


def test_the_image_must_hold_the_frameworks_version() -> None:
    needs = requirements_of("trl/sft", {"gpus_per_node": 0})
    assert needs.python == ">=3.11"
    assert Requirement("trl", ">=1.16,<1.17") in needs.modules


@pytest.mark.parametrize(
    ("method", "nodes", "spans"), [("verl/grpo", 2, True), ("verl/grpo", 1, False), ("trl/sft", 2, False)]
)
def test_ray_spans_the_nodes_of_a_framework_that_drives_it(method: str, nodes: int, spans: bool) -> None:  # noqa: FBT001 - what is expected
    recipe, spec = build_job(method, {"gpus_per_node": 8, "nodes": nodes})
    assert needs_ray(spec, recipe) == spans
