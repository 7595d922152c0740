"""A console's state and a spec to submit, for the tests of the client."""

from collections.abc import Iterator
from typing import Any

import pytest

from core.tests.client.server import TOKEN, ConsoleState, serve
from starforge.client.console import Console
from starforge.client.http import Connection
from starforge.contract.api import SubmitRequest
from starforge.contract.jobspec import parse_jobspec

DIGEST = "sha256:" + "0" * 64


@pytest.fixture
def state() -> ConsoleState:
    return ConsoleState()


@pytest.fixture
def console(state: ConsoleState) -> Iterator[Console]:
    with serve(state) as url, Connection(url, TOKEN, pause=lambda _: None) as connection:
        yield Console(connection)


@pytest.fixture
def submission() -> SubmitRequest:
    spec: Any = {
        "recipe": {"name": "custom/custom", "version": "1", "digest": DIGEST},
        "framework": {"kind": "custom", "image": "python:3.12-slim"},
        "resources": {"pools": [{"gpus_per_node": 0}]},
        "entry": {"kind": "experiment", "value": "experiments/first"},
        "workspace": {"digest": DIGEST, "bytes": 1, "files": 1},
    }
    return SubmitRequest(spec=parse_jobspec({"metadata": {"name": "first", "project": "demo"}, "spec": spec}))
