"""The made-up API server and a real one are asked the same, and answer the same."""

from collections.abc import Iterator

import pytest

from e2e.support.kube.asking import KubeClient
from e2e.support.kube.cluster import kube_api
from e2e.support.kube.rayjob import RAYJOB
from e2e.support.kube.real import RealApi
from e2e.support.kube.schema import Schema
from e2e.support.kube.status import Document
from server.tests.executors.kuberay.api_server import ApiServerCases
from server.tests.executors.kuberay.manifests import ManifestCases


@pytest.fixture(scope="module")
def client(real: RealApi | None) -> Iterator[KubeClient]:
    with kube_api(real) as api:
        yield api.client


class TestBothApiServers(ApiServerCases):
    pass


class TestManifestsOnBothApiServers(ManifestCases):
    pass


@pytest.mark.kube_real
def test_what_the_made_up_server_knows_of_a_rayjob_is_kuberays_own_definition(real_server: RealApi) -> None:
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rayjobs.ray.io"
    versions = real_server.call("GET", definition)[1]["spec"]["versions"]
    (schema,) = (one["schema"]["openAPIV3Schema"] for one in versions if one["name"] == "v1")
    assert list(_list_differences(RAYJOB, schema, "")) == []


def _list_differences(ours: Schema, theirs: Document, at: str) -> Iterator[str]:
    if ours.type == "any":
        return
    kind = "quantity" if theirs.get("x-kubernetes-int-or-string") else theirs.get("type")
    facts = {
        "type": (ours.type, kind),
        "required": (sorted(ours.required), sorted(theirs.get("required", ()))),
        "default": (ours.default if ours.has_default else None, theirs.get("default")),
        "minimum": (ours.minimum, theirs.get("minimum")),
        "keys": (ours.keys, tuple(theirs.get("x-kubernetes-list-map-keys", ()))),
        "atomic": (ours.is_atomic, theirs.get("x-kubernetes-map-type") == "atomic"),
    }
    for fact, (mine, real) in facts.items():
        if mine != real and fact != "atomic":
            yield f"{at} {fact}: {mine!r}, really {real!r}"
    for name, inner in ours.fields.items():
        known = theirs.get("properties", {}).get(name)
        if known is None:
            yield f"{at}.{name} does not exist"
        else:
            yield from _list_differences(inner, known, f"{at}.{name}")
    if ours.values is not None:
        yield from _list_differences(ours.values, theirs.get("items") or theirs["additionalProperties"], f"{at}[]")
