"""The lock under which everything is launched: a machine that has none is at fault."""

from collections.abc import Callable
from pathlib import Path

import pytest

from core.tests.containers.builders import make_request, see, wait_for
from starforge.containers.host import ContainerHost
from starforge.contract.launch import Secret
from starforge.contract.observation import Gone, NoSignal, Phase, Seen
from starforge.errors import BackendUnreachable, NodeFault

pytestmark = pytest.mark.engine

OpenHost = Callable[..., ContainerHost]


def test_a_machine_without_its_lock_is_at_fault_says_so_and_takes_nothing(open_host: OpenHost, tmp_path: Path) -> None:
    folder = tmp_path / "absent"
    host = open_host(lock_dir=folder)
    request = make_request(tmp_path, secrets={"TOKEN": Secret("hidden")})
    words = f"the launch lock {folder}/starforge-"
    with pytest.raises(NodeFault, match="No such file or directory") as raised:
        host.launch(request)
    assert words in str(raised.value)
    assert f"make the folder {folder}" in raised.value.next_step
    assert isinstance(see(host, request.attempt), Gone)
    view = host.view()
    assert not isinstance(view, NoSignal)
    assert (view.accepts, words in view.why_not) == (False, True)
    folder.mkdir()
    view = host.view()
    assert not isinstance(view, NoSignal)
    assert view.accepts
    host.launch(request)
    wait_for(host, request.attempt, Phase.RUNNING)


def test_a_repeated_launch_of_what_runs_is_no_fault_of_a_machine_that_lost_its_lock(
    open_host: OpenHost, tmp_path: Path
) -> None:
    request = make_request(tmp_path)
    open_host().launch(request)
    other = open_host(lock_dir=tmp_path / "absent")
    with pytest.raises(BackendUnreachable, match="the launch lock"):
        other.launch(request)
    assert isinstance(other.fence(request.attempt), Seen)
