"""The script that the pods of an attempt run, with real processes: it begins once, ends in time, and says how."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.tests.containers.builders import make_request, wait_until
from starforge.contract.launch import PoolRequest
from starforge_console.executors.kuberay.folder import FENCED, Ended, KubeFolder, StartMark
from starforge_console.executors.kuberay.script import build_script, plan_script

POOLS = (PoolRequest(name="main", nodes=1, gpus_per_node=0, cpus=1, memory_bytes=10**9),)
TWO_NODES = (replace(POOLS[0], nodes=2),)
WAITS = "touch began; while [ $SECONDS -lt 120 ]; do sleep 0.05; done"
ENDS_AT_TERM = f"trap 'exit 7' TERM; {WAITS}"
IGNORES_TERM = f"trap '' TERM; {WAITS}"


class Pod:
    """What an attempt's directory and environment are in a pod of that uid."""

    def __init__(self, root: Path, script: str, **changes: Any) -> None:
        request = make_request(root, script, **{"pools": POOLS, "user": None, **changes})
        self.workdir = Path(request.workdir)
        self.folder = KubeFolder(request.workdir)
        self.folder.prepare_scripts(request)
        self.own = self.workdir / ".kuberay"
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, uid: str = "pod-a") -> "subprocess.Popen[bytes]":
        env = {**os.environ, "FORGE_POD_UID": uid, "FORGE_POD_IP": "127.0.0.1"}
        words = ("bash", str(self.own / "entry.sh"), *words)
        started = subprocess.Popen(words, env=env, stderr=subprocess.PIPE, cwd="/", start_new_session=True)
        self._running.append(started)
        return started

    def begin(self, *words: str) -> "subprocess.Popen[bytes]":
        """Start it, and come back once its command runs."""
        started = self.start(*words)
        wait_until((self.workdir / "began").exists, "the command runs")
        return started

    def close(self) -> None:
        for started in self._running:
            if started.poll() is None:
                started.kill()
            started.communicate()
            subprocess.run(["pkill", "-KILL", "-s", str(started.pid)], check=False)  # what it left in its session


@pytest.fixture
def in_pod(tmp_path: Path) -> Iterator[Callable[..., Pod]]:
    pods: list[Pod] = []

    def make(script: str, **changes: Any) -> Pod:
        pods.append(Pod(tmp_path, script, **changes))
        return pods[-1]

    yield make
    for pod in pods:
        pod.close()


