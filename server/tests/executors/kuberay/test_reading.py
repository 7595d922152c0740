"""What documents and replies of the API server mean: amounts, capacity, refusals, and everything that is no answer."""

from pathlib import Path
from typing import Any

import pytest

from server.tests.executors.kuberay.documents import ATTEMPT, OTHER, make_settings, node, own_labels, pod_document
from starforge.contract.executor import GpuState, NodeView
from starforge.contract.launch import PoolRequest
from starforge.errors import LaunchRefused, NoCapacity, StarForgeError
from starforge_console.executors.kuberay.decode import MOST_GPUS, Document, parse_quantity, read_pod
from starforge_console.executors.kuberay.native import NativeNode
from starforge_console.executors.kuberay.refusals import explain_refusal
from starforge_console.executors.kuberay.replies import Expired, KubeRefused, KubeSilent, check_read, check_write
from starforge_console.executors.kuberay.series import PRODUCT, Naming
from starforge_console.executors.kuberay.settings import GPU_RESOURCE, SeriesRules, Toleration
from starforge_console.executors.kuberay.viewing import Listing, build_view
from starforge_console.executors.reserving import Waiting, reserve


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("2", 2),
        (4, 4),
        ("500m", 0.5),
        ("1.5", 1.5),
        ("1Ki", 1024),
        ("64Gi", 64 * 1024**3),
        ("1G", 10**9),
        ("1e3", 1000),
        ("2E", 2 * 10**18),
        ("100n", 1e-7),
        ("", 0),
        ("many", 0),
        (None, 0),
        ("1.2.3", 0),
        ("1e999999", 0),
        ("9e999999k", 0),
    ],
)
def test_an_amount_is_read_in_each_notation(text: object, number: float) -> None:
    assert parse_quantity(text) == pytest.approx(number)


def test_a_pod_that_asks_for_more_gpus_than_there_are_anywhere_is_counted_within_bounds() -> None:
    asked = read_pod(pod_document("greedy", gpus=10**15), GPU_RESOURCE).asks
    assert asked.gpus == MOST_GPUS


def test_a_pod_asks_for_all_its_containers_at_once_or_for_the_largest_before_them() -> None:
    def container(cpu: str, **more: Any) -> Document:
        return {"resources": {"requests": {"cpu": cpu}, "limits": {"memory": "1Gi"}}, **more}

    spec = {
        "containers": [container("1"), container("2")],
        "initContainers": [container("8"), container("500m", restartPolicy="Always")],
        "overhead": {"cpu": "250m"},
    }
    asks = read_pod({"spec": spec}, GPU_RESOURCE).asks
    assert asks.cpus == pytest.approx(8.25)
    assert asks.memory_bytes == 3 * 1024**3


def series_of(name: str) -> str | None:
    return {"NVIDIA H200": "h200"}.get(name)


def view_of(root: Path, nodes: list[NativeNode], *pods: Document, missing: str = "", **settings: Any) -> list[NodeView]:
    read = [read_pod(document, GPU_RESOURCE) for document in pods]
    whole = make_settings(root, **settings)
    view = build_view(
        Listing(nodes=nodes, pods=read, missing=missing),
        {one.uid for one in read if one.install == "lab"},
        whole,
        Naming(rules=whole.series, series_of=series_of),
    )
    assert view.complete is not bool(missing)
    return list(view.nodes)


