"""Every form of the RayJob that is applied, as cases that an API server must take whole.

A test module makes them its own by importing `ManifestCases` into a class and giving a fixture `client`.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from e2e.support.kube.asking import KubeClient
from e2e.support.kube.status import Json
from server.tests.executors.kuberay.api_server import JOBS
from server.tests.executors.kuberay.documents import make_settings, request_of
from starforge.contract.launch import Mount, PoolRequest
from starforge_console.executors.kuberay.manifest import build_rayjob
from starforge_console.executors.kuberay.settings import Claim, SeriesRules, Toleration

_POOLS = (
    PoolRequest(name="actor", nodes=2, gpus_per_node=4, series="h200", cpus=8, memory_bytes=2 * 10**9),
    PoolRequest(name="rollout", nodes=3, gpus_per_node=1, cpus=4.5, memory_bytes=10**9),
)
_PRODUCTS = {"h200": ("NVIDIA-H200", "NVIDIA-H200-NVL")}
_TOLERATION = Toleration(key="team", operator="Equal", value="vision", effect="NoSchedule")
_RULES = SeriesRules(node_selector={"gpu": "h200"}, tolerations=(_TOLERATION,))
_ON_CLUSTER: dict[str, Any] = {
    "annotations": {"note": "of the team"},
    "labels": {"team": "vision"},
    "image_pull_secrets": ("registry", "mirror"),
    "service_account": "training",
    "queue": "team-a",
    "node_selector": {"pool": "training"},
    "tolerations": (_TOLERATION, Toleration(operator="Exists")),
    "gpu_resource": "example.com/gpu",
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one node": ({}, {}),
    "all that settings can say": ({}, _ON_CLUSTER),
    "pools and a series that nodes tell": ({"pools": _POOLS}, {}),
    "pools and a series by rules": ({"pools": _POOLS}, {"series": {"h200": _RULES}}),
    "a Ray of its own": ({"pools": _POOLS, "spans_ray": True}, {}),
    "a limit": ({"max_runtime_s": 60.0}, {}),
    "the image's own user": ({"user": None}, {}),
    "memory to share": ({"shm_bytes": 2**30}, {}),
    "no GPU": ({"pools": (replace(_POOLS[1], nodes=1, gpus_per_node=0),)}, {}),
}


class ManifestCases:
    @pytest.mark.parametrize("title", CASES)
    def test_what_is_applied_is_taken_whole(self, client: KubeClient, tmp_path: Path, title: str) -> None:
        asked, settings = CASES[title]
        request = request_of(tmp_path, **asked)
        data = Mount(str(tmp_path / "data"), "/data", read_only=True)
        models = Mount("/elsewhere/models", "/models", read_only=True)
        request = replace(request, mounts=(*request.mounts, data, models))
        claims = {str(tmp_path): Claim(name="shared"), "/elsewhere": Claim(name="models", path="all")}
        manifest = build_rayjob(request, make_settings(tmp_path, claims=claims, **settings), _PRODUCTS)
        query = {"fieldManager": "starforge", "force": "false", "fieldValidation": "Strict"}
        path = f"{JOBS}/{manifest['metadata']['name']}"
        assert client.apply(path, manifest, dryRun="All", **query).code == 201
        made = client.apply(path, manifest, **query)
        assert made.code == 201, made.body
        assert list(_list_lost(manifest["spec"], made.body["spec"], "spec")) == []
        again = client.apply(path, manifest, **query)
        assert (again.code, again.metadata["resourceVersion"]) == (200, made.metadata["resourceVersion"])


def _list_lost(ours: Json, theirs: Json, at: str) -> list[str]:
    """Where the server has not kept what was said."""
    if isinstance(ours, dict):
        return [
            lost for name, value in ours.items() for lost in _list_lost(value, (theirs or {}).get(name), f"{at}.{name}")
        ]
    if isinstance(ours, list):
        if not isinstance(theirs, list) or len(ours) != len(theirs):
            return [at]
        pairs = zip(ours, theirs, strict=True)
        return [lost for index, (a, b) in enumerate(pairs) for lost in _list_lost(a, b, f"{at}[{index}]")]
    return [] if ours == theirs else [at]
