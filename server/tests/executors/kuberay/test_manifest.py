"""What is applied, whole: a RayJob of one node, and what pools, series, limits and mounts change of it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from server.tests.executors.kuberay.documents import ONE_NODE, make_settings, request_of
from starforge.contract.launch import LaunchRequest, Mount, PoolRequest
from starforge.errors import LaunchRefused
from starforge_console.executors.kuberay.launching import describe
from starforge_console.executors.kuberay.manifest import build_rayjob, build_secret, find_workdir
from starforge_console.executors.kuberay.settings import Claim, SeriesRules, Toleration

POOLS = (
    PoolRequest(name="actor", nodes=2, gpus_per_node=4, series="h200", cpus=8, memory_bytes=2 * 10**9),
    PoolRequest(name="rollout", nodes=3, gpus_per_node=1, cpus=4, memory_bytes=10**9),
)
PRODUCTS = {"h200": ("NVIDIA-H200",), "h200-nvl": ("NVIDIA-H200-NVL",), "h100-sxm": ("NVIDIA-H100-80GB-HBM3",)}


def build(root: Path, request: LaunchRequest, products: dict[str, Any] | None = None, **settings: Any) -> Any:
    return build_rayjob(request, make_settings(root, **settings), products or {})


def pod_spec(manifest: Any, group: int | None = None) -> Any:
    """The spec of the head's pod, or of a worker group's."""
    cluster = manifest["spec"]["rayClusterSpec"]
    template = cluster["headGroupSpec"] if group is None else cluster["workerGroupSpecs"][group]
    return template["template"]["spec"]


def expect_env(request: LaunchRequest) -> list[dict[str, Any]]:
    values = {
        "A": "b c",
        "FORGE_ATTEMPT": request.attempt,
        "FORGE_CAPSULE_DIGEST": request.capsule_digest,
        "FORGE_INGEST_URL": request.ingest_url,
        "FORGE_OTHER_NODES": "0",
        "FORGE_POOL_INDEX": "0",
        "FORGE_PORT_BASE": "24000",
        "FORGE_SECRETS_DIR": "/run/starforge",
        "HOME": request.workdir,
        "RAY_JOB_STOP_WAIT_TIME_S": "50",
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    fields = {"FORGE_POD_UID": "metadata.uid", "FORGE_POD_NAME": "metadata.name", "FORGE_POD_IP": "status.podIP"}
    return [
        *({"name": name, "value": value} for name, value in values.items()),
        *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()),
    ]


def expect_head(request: LaunchRequest, labels: dict[str, str]) -> dict[str, Any]:
    amounts = {"cpu": "3500m", "memory": "8000000000", "nvidia.com/gpu": "2"}
    entry = f"{request.workdir}/.kuberay/entry.sh"
    return {
        "metadata": {"labels": {**labels, "forge.pool": "main", "forge.part": "head"}},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"runAsUser": 1000, "runAsGroup": 1000},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 50,
            "containers": [
                {
                    "name": "ray-head",
                    "image": request.image,
                    "env": expect_env(request),
                    "resources": {"requests": amounts, "limits": amounts},
                    "lifecycle": {"preStop": {"exec": {"command": ["bash", entry, "leave"]}}},
                    "volumeMounts": [
                        {"name": "claim-0", "mountPath": request.workdir, "subPath": request.attempt},
                        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - by that name programs know it
                        {"name": "secrets", "mountPath": "/run/starforge", "readOnly": True},
                    ],
                }
            ],
            "volumes": [
                {"name": "claim-0", "persistentVolumeClaim": {"claimName": "shared"}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "4000000000"}},
                {"name": "secrets", "secret": {"secretName": f"starforge-{request.attempt}", "defaultMode": 0o444}},
            ],
        },
    }


def expect_submitter(request: LaunchRequest, labels: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": "ray-job-submitter",
        "image": request.image,
        "env": [{"name": "HOME", "value": "/tmp"}],  # noqa: S108 - in a pod that holds nothing
        "resources": {"requests": {"cpu": "200m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    }
    return {
        "metadata": {"labels": {**labels, "forge.part": "submitter"}},
        "spec": {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {"runAsUser": 1000, "runAsGroup": 1000},
            "restartPolicy": "Never",
            "containers": [container],
        },
    }


def test_a_job_of_one_node(tmp_path: Path) -> None:
    request = request_of(tmp_path, max_runtime_s=600, grace_s=30)
    name = f"starforge-{request.attempt}"
    labels = {
        "forge.install": "lab",
        "forge.fleet": "cluster",
        "forge.job": request.job,
        "forge.attempt": request.attempt,
    }
    assert build(tmp_path, request) == {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name, "namespace": "training", "labels": labels},
        "spec": {
            "entrypoint": f"bash {request.workdir}/.kuberay/entry.sh",
            "jobId": name,
            "submissionMode": "K8sJobMode",
            "backoffLimit": 0,
            "submitterConfig": {"backoffLimit": 0},
            "shutdownAfterJobFinishes": True,
            "ttlSecondsAfterFinished": 0,
            "activeDeadlineSeconds": 4250,
            "submitterPodTemplate": expect_submitter(request, labels),
            "rayClusterSpec": {
                "headGroupSpec": {
                    "rayStartParams": {"dashboard-host": "0.0.0.0", "num-cpus": "3", "num-gpus": "2"},  # noqa: S104 - in a pod
                    "template": expect_head(request, labels),
                },
                "workerGroupSpecs": [],
            },
        },
    }
    assert len(name) <= 47


def test_the_head_is_the_first_node_and_every_other_node_a_worker(tmp_path: Path) -> None:
    manifest = build(tmp_path, request_of(tmp_path, pools=POOLS), PRODUCTS)
    cluster = manifest["spec"]["rayClusterSpec"]
    groups = [
        (group["groupName"], group["replicas"], group["minReplicas"], group["maxReplicas"])
        for group in cluster["workerGroupSpecs"]
    ]
    assert groups == [("pool-0", 1, 1, 1), ("pool-1", 3, 3, 3)]
    assert cluster["headGroupSpec"]["rayStartParams"]["num-gpus"] == "4"
    assert pod_spec(manifest, 1)["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"
    env = {one["name"]: one.get("value") for one in pod_spec(manifest, 1)["containers"][0]["env"]}
    assert (env["FORGE_POOL_INDEX"], env["FORGE_OTHER_NODES"]) == ("1", "4")


def test_nodes_of_a_pool_are_machines_of_their_own(tmp_path: Path) -> None:
    manifest = build(tmp_path, request_of(tmp_path, pools=POOLS), PRODUCTS)
    (term,) = pod_spec(manifest, 1)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"]["forge.pool"] == "rollout"
    assert "affinity" not in pod_spec(build(tmp_path, request_of(tmp_path)))


def test_a_series_finds_its_nodes_by_what_they_tell_or_by_the_settings(tmp_path: Path) -> None:
    request = request_of(tmp_path, pools=(replace(ONE_NODE[0], series="h200"),))

    def terms(products: dict[str, Any], **settings: Any) -> Any:
        spec = pod_spec(build(tmp_path, request, products, **settings))
        required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        return required["nodeSelectorTerms"], spec["tolerations"]

    told, _ = terms({"h200": PRODUCTS["h200"]})
    label = "nvidia.com/gpu.product"
    assert told == [{"matchExpressions": [{"key": label, "operator": "In", "values": ["NVIDIA-H200"]}]}]
    rules = SeriesRules(node_selector={"pool": "big"}, tolerations=(Toleration(key="big", effect="NoSchedule"),))
    named, tolerated = terms({}, series={"h200": rules})
    assert named == [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["big"]}]}]
    assert tolerated[-1] == {"key": "big", "operator": "Equal", "effect": "NoSchedule"}


def test_a_series_that_nothing_in_the_cluster_has_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(LaunchRefused, match="nothing in the cluster is known to be h200"):
        build(tmp_path, request_of(tmp_path, pools=POOLS))


def test_what_the_settings_say_of_all_pods(tmp_path: Path) -> None:
    manifest = build(
        tmp_path,
        request_of(tmp_path, user=None),
        image_pull_secrets=("login",),
        service_account="trainer",
        queue="team-a",
        node_selector={"zone": "b"},
        labels={"team": "a"},
        annotations={"owner": "a@b"},
    )
    assert manifest["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    assert manifest["metadata"]["annotations"] == {"owner": "a@b"}
    for spec in (pod_spec(manifest), manifest["spec"]["submitterPodTemplate"]["spec"]):
        assert spec["imagePullSecrets"] == [{"name": "login"}]
        assert spec["serviceAccountName"] == "trainer"
        assert spec["nodeSelector"] == {"zone": "b"}
        assert "securityContext" not in spec
    assert "activeDeadlineSeconds" not in manifest["spec"]
    assert manifest["metadata"]["labels"]["team"] == "a"


class TestMounts:
    """Which part of which claim stands for a folder of the console's."""

    def build(self, root: Path, *mounts: Mount, **claims: Claim) -> Any:
        request = request_of(root)
        request = replace(request, mounts=(*request.mounts, *mounts))
        known = {str(root): Claim(name="shared", path="/forge/"), **{f"/{name}": one for name, one in claims.items()}}
        return pod_spec(build(root, request, claims=known))

    def test_the_claim_of_the_deepest_folder_counts(self, tmp_path: Path) -> None:
        below = Claim(name="fast")
        spec = self.build(
            tmp_path, Mount("/data/a/b", "/in", read_only=True), data=Claim(name="d"), **{"data/a": below}
        )
        names = {one["name"]: one["persistentVolumeClaim"]["claimName"] for one in spec["volumes"][:2]}
        mounts = {one["mountPath"]: one for one in spec["containers"][0]["volumeMounts"]}
        assert names[mounts["/in"]["name"]] == "fast"
        assert mounts["/in"] == {"name": mounts["/in"]["name"], "mountPath": "/in", "subPath": "b", "readOnly": True}

    def test_a_claim_may_hold_the_folder_below_a_path_of_its_own(self, tmp_path: Path) -> None:
        spec = self.build(tmp_path, Mount(str(tmp_path), "/all", read_only=True))
        paths = {one["mountPath"]: one.get("subPath") for one in spec["containers"][0]["volumeMounts"]}
        assert paths["/all"] == "forge"
        assert str(paths[next(path for path in paths if path.startswith(str(tmp_path)))]).startswith("forge/j")

    def test_a_folder_of_no_claim_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(LaunchRefused, match="/elsewhere lies in no volume claim"):
            self.build(tmp_path, Mount("/elsewhere", "/in", read_only=True))

    def test_a_directory_that_nothing_mounts_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(LaunchRefused, match="nothing is mounted at the attempt's directory"):
            build(tmp_path, request_of(tmp_path, mounts=()))

    def test_a_directory_that_a_shell_would_take_apart_is_refused(self, tmp_path: Path) -> None:
        request = replace(request_of(tmp_path), workdir=f"{tmp_path}/a b")
        with pytest.raises(LaunchRefused, match="cannot be named to Ray"):
            build(tmp_path, replace(request, mounts=(Mount(request.workdir, request.workdir, read_only=False),)))


def test_no_secret_is_in_the_manifest_or_in_what_is_shown(tmp_path: Path) -> None:
    request = request_of(tmp_path)
    manifest = build(tmp_path, request)
    secret = build_secret(request, make_settings(tmp_path), "job-1")
    assert secret["data"] == {"TOKEN": "czNjcmV0"}
    assert secret["metadata"]["ownerReferences"][0]["uid"] == "job-1"
    shown = describe(request, manifest)
    assert shown.startswith("apiVersion: ray.io/v1\n")
    assert "#!/bin/bash" in shown
    for text in (str(manifest), shown):
        assert "s3cret" not in text
        assert "czNjcmV0" not in text


def test_an_entrypoint_tells_the_directory_that_it_was_made_from(tmp_path: Path) -> None:
    request = request_of(tmp_path)
    assert find_workdir(build(tmp_path, request)["spec"]["entrypoint"]) == request.workdir
    assert find_workdir("python train.py") == ""
