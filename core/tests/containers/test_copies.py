"""Somebody makes an image of a job's container and runs it: it carries the job's labels, and is nobody's attempt."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from core.tests.containers.builders import finish, make_request, see, wait_for
from e2e.support.engines import PrivateEngine
from starforge.containers.host import ContainerHost
from starforge.containers.labels import ATTEMPT, name_container
from starforge.contract.ids import AttemptId
from starforge.contract.observation import Gone, NoSignal, Phase, Seen

pytestmark = pytest.mark.engine

_tags = itertools.count()


def run_copy(machine: PrivateEngine, attempt: AttemptId, script: str) -> str:
    """What a colleague does with `docker commit` and `docker run`; the id of the new container."""
    tag = f"v{next(_tags)}"
    machine.ask("POST", f"/commit?container={name_container(attempt)}&repo=starforge-test/copy&tag={tag}")
    body = {"Image": f"starforge-test/copy:{tag}", "Entrypoint": ["bash"], "Cmd": ["-c", script], "WorkingDir": "/"}
    copy = str(machine.engine.create(f"mine-{tag}", body)["Id"])
    machine.engine.start(copy)
    return copy


def find_ids(machine: PrivateEngine) -> set[str]:
    return {str(one["Id"]) for one in machine.engine.list_containers(ATTEMPT)}


def test_a_copy_is_neither_taken_for_the_attempt_nor_removed(
    host: ContainerHost, machine: PrivateEngine, tmp_path: Path
) -> None:
    request = make_request(tmp_path)
    host.launch(request)
    wait_for(host, request.attempt, Phase.RUNNING)
    copies = {run_copy(machine, request.attempt, script) for script in ("exit 3", "exec sleep 60")}
    seen = see(host, request.attempt)
    assert isinstance(seen, Seen)
    assert seen.phase is Phase.RUNNING

    finish(request, 0)
    ended = wait_for(host, request.attempt, Phase.EXITED)
    assert ended.exit is not None
    assert ended.exit.code == 0
    host.cleanup(request.attempt)
    assert isinstance(see(host, request.attempt), Gone)
    assert host.sweep(known=[]).removed == ()
    host.remove(request.attempt)
    assert find_ids(machine) == copies
    view = host.view()
    assert not isinstance(view, NoSignal)
    assert view.held == {}


def test_a_container_of_ours_that_somebody_renamed_is_still_the_attempt(
    host: ContainerHost, machine: PrivateEngine, tmp_path: Path, open_host: Callable[..., ContainerHost]
) -> None:
    request = make_request(tmp_path)
    host.launch(request)
    wait_for(host, request.attempt, Phase.RUNNING)
    machine.ask("POST", f"/containers/{name_container(request.attempt)}/rename?name=renamed")
    open_host().launch(request)  # a repeat changes nothing
    wait_for(host, request.attempt, Phase.RUNNING)
    assert len(find_ids(machine)) == 1
    host.remove(request.attempt)
    assert find_ids(machine) == set()
