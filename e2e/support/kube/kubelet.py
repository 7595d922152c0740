"""The kubelets of all nodes: the pod of a Ray head is a container of a private engine, others are only said to run.

Whoever submits a job starts its entrypoint in the head's container, as Ray would. A real Ray runs in the pods only
where it is given; then each pod of a Ray node is a container.
"""

import contextlib
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from e2e.support.engines import PrivateEngine
from e2e.support.kube import containers
from e2e.support.kube.containers import Disks, EngineRefused
from e2e.support.kube.inside import Inside
from e2e.support.kube.kinds import PODS, SECRETS
from e2e.support.kube.ray_nodes import RayNodes
from e2e.support.kube.scheduling import ENDED
from e2e.support.kube.status import Document
from e2e.support.kube.store import now

HEAD: Final = "head"
NODE_TYPE: Final = "ray.io/node-type"
CLUSTER: Final = "ray.io/cluster"
HERE: Final = "127.0.0.1"
_RAY_S: Final = 120.0
_THREADS: Final = 6
_KILLED: Final = 137


class Kubelet:
    """`denied` are images that cannot be had, and what the registry says; `errors` is what failed that should not."""

    def __init__(self, inside: Inside, machine: PrivateEngine, disks: Disks, ray: RayNodes | None = None) -> None:
        self.denied: dict[str, str] = {}
        self.errors: list[str] = []
        self._ray = ray
        self._inside = inside
        self._machine = machine
        self._disks = disks
        self._containers: dict[str, str] = {}
        self._programs: dict[str, str] = {}
        self._busy: set[str] = set()
        self._lock = threading.Lock()
        self._workers = ThreadPoolExecutor(_THREADS, "kubelet")

    def sync(self) -> None:
        """Bring every pod that has a node one step further."""
        for pod in self._inside.list(PODS):
            if not pod["spec"].get("nodeName"):
                continue
            if "deletionTimestamp" in pod["metadata"]:
                self._begin(self._end, pod)
            elif pod["status"].get("phase") in (None, "Pending"):
                self._prepare(pod)

    def run(self, pod: Document, argv: list[str]) -> str | None:
        """Begin to run a program in the pod's container; its id, or None where there is no container."""
        container = self._containers.get(pod["metadata"]["uid"])
        if container is None:
            return None
        with contextlib.suppress(EngineRefused):
            program = containers.exec_in(self._socket, container, argv)
            self._programs[program] = pod["metadata"]["uid"]
            return program
        return None

    def find_exit(self, program: str) -> int | None:
        """The exit code of a program that was run; None while it runs, and once its container died with it."""
        found = self._inspect(program)
        if found is None or found["Running"] or program not in self._programs:
            return None
        code: int = found["ExitCode"]
        return code

    def restart(self, pod: Document, reason: str = "Error") -> None:
        """The container dies with all that runs in it, and starts anew in the same pod."""
        container = self._forget_programs(pod)
        containers.ask_engine(self._socket, "POST", f"/containers/{container}/restart?t=0")
        restarts = pod["status"]["containerStatuses"][0]["restartCount"] + 1
        ended = {"terminated": {"exitCode": _KILLED, "reason": reason, "finishedAt": now()}}
        self._say_running(pod, restarts, ended)

    def kill(self, pod: Document, reason: str = "OOMKilled") -> None:
        """The container dies and stays dead: the pod has failed."""
        container = self._forget_programs(pod)
        containers.ask_engine(self._socket, "POST", f"/containers/{container}/kill")
        state = {"terminated": {"exitCode": _KILLED, "reason": reason, "finishedAt": now()}}
        self._inside.set_status(PODS, pod, {"phase": "Failed", "containerStatuses": [_describe(pod, state)]})

    def lose(self, pod: Document) -> None:
        """The pod's node is gone, and the pod with it."""
        self._forget_programs(pod)
        self._inside.delete(PODS, pod, gracePeriodSeconds=0)
        self._remove(pod)

    def describe(self, pod: Document) -> str:
        """All that the engine shows of the pod's container."""
        container = self._containers.get(pod["metadata"]["uid"])
        if container is None:
            return ""
        shown = containers.ask_engine(self._socket, "GET", f"/containers/{container}/json")
        processes = containers.ask_engine(self._socket, "GET", f"/containers/{container}/top")
        return json.dumps([shown, processes])

    def close(self) -> None:
        """End every container."""
        self._workers.shutdown(wait=True)
        for container in self._containers.values():
            containers.end(self._socket, container, 0)

    @property
    def _socket(self) -> str:
        return self._machine.socket_path

    def _begin(self, work: Callable[[Document], None], pod: Document) -> None:
        """Do the work in a thread, unless something is being done to the pod."""
        uid = pod["metadata"]["uid"]
        with self._lock:
            if uid in self._busy:
                return
            self._busy.add(uid)

        def then_free() -> None:
            try:
                work(pod)
            except Exception as error:  # noqa: BLE001 - the thread's outermost frame; the test fails by what is kept
                self.errors.append(f"{pod['metadata']['name']}: {type(error).__name__}: {error}")
            finally:
                with self._lock:
                    self._busy.discard(uid)

        self._workers.submit(then_free)

    def _prepare(self, pod: Document) -> None:
        container = pod["spec"]["containers"][0]
        missing = [name for name in containers.list_secrets(pod) if self._find_secret(pod, name) is None]
        if container["image"] in self.denied:
            self._say_waiting(pod, *_decide_pull(pod, container["image"], self.denied[container["image"]]))
        elif missing:
            self._say_waiting(pod, "ContainerCreating", "")
        elif pod["metadata"]["labels"].get(NODE_TYPE) == HEAD or self._find_leader(pod):
            self._begin(self._start, pod)
        elif self._ray is None or NODE_TYPE not in pod["metadata"]["labels"]:
            self._say_running(pod)

    def _start(self, pod: Document) -> None:
        secrets = {name: self._find_secret(pod, name) or {} for name in containers.list_secrets(pod)}
        binds = containers.make_binds(pod, self._disks, secrets)
        address = self._ray.take_address() if self._ray is not None else HERE
        body = containers.build_body(pod, address, binds)
        if self._ray is not None:
            self._ray.connect(body, address)
        try:
            made = containers.ask_engine(
                self._socket, "POST", f"/containers/create?name={pod['metadata']['name']}", body
            )
            containers.ask_engine(self._socket, "POST", f"/containers/{made['Id']}/start")
        except EngineRefused as refused:
            self._say_waiting(pod, "CreateContainerError", str(refused))
            return
        self._containers[pod["metadata"]["uid"]] = made["Id"]
        if self._ray is not None:
            start = self._ray.build_start(pod, address, self._find_leader(pod) or address)
            program = containers.exec_in(self._socket, made["Id"], start)
            code = self._wait_for(program, _RAY_S, lambda: not self._is_wanted(pod))
            if code != 0:
                self._inside.set_status(PODS, pod, {"phase": "Failed", "message": f"Ray did not start: {code}"})
                return
        self._say_running(pod, address=address)

    def _find_leader(self, pod: Document) -> str:
        """The address of the head that a worker is to join; empty where there is none, or nothing to join."""
        labels = pod["metadata"]["labels"]
        if self._ray is None or labels.get(NODE_TYPE) in {None, HEAD}:
            return ""
        heads = [one for one in self._inside.list(PODS) if is_ready(one) and _is_head_of(one, labels[CLUSTER])]
        return str(heads[0]["status"]["podIP"]) if heads else ""

    def _end(self, pod: Document) -> None:
        """What was to run before the stop, then TERM, and KILL after the grace."""
        container = self._containers.get(pod["metadata"]["uid"])
        grace_s = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        if container is not None and grace_s:
            self._run_last(pod, container, grace_s)
            containers.end(self._socket, container, 0)
        self._remove(pod)
        self._inside.delete(PODS, pod, gracePeriodSeconds=0)

    def _run_last(self, pod: Document, container: str, grace_s: float) -> None:
        hook = (pod["spec"]["containers"][0].get("lifecycle") or {}).get("preStop")
        if hook is None:
            return
        with contextlib.suppress(EngineRefused):
            self._wait_for(containers.exec_in(self._socket, container, hook["exec"]["command"]), grace_s)

    def _is_wanted(self, pod: Document) -> bool:
        found = self._inside.find(PODS, pod["metadata"]["namespace"], pod["metadata"]["name"])
        return found is not None and "deletionTimestamp" not in found["metadata"]

    def _wait_for(self, program: str, limit_s: float, gives_up: Callable[[], bool] = lambda: False) -> int | None:
        """The exit code of a program, None where it goes on for longer or its container is gone."""
        deadline, pause = time.monotonic() + limit_s, threading.Event()
        while time.monotonic() < deadline and not gives_up():
            found = self._inspect(program)
            if found is None:
                return None
            if not found["Running"]:
                code: int = found["ExitCode"]
                return code
            pause.wait(0.05)
        return None

    def _inspect(self, program: str) -> Document | None:
        try:
            return containers.ask_engine(self._socket, "GET", f"/exec/{program}/json")
        except EngineRefused:
            return None

    def _forget_programs(self, pod: Document) -> str:
        """Whatever becomes of them by the container's end, nobody learns; the container."""
        uid = pod["metadata"]["uid"]
        self._programs = {program: one for program, one in self._programs.items() if one != uid}
        return self._containers[uid]

    def _remove(self, pod: Document) -> None:
        container = self._containers.pop(pod["metadata"]["uid"], None)
        if container is not None:
            containers.end(self._socket, container, 0)
        containers.drop_secrets(pod, self._disks)

    def _find_secret(self, pod: Document, name: str) -> Document | None:
        return self._inside.find(SECRETS, pod["metadata"]["namespace"], name)

    def _say_running(
        self, pod: Document, restarts: int = 0, last: Document | None = None, *, address: str = HERE
    ) -> None:
        state = {"running": {"startedAt": now()}}
        status = {
            "phase": "Running",
            "podIP": address,
            "hostIP": HERE,
            "startTime": pod["status"].get("startTime", now()),
            "conditions": [{"type": name, "status": "True"} for name in ("PodScheduled", "Ready", "ContainersReady")],
            "containerStatuses": [_describe(pod, state, restarts, last)],
        }
        self._inside.set_status(PODS, pod, status)

    def _say_waiting(self, pod: Document, reason: str, message: str) -> None:
        state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}
        known = (pod["status"].get("containerStatuses") or [{}])[0].get("state")
        if known != state:
            conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]
            status = {"phase": "Pending", "conditions": conditions, "containerStatuses": [_describe(pod, state)]}
            self._inside.set_status(PODS, pod, status)


