"""What an API server of Kubernetes promises, as tests that a made-up one passes and a real one too.

A test module makes them its own by importing `ApiServerCases` into a class and giving a fixture `client`.
"""

import itertools
import uuid
from collections.abc import Iterator
from typing import Any

from e2e.support.kube.asking import KubeClient
from e2e.support.kube.status import Document

NAMESPACE = "training"
JOBS = f"/apis/ray.io/v1/namespaces/{NAMESPACE}/rayjobs"
_UNCHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation"
)


def make_name() -> str:
    return f"starforge-{uuid.uuid4().hex[:12]}"


def make_template() -> Document:
    container = {
        "name": "job",
        "image": "image:1",
        "env": [{"name": "A", "value": "b"}],
        "ports": [{"containerPort": 8265}],
    }
    return {"spec": {"containers": [container]}}


def make_job(name: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Document:
    """A RayJob with a head and one group of workers; `spec` is put over its own."""
    cluster = {
        "headGroupSpec": {"rayStartParams": {}, "template": make_template()},
        "workerGroupSpecs": [{"groupName": "workers", "template": make_template()}],
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name or make_name()} | ({"labels": labels} if labels else {}),
        "spec": {"entrypoint": "bash entry.sh", "rayClusterSpec": cluster} | spec,
    }


def make_plain_job(name: str = "", **spec: Any) -> Document:
    """One without a list that is one value: what is left out of such a list differs from what the server made of it."""
    template = {"spec": {"containers": [{"name": "job", "image": "image:1"}]}}
    return make_job(name, rayClusterSpec={"headGroupSpec": {"template": template}}, **spec)


def create(client: KubeClient, **changes: Any) -> Document:
    made = client.create(JOBS, make_job(**changes), fieldManager="somebody")
    assert made.code == 201, made
    return made.body


def path_of(job: Document) -> str:
    return f"{JOBS}/{job['metadata']['name']}"


def causes_of(body: Document) -> list[tuple[str, str, str]]:
    return [(cause["reason"], cause["message"], cause["field"]) for cause in body["details"]["causes"]]


