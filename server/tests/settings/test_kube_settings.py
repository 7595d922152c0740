"""The settings of a Kubernetes cluster, and the file that says what pods get there."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from starforge_console.errors import SettingsError
from starforge_console.settings.kube import KubeSettings, PodFile, load_pod_file

WHOLE = {"kube_config": "/etc/kubeconfig", "kube_namespace": "training", "kube_claim": "storage"}
FILE = """\
node_selector: {pool: gpu}
tolerations:
  - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
claims:
  /data: {claim: team-data, path: sets/2026}
series:
  h200:
    node_selector: {nvidia.com/gpu.product: NVIDIA-H200}
"""


def build(**changes: Any) -> KubeSettings:
    return KubeSettings(**{name: value for name, value in (WHOLE | changes).items() if value is not None})


def test_what_is_whole_is_taken_and_without_an_address_there_is_no_cluster() -> None:
    assert build().is_set
    assert build(kube_config=None, kube_in_cluster=True).is_set
    assert not KubeSettings().is_set


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"kube_config": "kubeconfig"}, "must be an absolute path"),
        ({"kube_in_cluster": True}, "FORGE_KUBE_IN_CLUSTER, not both"),
        ({"kube_namespace": None}, "FORGE_KUBE_NAMESPACE"),
        ({"kube_namespace": "Training"}, "pattern"),
        ({"kube_claim": None}, "FORGE_KUBE_CLAIM"),
        ({"kube_claim_path": "/abs"}, "inside of the volume"),
        ({"kube_gpu_resource": "gpu"}, "pattern"),
        ({"kube_pull_secrets": "one,two"}, "pattern"),
        ({"kube_timeout_s": 0}, "greater than 0"),
    ],
)
def test_what_is_missing_or_too_much_is_said(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        build(**changes)


def test_the_file_says_what_pods_get_and_where_series_are(tmp_path: Path) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(FILE)
    found = load_pod_file(build(kube_pod_file=str(path)))
    assert found.node_selector == {"pool": "gpu"}
    assert [(one.key, one.operator, one.effect) for one in found.tolerations] == [
        ("nvidia.com/gpu", "Exists", "NoSchedule")
    ]
    assert (found.claims["/data"].claim, found.claims["/data"].path) == ("team-data", "sets/2026")
    assert found.series["h200"].node_selector == {"nvidia.com/gpu.product": "NVIDIA-H200"}
    assert load_pod_file(build()) == PodFile()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("node_selectors: {}\n", "node_selectors"),
        ("tolerations: [{operator: Maybe}]\n", r"tolerations\.0\.operator"),
        ("tolerations: [{key: a, operator: Exists, value: b}]\n", r"tolerations\.0: .*takes no value"),
        ("series: {h200: {tolerations: [{effect: NoSchedule}]}}\n", r"series\.h200\.tolerations\.0: .*needs a key"),
        ("claims: {data: {claim: x}}\n", "absolute folder"),
        ("claims: {/data: {claim: x, path: ../y}}\n", "inside of the volume"),
        ("series: {h200: {node_selector: {a: 1}}}\n", r"series\.h200\.node_selector\.a"),
        ("- a\n", "pods.yaml"),
        ("a: [\n", r"pods.yaml:\d"),
    ],
)
def test_a_file_that_says_what_it_may_not_is_refused_with_the_place(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=says):
        load_pod_file(build(kube_pod_file=str(path)))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        load_pod_file(build(kube_pod_file=str(tmp_path / "none")))
