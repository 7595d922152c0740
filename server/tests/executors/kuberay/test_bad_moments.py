"""The bad moments of the made-up API server, as tests of the executor call them up."""

import http.client
import threading
from collections.abc import Iterator

import pytest

from e2e.support.kube.asking import KubeClient
from e2e.support.kube.cluster import USER, KubeApi, kube_api
from server.tests.executors.kuberay.api_server import JOBS, NAMESPACE, create, make_job, path_of

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture
def api() -> Iterator[KubeApi]:
    with kube_api() as api:
        yield api


def test_without_a_token_nothing_is_told(api: KubeApi) -> None:
    refused = KubeClient(api.server.port, "another").get(JOBS)
    assert (refused.code, refused.body["reason"], refused.body["message"]) == (401, "Unauthorized", "Unauthorized")


def test_a_token_that_was_taken_away_is_none(api: KubeApi) -> None:
    client = api.client
    assert client.get(JOBS).code == 200
    api.server.tokens.clear()
    assert client.get(JOBS).code == 401


def test_a_server_that_is_away_refuses_connections_and_remembers(api: KubeApi) -> None:
    made = create(api.client)
    api.server.go_away()
    with pytest.raises(OSError, match="refused"):
        api.client.get(JOBS)
    api.server.come_back()
    assert api.client.get(path_of(made)).body == made


def test_going_away_cuts_what_is_open(api: KubeApi) -> None:
    with api.client.watch(JOBS) as events:
        api.server.go_away()
        with pytest.raises((OSError, http.client.HTTPException)):
            raise http.client.IncompleteRead(b"") if not list(events) else AssertionError


def test_too_many_requests_are_answered_with_when_to_come_again(api: KubeApi) -> None:
    api.server.faults.refuse(429, "GET", "/rayjobs", retry_after_s=7)
    for _ in range(2):
        refused = api.client.get(JOBS)
        assert (refused.code, refused.body["reason"]) == (429, "TooManyRequests")
        assert refused.body["details"] == {"retryAfterSeconds": 7}
    assert api.client.get(PODS).code == 200
    api.server.faults.clear()
    assert api.client.get(JOBS).code == 200


def test_a_refusal_can_be_for_some_requests_only(api: KubeApi) -> None:
    api.server.faults.refuse(500, "GET", "/rayjobs", times=1)
    assert [api.client.get(JOBS).code for _ in range(2)] == [500, 200]


def test_a_lost_reply_comes_after_the_deed(api: KubeApi) -> None:
    job = make_job()
    lost = api.server.faults.lose_reply("POST", "/rayjobs")
    with pytest.raises((OSError, http.client.HTTPException)):
        api.client.create(JOBS, job)
    assert lost.is_set()
    assert api.client.get(path_of(job)).code == 200


def test_a_held_request_waits_before_the_deed(api: KubeApi) -> None:
    job = make_job()
    there, let_pass = api.server.faults.hold("POST", "/rayjobs")
    caller = threading.Thread(target=api.client.create, args=(JOBS, job))
    caller.start()
    assert there.wait(20)
    assert api.client.get(path_of(job)).code == 404
    let_pass.set()
    caller.join()
    assert api.client.get(path_of(job)).code == 200


def test_watches_can_be_closed(api: KubeApi) -> None:
    with api.client.watch(JOBS) as events:
        create(api.client)
        assert next(events)["type"] == "ADDED"
        api.server.faults.close_watches()
        assert list(events) == []


def test_where_a_watch_wants_to_go_on_can_be_too_old(api: KubeApi) -> None:
    version = api.client.get(JOBS).metadata["resourceVersion"]
    api.server.faults.expire("watch=1")
    with api.client.watch(JOBS, resourceVersion=version) as events:
        (told,) = events
    assert (told["type"], told["object"]["code"]) == ("ERROR", 410)


def test_what_was_compacted_is_too_old(api: KubeApi) -> None:
    for _ in range(2):
        create(api.client)
    page = api.client.get(JOBS, limit=1)
    create(api.client)
    api.store.compact()
    with api.client.watch(JOBS, resourceVersion=page.metadata["resourceVersion"]) as events:
        (told,) = events
    assert told["object"]["code"] == 410
    rest = api.client.get(JOBS, limit=1, **{"continue": page.metadata["continue"]})
    assert (rest.code, rest.body["reason"]) == (410, "Expired")


def test_who_may_not_is_told_what(api: KubeApi) -> None:
    api.server.faults.forbid("list", "pods")
    everywhere = api.client.get("/api/v1/pods")
    assert (everywhere.code, everywhere.body["reason"]) == (403, "Forbidden")
    said = f'pods is forbidden: User "{USER}" cannot list resource "pods" in API group "" at the cluster scope'
    assert everywhere.body["message"] == said
    assert api.client.get(PODS).code == 200


def test_a_review_tells_what_one_may(api: KubeApi) -> None:
    api.server.faults.forbid("create", "secrets", NAMESPACE)

    def may(verb: str, resource: str, subresource: str = "") -> bool:
        wanted = {"verb": verb, "resource": resource, "namespace": NAMESPACE, "subresource": subresource}
        review = {"spec": {"resourceAttributes": wanted}}
        answer = api.client.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        assert answer.code == 201
        return bool(answer.body["status"]["allowed"])

    assert not may("create", "secrets")
    assert may("delete", "secrets")
    assert may("get", "pods", "log")


def test_a_secret_is_kept_as_kubernetes_keeps_it(api: KubeApi) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"TOKEN": "abc"}}
    assert api.client.apply(f"{path}/s", body, fieldManager="starforge").code == 201
    found = api.client.get(f"{path}/s").body
    assert found["data"] == {"TOKEN": "YWJj"}
    assert "stringData" not in found


def test_a_pod_on_a_node_is_deleted_when_its_kubelet_says_so(api: KubeApi) -> None:
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": [], "terminationGracePeriodSeconds": 9}}
    assert api.client.create(PODS, pod).code == 201
    deleting = api.client.delete(f"{PODS}/p")
    assert deleting.metadata["deletionGracePeriodSeconds"] == 9
    assert api.client.get(f"{PODS}/p").metadata["deletionTimestamp"]
    assert api.client.delete(f"{PODS}/p", {"gracePeriodSeconds": 0}).body["status"] == "Success"
    assert api.client.get(f"{PODS}/p").code == 404