class ApiServerCases:
    """One method a fact; every object has a name and a label of its own, for a server is shared."""

    def test_a_new_object_gets_an_identity_and_what_was_left_out(self, client: KubeClient) -> None:
        made = create(client)
        assert {"uid", "resourceVersion", "creationTimestamp", "managedFields"} <= made["metadata"].keys()
        assert made["metadata"]["generation"] == 1
        assert made["metadata"]["namespace"] == NAMESPACE
        spec = made["spec"]
        assert (spec["submissionMode"], spec["backoffLimit"], spec["ttlSecondsAfterFinished"]) == ("K8sJobMode", 0, 0)
        (group,) = spec["rayClusterSpec"]["workerGroupSpecs"]
        assert (group["replicas"], group["minReplicas"], group["maxReplicas"]) == (0, 0, 2147483647)
        assert (group["numOfHosts"], group["priority"]) == (1, 0)
        ports = group["template"]["spec"]["containers"][0]["ports"]
        assert ports == [{"containerPort": 8265, "protocol": "TCP"}]
        assert "status" not in made
        assert client.get(path_of(made)).body == made

    def test_a_status_is_not_taken_from_who_creates(self, client: KubeClient) -> None:
        made = client.create(JOBS, make_job() | {"status": {"jobStatus": "SUCCEEDED"}})
        assert made.code == 201
        assert "status" not in made.body

    def test_a_name_is_given_out_once(self, client: KubeClient) -> None:
        name = create(client)["metadata"]["name"]
        again = client.create(JOBS, make_job(name))
        assert again.code == 409
        assert again.body == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f'rayjobs.ray.io "{name}" already exists',
            "reason": "AlreadyExists",
            "details": {"name": name, "group": "ray.io", "kind": "rayjobs"},
            "code": 409,
        }

    def test_unknown_fields_are_refused_where_that_is_asked(self, client: KubeClient) -> None:
        job = make_job(bogus=1, other={"a": 1})
        refused = client.create(JOBS, job, fieldValidation="Strict")
        assert (refused.code, refused.body["reason"]) == (400, "BadRequest")
        assert refused.body["message"] == (
            'RayJob in version "v1" cannot be handled as a RayJob: strict decoding error: unknown field "spec.bogus", '
            'unknown field "spec.other"'
        )
        assert client.get(path_of(job)).code == 404
        assert "bogus" not in client.create(JOBS, job).body["spec"]

    def test_unknown_fields_deep_in_a_pod_are_named_with_their_place(self, client: KubeClient) -> None:
        job = make_job()
        job["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["imago"] = "x"
        refused = client.create(JOBS, job, fieldValidation="Strict")
        place = "spec.rayClusterSpec.workerGroupSpecs[0].template.spec.containers[0].imago"
        assert refused.code == 400
        assert f'unknown field "{place}"' in refused.body["message"]

    def test_a_value_of_another_type_is_refused_with_its_cause(self, client: KubeClient) -> None:
        refused = client.create(JOBS, make_job("typed", entrypoint=5, backoffLimit="x"))
        assert (refused.code, refused.body["reason"]) == (422, "Invalid")
        first = 'Invalid value: "integer": spec.entrypoint in body must be of type string: "integer"'
        second = 'Invalid value: "string": spec.backoffLimit in body must be of type integer: "string"'
        assert sorted(causes_of(refused.body)) == sorted(
            [
                ("FieldValueTypeInvalid", first, "spec.entrypoint"),
                ("FieldValueTypeInvalid", second, "spec.backoffLimit"),
                ("FieldValueInvalid", _UNCHECKED, "<nil>"),
            ]
        )
        assert refused.body["message"].startswith('RayJob.ray.io "typed" is invalid: [spec.')

    def test_a_value_out_of_bounds_is_refused_with_its_cause(self, client: KubeClient) -> None:
        refused = client.create(JOBS, make_job("bounded", preRunningDeadlineSeconds=0))
        said = "Invalid value: 0: spec.preRunningDeadlineSeconds in body should be greater than or equal to 1"
        assert refused.code == 422
        assert causes_of(refused.body) == [("FieldValueInvalid", said, "spec.preRunningDeadlineSeconds")]
        assert refused.body["message"] == f'RayJob.ray.io "bounded" is invalid: spec.preRunningDeadlineSeconds: {said}'
        assert refused.body["details"]["kind"] == "RayJob"

    def test_a_field_that_must_be_there_is_missed(self, client: KubeClient) -> None:
        job = make_job("headless")
        del job["spec"]["rayClusterSpec"]["headGroupSpec"]
        refused = client.create(JOBS, job)
        assert refused.code == 422
        missed = ("FieldValueRequired", "Required value", "spec.rayClusterSpec.headGroupSpec")
        assert causes_of(refused.body) == [missed, ("FieldValueInvalid", _UNCHECKED, "<nil>")]

    def test_names_and_labels_have_their_form(self, client: KubeClient) -> None:
        named = client.create(JOBS, make_job("Not_A_Name"))
        assert (named.code, causes_of(named.body)[0][2]) == (422, "metadata.name")
        labelled = client.create(JOBS, make_job(labels={"a": "not a label"}))
        assert (labelled.code, causes_of(labelled.body)[0][2]) == (422, "metadata.labels")
        long = client.create(JOBS, make_job(labels={"a": "x" * 64}))
        assert long.code == 422

    def test_a_dry_run_judges_and_leaves_nothing(self, client: KubeClient) -> None:
        job = make_job()
        assert client.create(JOBS, job, dryRun="All").code == 201
        assert client.apply(path_of(job), job, fieldManager="starforge", dryRun="All").code == 201
        assert client.create(JOBS, make_job(preRunningDeadlineSeconds=0), dryRun="All").code == 422
        assert client.get(path_of(job)).code == 404

    def test_a_dry_run_deletes_nothing(self, client: KubeClient) -> None:
        made = create(client)
        assert client.delete(path_of(made), dryRun="All").code == 200
        assert client.get(path_of(made)).body == made

    def test_what_is_applied_twice_is_made_once(self, client: KubeClient) -> None:
        job = make_job()
        first = client.apply(path_of(job), job, fieldManager="starforge", force="false", fieldValidation="Strict")
        again = client.apply(path_of(job), job, fieldManager="starforge", force="false", fieldValidation="Strict")
        assert (first.code, again.code) == (201, 200)
        assert again.metadata["resourceVersion"] == first.metadata["resourceVersion"]
        (entry,) = again.metadata["managedFields"]
        assert (entry["manager"], entry["operation"]) == ("starforge", "Apply")

    def test_what_another_manager_set_is_not_applied_over(self, client: KubeClient) -> None:
        made = create(client)
        wanted = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": made["metadata"]["name"]}}
        spec = {"entrypoint": "another", "jobId": "mine"}
        refused = client.apply(path_of(made), wanted | {"spec": spec}, fieldManager="starforge")
        said = 'conflict with "somebody" using ray.io/v1'
        assert (refused.code, refused.body["reason"]) == (409, "Conflict")
        assert causes_of(refused.body) == [("FieldManagerConflict", said, ".spec.entrypoint")]
        assert refused.body["message"] == f"Apply failed with 1 conflict: {said}: .spec.entrypoint"
        assert client.get(path_of(made)).body == made

    def test_every_conflict_of_an_apply_is_told(self, client: KubeClient) -> None:
        made = client.create(JOBS, make_plain_job(), fieldManager="somebody").body
        wanted = make_plain_job(made["metadata"]["name"], entrypoint="another", submissionMode="HTTPMode")
        refused = client.apply(path_of(made), wanted, fieldManager="starforge")
        assert refused.code == 409
        assert [field for _, _, field in causes_of(refused.body)] == [".spec.entrypoint", ".spec.submissionMode"]
        assert refused.body["message"] == (
            'Apply failed with 2 conflicts: conflicts with "somebody" using ray.io/v1:\n- .spec.entrypoint\n'
            "- .spec.submissionMode"
        )

    def test_values_that_agree_are_no_conflict(self, client: KubeClient) -> None:
        made = client.create(JOBS, make_plain_job(), fieldManager="somebody").body
        applied = client.apply(path_of(made), make_plain_job(made["metadata"]["name"]), fieldManager="starforge")
        assert applied.code == 200
        assert applied.body["spec"] == made["spec"]

    def test_a_list_that_is_one_value_conflicts_with_what_the_server_made_of_it(self, client: KubeClient) -> None:
        made = create(client)
        refused = client.apply(path_of(made), make_job(made["metadata"]["name"]), fieldManager="starforge")
        assert refused.code == 409
        assert [field for _, _, field in causes_of(refused.body)] == [".spec.rayClusterSpec.workerGroupSpecs"]

    def test_a_forced_apply_takes_what_is_another_managers(self, client: KubeClient) -> None:
        made = create(client)
        wanted = make_job(made["metadata"]["name"], entrypoint="another")
        applied = client.apply(path_of(made), wanted, fieldManager="starforge", force="true")
        assert applied.code == 200
        assert applied.body["spec"]["entrypoint"] == "another"
        assert applied.metadata["generation"] == 2

    def test_what_is_not_applied_any_more_goes(self, client: KubeClient) -> None:
        job = make_job(jobId="one", labels={"kept": "yes", "dropped": "yes"})
        client.apply(path_of(job), job, fieldManager="starforge")
        fewer = make_job(job["metadata"]["name"], labels={"kept": "yes"})
        applied = client.apply(path_of(job), fewer, fieldManager="starforge")
        assert "jobId" not in applied.body["spec"]
        assert applied.metadata["labels"] == {"kept": "yes"}

    def test_an_unknown_field_cannot_be_applied(self, client: KubeClient) -> None:
        job = make_job(bogus=1)
        for query in ({}, {"dryRun": "All"}, {"fieldValidation": "Strict"}):
            refused = client.apply(path_of(job), job, fieldManager="starforge", **query)
            assert refused.code == 500
            assert refused.body["message"] == (
                f"failed to create typed patch object (/{job['metadata']['name']}; ray.io/v1, Kind=RayJob): "
                ".spec.bogus: field not declared in schema"
            )

    def test_an_apply_is_judged_like_any_write(self, client: KubeClient) -> None:
        job = make_job(preRunningDeadlineSeconds=0)
        refused = client.apply(path_of(job), job, fieldManager="starforge")
        assert (refused.code, causes_of(refused.body)[0][2]) == (422, "spec.preRunningDeadlineSeconds")

    def test_an_apply_says_who_and_what_it_is(self, client: KubeClient) -> None:
        job = make_job()
        unsigned = client.apply(path_of(job), job)
        assert unsigned.code == 422
        assert "fieldManager: Required value" in unsigned.body["message"]
        nameless = client.apply(path_of(job), {**job, "metadata": {}}, fieldManager="starforge")
        assert nameless.code == 400
        other = client.apply(path_of(make_job()), job, fieldManager="starforge")
        assert other.code == 400

    def test_what_was_changed_since_it_was_read_is_not_written_over(self, client: KubeClient) -> None:
        made = create(client)
        client.merge(path_of(made), {"spec": {"jobId": "changed"}})
        name = made["metadata"]["name"]
        said = (
            f'Operation cannot be fulfilled on rayjobs.ray.io "{name}": the object has been modified; please apply '
            "your changes to the latest version and try again"
        )
        replaced = client.replace(path_of(made), made)
        version = made["metadata"]["resourceVersion"]
        merged = client.merge(path_of(made), {"metadata": {"resourceVersion": version}, "spec": {"jobId": "other"}})
        for refused in (replaced, merged):
            assert (refused.code, refused.body["reason"], refused.body["message"]) == (409, "Conflict", said)

    def test_a_write_that_changes_nothing_makes_no_version(self, client: KubeClient) -> None:
        made = create(client)
        again = client.merge(path_of(made), {"spec": {"entrypoint": made["spec"]["entrypoint"]}})
        assert again.metadata["resourceVersion"] == made["metadata"]["resourceVersion"]

    def test_what_is_not_there_is_not_found(self, client: KubeClient) -> None:
        name = make_name()
        path = f"{JOBS}/{name}"
        for answer in (client.get(path), client.delete(path), client.merge(path, {}), client.get(f"{path}/status")):
            assert (answer.code, answer.body["reason"]) == (404, "NotFound")
            assert answer.body["message"] == f'rayjobs.ray.io "{name}" not found'
            assert answer.body["details"] == {"name": name, "group": "ray.io", "kind": "rayjobs"}

    def test_a_kind_that_nobody_defined_is_not_found(self, client: KubeClient) -> None:
        answer = client.get(f"/apis/ray.io/v1/namespaces/{NAMESPACE}/raynoodles")
        assert answer.code == 404
        assert "reason" not in answer.body or answer.body["reason"] == "NotFound"

    def test_a_patch_in_another_form_is_not_taken(self, client: KubeClient) -> None:
        made = create(client)
        refused = client.ask("PATCH", path_of(made), {}, form="application/json")
        assert (refused.code, refused.body["reason"]) == (415, "UnsupportedMediaType")

    def test_the_status_is_written_apart(self, client: KubeClient) -> None:
        made = create(client)
        ran = client.merge(f"{path_of(made)}/status", {"status": {"jobStatus": "RUNNING"}, "spec": {"jobId": "no"}})
        assert ran.code == 200
        assert ran.body["status"] == {"jobStatus": "RUNNING", "failed": 0, "succeeded": 0}
        assert "jobId" not in ran.body["spec"]
        assert ran.metadata["generation"] == 1
        changed = client.merge(path_of(made), {"status": {"jobStatus": "FAILED"}, "spec": {"jobId": "yes"}})
        assert changed.body["status"]["jobStatus"] == "RUNNING"
        assert (changed.body["spec"]["jobId"], changed.metadata["generation"]) == ("yes", 2)

    def test_a_status_of_another_type_is_refused(self, client: KubeClient) -> None:
        made = create(client)
        refused = client.merge(f"{path_of(made)}/status", {"status": {"jobStatus": 5}})
        assert (refused.code, causes_of(refused.body)[0][2]) == (422, "status.jobStatus")

    def test_a_list_comes_in_pages(self, client: KubeClient) -> None:
        mark = uuid.uuid4().hex
        names = sorted(create(client, labels={"mark": mark})["metadata"]["name"] for _ in range(5))
        seen: list[str] = []
        query: dict[str, Any] = {"labelSelector": f"mark={mark}", "limit": 2}
        pages = 0
        while True:
            page = client.get(JOBS, **query).body
            pages += 1
            assert len(page["items"]) <= 2
            assert page["kind"] == "RayJobList"
            seen += [item["metadata"]["name"] for item in page["items"]]
            if not page["metadata"].get("continue"):
                break
            query["continue"] = page["metadata"]["continue"]
        assert (seen, pages) == (names, 3)

    def test_pages_show_one_moment(self, client: KubeClient) -> None:
        mark = uuid.uuid4().hex
        for _ in range(3):
            create(client, labels={"mark": mark})
        first = client.get(JOBS, labelSelector=f"mark={mark}", limit=1).body
        token = first["metadata"]["continue"]
        rest = client.get(JOBS, labelSelector=f"mark={mark}", limit=5, **{"continue": token}).body
        assert len(rest["items"]) == 2
        assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]

    def test_a_list_of_all_namespaces_holds_them(self, client: KubeClient) -> None:
        mark = uuid.uuid4().hex
        create(client, labels={"mark": mark})
        elsewhere = "/apis/ray.io/v1/namespaces/elsewhere/rayjobs"
        assert client.create(elsewhere, make_job(labels={"mark": mark})).code == 201
        found = client.get("/apis/ray.io/v1/rayjobs", labelSelector=f"mark={mark}").body["items"]
        assert sorted(item["metadata"]["namespace"] for item in found) == ["elsewhere", NAMESPACE]

    def test_a_selector_of_labels_takes_what_it_says(self, client: KubeClient) -> None:
        mark = uuid.uuid4().hex
        one = create(client, labels={"mark": mark, "kind": "one"})["metadata"]["name"]
        two = create(client, labels={"mark": mark, "kind": "two"})["metadata"]["name"]
        neither = create(client, labels={"mark": mark})["metadata"]["name"]
        for term, expected in {
            "kind=one": {one},
            "kind==one": {one},
            "kind!=one": {two, neither},
            "kind in (one,two)": {one, two},
            "kind notin (one)": {two, neither},
            "kind": {one, two},
            "!kind": {neither},
            "kind=one,kind=two": set(),
        }.items():
            found = client.get(JOBS, labelSelector=f"mark={mark},{term}").body["items"]
            assert {item["metadata"]["name"] for item in found} == expected, term

    def test_a_watch_tells_what_happens_after_a_list(self, client: KubeClient) -> None:
        mark = uuid.uuid4().hex
        selector = f"mark={mark}"
        version = client.get(JOBS, labelSelector=selector).metadata["resourceVersion"]
        made = create(client, labels={"mark": mark})
        create(client, labels={"mark": "another"})
        client.merge(f"{path_of(made)}/status", {"status": {"jobStatus": "RUNNING"}})
        client.delete(path_of(made))
        with client.watch(JOBS, labelSelector=selector, resourceVersion=version, timeoutSeconds=20) as events:
            told = list(itertools.islice(events, 3))
        assert [event["type"] for event in told] == ["ADDED", "MODIFIED", "DELETED"]
        assert told[1]["object"]["status"]["jobStatus"] == "RUNNING"
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in told]
        assert versions == sorted(versions)
        assert versions[0] > int(version)

    def test_a_watch_goes_on_where_another_ended(self, client: KubeClient) -> None:
        mark = uuid.uuid4().hex
        made = create(client, labels={"mark": mark})
        client.merge(path_of(made), {"spec": {"jobId": "one"}})
        version = made["metadata"]["resourceVersion"]
        with client.watch(JOBS, labelSelector=f"mark={mark}", resourceVersion=version, timeoutSeconds=20) as events:
            told = next(events)
        assert (told["type"], told["object"]["spec"]["jobId"]) == ("MODIFIED", "one")

    def test_a_watch_from_nowhere_begins_with_what_is_there(self, client: KubeClient) -> None:
        mark = uuid.uuid4().hex
        made = create(client, labels={"mark": mark})
        with client.watch(JOBS, labelSelector=f"mark={mark}", timeoutSeconds=20) as events:
            told = next(events)
        assert (told["type"], told["object"]["metadata"]["uid"]) == ("ADDED", made["metadata"]["uid"])

    def test_who_loses_the_label_is_gone_for_the_watch(self, client: KubeClient) -> None:
        mark = uuid.uuid4().hex
        made = create(client, labels={"mark": mark})
        version = made["metadata"]["resourceVersion"]
        client.merge(path_of(made), {"metadata": {"labels": {"mark": None}}})
        with client.watch(JOBS, labelSelector=f"mark={mark}", resourceVersion=version, timeoutSeconds=20) as events:
            assert next(events)["type"] == "DELETED"

    def test_a_watch_is_told_how_far_it_came(self, client: KubeClient) -> None:
        version = create(client)["metadata"]["resourceVersion"]
        query = {"labelSelector": "mark=nobody", "resourceVersion": version, "allowWatchBookmarks": "true"}
        with client.watch(JOBS, timeoutSeconds=4, **query) as events:
            create(client)  # what the watch does not tell moves it on all the same
            told = list(_until_bookmark(events))
        assert [event["type"] for event in told] == ["BOOKMARK"]
        assert told[0]["object"]["kind"] == "RayJob"
        assert int(told[0]["object"]["metadata"]["resourceVersion"]) > int(version)

    def test_a_watch_ends_when_it_was_to_end(self, client: KubeClient) -> None:
        version = create(client)["metadata"]["resourceVersion"]
        query = {"labelSelector": "mark=nobody", "resourceVersion": version, "timeoutSeconds": 1}
        with client.watch(JOBS, **query) as events:
            assert list(events) == []

    def test_a_watch_from_too_long_ago_is_told_so(self, client: KubeClient) -> None:
        create(client)
        with client.watch(JOBS, resourceVersion=1, timeoutSeconds=20) as events:
            (told,) = events
        assert told["type"] == "ERROR"
        assert (told["object"]["code"], told["object"]["reason"]) == (410, "Expired")
        assert told["object"]["message"].startswith("too old resource version: 1 (")

    def test_a_deletion_that_nothing_holds_is_done(self, client: KubeClient) -> None:
        made = create(client)
        metadata = made["metadata"]
        deleted = client.delete(path_of(made))
        assert deleted.code == 200
        assert deleted.body["status"] == "Success"
        assert deleted.body["details"] == {
            "name": metadata["name"],
            "group": "ray.io",
            "kind": "rayjobs",
            "uid": metadata["uid"],
        }
        assert client.get(path_of(made)).code == 404

    def test_finalizers_hold_a_deletion(self, client: KubeClient) -> None:
        made = create(client)
        client.merge(path_of(made), {"metadata": {"finalizers": ["ray.io/rayjob-finalizer"]}})
        deleting = client.delete(path_of(made))
        assert deleting.metadata["finalizers"] == ["ray.io/rayjob-finalizer"]
        assert deleting.metadata["deletionTimestamp"]
        assert client.delete(path_of(made)).code == 200
        held = client.get(path_of(made))
        assert held.metadata["deletionTimestamp"] == deleting.metadata["deletionTimestamp"]
        assert client.merge(path_of(made), {"metadata": {"finalizers": []}}).code == 200
        assert client.get(path_of(made)).code == 404

    def test_dependents_can_be_waited_for(self, client: KubeClient) -> None:
        made = create(client)
        deleting = client.delete(path_of(made), {"propagationPolicy": "Foreground"})
        assert deleting.metadata["finalizers"] == ["foregroundDeletion"]
        client.merge(path_of(made), {"metadata": {"finalizers": []}})
        assert client.get(path_of(made)).code == 404

    def test_only_the_object_that_is_meant_is_deleted(self, client: KubeClient) -> None:
        made = create(client)
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        refused = client.delete(path_of(made), {"preconditions": {"uid": "another"}})
        assert (refused.code, refused.body["reason"]) == (409, "Conflict")
        assert refused.body["message"] == (
            f'Operation cannot be fulfilled on RayJob.ray.io "{name}": the UID in the precondition (another) does not '
            f"match the UID in record ({uid}). The object might have been deleted and then recreated"
        )
        assert client.delete(path_of(made), {"preconditions": {"uid": uid}}).code == 200

    def test_a_body_that_is_no_document_is_refused(self, client: KubeClient) -> None:
        refused = client.create(JOBS, "not a document")
        assert (refused.code, refused.body["reason"]) == (400, "BadRequest")


def _until_bookmark(events: Iterator[Document]) -> Iterator[Document]:
    for event in events:
        yield event
        if event["type"] == "BOOKMARK":
            return