def is_running(pid: int) -> bool:
    """Whether it is there, and no zombie that nobody has looked after."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except FileNotFoundError:
        return False


def test_the_first_makes_the_mark_and_its_code_is_the_commands(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod("echo from the command; exit 3")
    assert pod.start().wait(30) == 3
    mark = pod.folder.find_mark()
    assert mark is not None
    assert mark.pod == "pod-a"
    assert abs(mark.at - time.time()) < 60
    assert pod.folder.find_ended() == Ended(code=3)
    assert "from the command" in (pod.own / "log").read_text()


def test_who_comes_second_starts_nothing(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod("echo once >>count")
    assert pod.start().wait(30) == 0
    second = pod.start(uid="pod-b")
    assert second.wait(30) == 199
    assert second.stderr is not None
    assert b"nothing is started: pod pod-a" in second.stderr.read()
    assert (pod.workdir / "count").read_text() == "once\n"
    assert pod.folder.find_ended() == Ended(code=0)


def test_after_a_fence_nothing_is_started(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod("touch began")
    assert pod.folder.fence()
    assert pod.start().wait(30) == 199
    assert not (pod.workdir / "began").exists()
    assert pod.folder.find_mark() is FENCED
    assert pod.folder.find_ended() is None


def test_after_the_start_a_fence_comes_too_late(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod(WAITS)
    pod.begin()
    assert not pod.folder.fence()
    assert isinstance(pod.folder.find_mark(), StartMark)


def test_a_wish_to_stop_is_a_term_for_the_command(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod(ENDS_AT_TERM)
    running = pod.begin()
    pod.folder.ask_to_end(30)
    assert running.wait(30) == 7
    assert pod.folder.find_ended() == Ended(code=7)


def test_what_does_not_end_in_its_time_is_killed_with_all_that_it_started(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod(f"(trap '' TERM; sleep 1000) & echo $! >below; {IGNORES_TERM}")
    script = pod.own / "entry.sh"
    script.write_text(script.read_text().replace("left + 20", "left + 0"))
    running = pod.begin()
    pod.folder.ask_to_end(30)
    pod.folder.ask_to_end(1)
    assert running.wait(30) == 137
    assert pod.folder.find_ended() == Ended(code=137)
    below = int((pod.workdir / "below").read_text())
    wait_until(lambda: not is_running(below), "what the command started is gone")


def test_a_term_of_the_script_itself_ends_it_with_its_grace(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod(ENDS_AT_TERM, grace_s=11)
    running = pod.begin()
    running.terminate()
    assert running.wait(30) == 7
    assert (pod.own / "stop").read_text() == "11\n"


def test_a_pod_that_is_taken_away_waits_for_the_command_and_says_why_it_ended(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod(f"trap 'sleep 0.2; touch saved; exit 9' TERM; {WAITS}")
    running = pod.begin()
    leaving = pod.start("leave")
    assert leaving.wait(30) == 0
    assert (pod.workdir / "saved").exists()
    assert running.wait(30) == 9
    assert pod.folder.find_ended() == Ended(code=9, left=True)


def test_a_pod_in_which_nothing_began_or_all_has_ended_may_go_at_once(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod("exit 0")
    assert pod.start("leave").wait(30) == 0
    assert pod.start().wait(30) == 0
    assert pod.start("leave").wait(30) == 0
    assert (pod.own / "stop").read_text() == ""


def test_a_pod_whose_container_was_restarted_waits_for_nothing(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod(WAITS)
    pod.begin()
    pid, _start = (pod.own / "alive-pod-a").read_text().split()
    (pod.own / "alive-pod-a").write_text(f"{pid} 1\n")  # the number is another process's now
    assert pod.start("leave").wait(30) == 0


def test_another_node_ends_with_the_first_that_fails(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod(ENDS_AT_TERM)
    running = pod.begin("node", "2", "10.0.0.1")
    (pod.own / "failed").write_text("1 5\n")
    assert running.wait(30) == 7
    assert (pod.own / "failed").read_text() == "1 5\n"


def test_a_node_knows_its_rank_and_the_first_nodes_address(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod('echo "$FORGE_NODE_RANK $FORGE_LEADER_ADDR" >told')
    assert pod.start("node", "2", "10.0.0.1").wait(30) == 0
    assert (pod.workdir / "told").read_text() == "2 10.0.0.1\n"
    assert pod.start().wait(30) == 0
    assert (pod.workdir / "told").read_text() == "0 127.0.0.1\n"


@pytest.mark.parametrize("asked", [{}, {"OMP_NUM_THREADS": "4"}])
def test_the_command_finds_no_number_of_threads_that_only_ray_wished_for(
    in_pod: Callable[..., Pod], asked: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", asked.get("OMP_NUM_THREADS", "1"))
    pod = in_pod("echo ${OMP_NUM_THREADS:-none} >told", env=asked)
    assert pod.start().wait(30) == 0
    assert (pod.workdir / "told").read_text().strip() == asked.get("OMP_NUM_THREADS", "none")


def test_several_nodes_fail_with_the_code_of_the_first_to_fail(in_pod: Callable[..., Pod]) -> None:
    pod = in_pod("exit 4", pools=TWO_NODES)
    # In place of Ray: the other node fails first.
    (pod.own / "spread.py").write_text("import time\nopen('.kuberay/failed', 'x').write('1 5\\n')\n")
    (pod.own / "entry.sh").write_text((pod.own / "entry.sh").read_text().replace("\nrun 0\n", "\nsleep 1\nrun 0\n"))
    assert pod.start().wait(30) == 5
    assert pod.folder.find_ended() == Ended(code=5)


def test_several_nodes_of_which_one_cannot_be_reached_are_a_lost_node(
    in_pod: Callable[..., Pod],
) -> None:
    pod = in_pod(ENDS_AT_TERM, pools=TWO_NODES)
    (pod.own / "spread.py").write_text("import nothing_of_that_name\n")
    assert pod.start().wait(30) == 195
    assert pod.folder.find_ended() == Ended(code=195)


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize("ray", [False, True])
def test_bash_takes_the_script_of_every_kind(
    tmp_path: Path,
    nodes: int,
    ray: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    request = make_request(tmp_path, 'echo "it\'s" $HOME', pools=(replace(POOLS[0], nodes=nodes),), spans_ray=ray)
    script = build_script(plan_script(request))
    checked = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
    assert checked.stderr == ""
    assert ("spread.py" in script) == (nodes > 1 and not ray)
    assert ("RAY_ADDRESS" in script) == ray
