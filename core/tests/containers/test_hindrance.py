"""A process that may start nothing at this moment: it is asked at the last moment, and again before the start."""

from collections.abc import Callable
from pathlib import Path

import pytest

from core.tests.containers.builders import make_request, see, wait_for
from e2e.support.engines import PrivateEngine
from starforge.containers.host import ContainerHost
from starforge.contract.observation import Gone, Phase
from starforge.errors import BackendUnreachable

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("answers", [["no"], ["", "no"]], ids=["before it is created", "before it is started"])
def test_nothing_starts_and_nothing_stays_behind_while_there_is_a_hindrance(
    open_host: Callable[..., ContainerHost], machine: PrivateEngine, tmp_path: Path, answers: list[str]
) -> None:
    host = open_host(find_hindrance=lambda: answers.pop(0) if answers else "")
    request = make_request(tmp_path)
    with pytest.raises(BackendUnreachable, match="was not started"):
        host.launch(request)
    assert isinstance(see(host, request.attempt), Gone)
    assert machine.engine.list_containers() == []

    host.launch(request)
    wait_for(host, request.attempt, Phase.RUNNING)