class TestCapacity:
    """What nodes have, less what pods on them ask for."""

    def test_pods_of_ours_hold_gpus_and_strangers_pods_have_others(self, tmp_path: Path) -> None:
        ours = pod_document("a", gpus=1, labels=own_labels())
        (view,) = view_of(tmp_path, [node(labels={PRODUCT: "NVIDIA-H200"})], ours, pod_document("b", gpus=2))
        held = (GpuState.HELD, ATTEMPT)
        foreign, free = (GpuState.FOREIGN, None), (GpuState.FREE, None)
        assert [(gpu.state, gpu.attempt) for gpu in view.gpus] == [held, free, foreign, foreign]
        assert (view.gpus[0].uuid, view.gpus[0].series) == ("n1/gpu/0", "h200")
        assert view.held == {ATTEMPT: (0.5, 1024**3)}
        assert (view.cpus, view.memory_bytes) == (32.0, 64 * 1024**3)

    def test_what_comes_with_a_node_is_nobodys_to_have(self, tmp_path: Path) -> None:
        (view,) = view_of(tmp_path, [node()], pod_document("exporter", owner="DaemonSet"))
        assert (view.cpus, view.memory_bytes) == (31.5, 63 * 1024**3)

    def test_what_has_ended_or_has_no_node_holds_nothing(self, tmp_path: Path) -> None:
        ended = pod_document("a", gpus=1, phase="Succeeded")
        (view,) = view_of(tmp_path, [node()], ended, pod_document("b", gpus=1, node=""))
        assert all(gpu.state is GpuState.FREE for gpu in view.gpus)

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"cordoned": True}, "cordoned"),
            (
                {"ready": {"type": "Ready", "status": "Unknown", "message": "Kubelet stopped posting"}},
                "Kubelet stopped",
            ),
            ({"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}, "team=b:NoSchedule"),
        ],
    )
    def test_a_node_that_takes_no_pods_says_why(self, tmp_path: Path, more: dict[str, Any], words: str) -> None:
        (view,) = view_of(tmp_path, [node(**more)])
        assert not view.accepts
        assert words in view.why_not

    def test_taints_that_are_tolerated_or_only_advise_keep_nothing_away(self, tmp_path: Path) -> None:
        taints = [
            {"key": GPU_RESOURCE, "value": "present", "effect": "NoSchedule"},
            {"key": "team", "value": "a", "effect": "NoExecute"},
            {"key": "slow", "effect": "PreferNoSchedule"},
            {"key": "big", "value": "x", "effect": "NoSchedule"},
        ]
        rules = SeriesRules(node_selector={"pool": "big"}, tolerations=(Toleration(key="big", operator="Exists"),))
        (view,) = view_of(
            tmp_path,
            [node(taints=taints, labels={"pool": "big"})],
            tolerations=(Toleration(key="team", value="a"),),
            series={"h200": rules},
        )
        assert view.accepts
        assert {gpu.series for gpu in view.gpus} == {"h200"}

    def test_only_nodes_that_the_settings_select_are_the_fleets(self, tmp_path: Path) -> None:
        nodes = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})]
        assert [one.name for one in view_of(tmp_path, nodes, node_selector={"zone": "b"})] == ["n2"]

    def test_without_all_pods_the_view_is_not_complete(self, tmp_path: Path) -> None:
        assert view_of(tmp_path, [node()], missing="not allowed")

    def test_what_was_sent_and_has_no_node_yet_is_as_good_as_taken(self, tmp_path: Path) -> None:
        whole = make_settings(tmp_path)
        naming = Naming(rules={}, series_of=series_of)
        nodes = [node("n1", labels={PRODUCT: "NVIDIA-H200"}), node("n2", gpus=2)]
        view = build_view(Listing(nodes=nodes, pods=[]), set(), whole, naming)
        pool = PoolRequest(name="main", nodes=1, gpus_per_node=2, series="h200", cpus=3, memory_bytes=5)
        left = reserve(view, [Waiting(attempt=OTHER, pools=(pool,))])
        assert [sum(gpu.state is GpuState.FREE for gpu in one.gpus) for one in left.nodes] == [2, 2]
        assert left.nodes[0].held == {OTHER: (3, 5)}


def status(code: int, reason: str, message: str, **more: Any) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message, **more}


@pytest.mark.parametrize(
    ("code", "document", "kind", "words"),
    [
        (409, status(409, "Conflict", "Apply failed with 1 conflict"), LaunchRefused, "is taken in the cluster"),
        (400, status(400, "BadRequest", 'unknown field "spec.bogus"'), LaunchRefused, "spec.bogus"),
        (403, status(403, "Forbidden", "exceeded quota: gpus, requested: 4"), NoCapacity, "exceeded quota"),
        (403, status(403, "Forbidden", 'cannot patch resource "rayjobs"'), LaunchRefused, "cannot patch"),
        (404, status(404, "NotFound", "the server could not find the requested resource"), LaunchRefused, "KubeRay"),
        (
            422,
            status(422, "Invalid", "invalid", details={"causes": [{"field": "spec.x", "message": "too long"}]}),
            LaunchRefused,
            "spec.x: too long",
        ),
        (
            500,
            status(500, "", "failed to create typed patch object (/x; ray.io/v1, Kind=RayJob): .spec.bogus: field not"),
            LaunchRefused,
            ".spec.bogus",
        ),
    ],
)
def test_a_no_of_the_server_left_nothing(
    code: int, document: dict[str, Any], kind: type[StarForgeError], words: str
) -> None:
    with pytest.raises(KubeRefused) as refused:
        check_write(code, document, {})
    error = explain_refusal(refused.value, "starforge-x")
    assert isinstance(error, kind)
    assert words in str(error)


@pytest.mark.parametrize(
    ("code", "document"),
    [
        (500, status(500, "InternalError", "failed calling webhook")),
        (503, "upstream connect error"),
        (504, status(504, "Timeout", "the server was unable to return a response in time")),
        (429, status(429, "TooManyRequests", "too many requests")),
        (401, status(401, "Unauthorized", "Unauthorized")),
        (200, "<html>a proxy</html>"),
        (403, "<html>a proxy</html>"),
    ],
)
def test_what_may_have_been_done_all_the_same_is_not_known(code: int, document: Any) -> None:
    with pytest.raises(KubeSilent):
        check_write(code, document, {"retry-after": "3"})


@pytest.mark.parametrize("code", [401, 403, 429, 500, 503])
def test_a_question_that_is_not_answered_says_nothing(code: int) -> None:
    with pytest.raises(KubeSilent) as silent:
        check_read(code, status(code, "X", "words of the server"), {"retry-after": "3"})
    assert "words of the server" in silent.value.what
    assert silent.value.status == code
    assert silent.value.retry_after_s == (3.0 if code not in {401, 403} else None)


def test_what_is_not_there_and_what_is_too_old_are_answers() -> None:
    with pytest.raises(KubeRefused):
        check_read(404, status(404, "NotFound", "not found"), {})
    with pytest.raises(Expired):
        check_read(410, status(410, "Expired", "too old resource version"), {})
