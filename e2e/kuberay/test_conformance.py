"""The KubeRay executor on a real API server, over which a made-up cluster really runs what it is given."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.engines import PrivateEngine
from e2e.support.kube.real import RealApi
from e2e.support.ready import ready_engine
from server.tests.executors.conformance import Conformance
from server.tests.executors.kuberay.on_kube import KubeHarness, kube_harness

pytestmark = pytest.mark.kube_real


@pytest.fixture(scope="module")
def machine() -> Iterator[PrivateEngine]:
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def harness(real_server: RealApi, machine: PrivateEngine, tmp_path: Path) -> Iterator[KubeHarness]:
    with kube_harness(machine, tmp_path, real_server) as harness:
        yield harness


class TestKubeRayKeepsThePromisesOnARealApiServer(Conformance):
    pass