def has_ended(pod: Document) -> bool:
    """Whether nothing runs in it any more."""
    return pod["status"].get("phase") in ENDED


def is_ready(pod: Document) -> bool:
    """Whether its container runs."""
    return bool(pod["status"].get("phase") == "Running") and "deletionTimestamp" not in pod["metadata"]


def _is_head_of(pod: Document, cluster: str) -> bool:
    labels = pod["metadata"].get("labels") or {}
    return (labels.get(CLUSTER), labels.get(NODE_TYPE)) == (cluster, HEAD)


def _describe(pod: Document, state: Document, restarts: int = 0, last: Document | None = None) -> Document:
    container = pod["spec"]["containers"][0]
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"docker.io/library/made-up@sha256:{'0' * 64}",
        "ready": "running" in state,
        "started": "running" in state,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }


def _decide_pull(pod: Document, image: str, said: str) -> tuple[str, str]:
    """A pull that failed is told first, and then that it is waited before the next one."""
    known = (pod["status"].get("containerStatuses") or [{}])[0].get("state", {}).get("waiting", {})
    failed = f'failed to pull and unpack image "{image}": {said}'
    if known.get("reason") in {"ErrImagePull", "ImagePullBackOff"}:
        return "ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {failed}'
    return "ErrImagePull", failed
