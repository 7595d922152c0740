"""The made-up API server keeps what a real one promises; the leg kuberay holds both to the same."""

from collections.abc import Iterator

import pytest

from e2e.support.kube.asking import KubeClient
from e2e.support.kube.cluster import kube_api
from server.tests.executors.kuberay.api_server import ApiServerCases
from server.tests.executors.kuberay.manifests import ManifestCases


@pytest.fixture(scope="module")
def client() -> Iterator[KubeClient]:
    with kube_api() as api:
        yield api.client


class TestTheMadeUpApiServer(ApiServerCases):
    pass


class TestManifestsOnTheMadeUpApiServer(ManifestCases):
    pass
