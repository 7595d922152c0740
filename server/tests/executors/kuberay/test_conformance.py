"""The KubeRay executor on a made-up cluster that really runs what it is given."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.engines import PrivateEngine
from e2e.support.ready import ready_engine
from server.tests.executors.conformance import Conformance
from server.tests.executors.kuberay.on_kube import KubeHarness, kube_harness

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def machine() -> Iterator[PrivateEngine]:
    with ready_engine() as machine:
        yield machine


@pytest.fixture
def harness(machine: PrivateEngine, tmp_path: Path) -> Iterator[KubeHarness]:
    with kube_harness(machine, tmp_path) as harness:
        yield harness


class TestKubeRayKeepsThePromises(Conformance):
    pass
