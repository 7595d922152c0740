"""A real Ray in the pods of a made-up cluster: each node a container with its own address, and this host's Ray."""

import itertools
import json
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from e2e.support.engines import PrivateEngine
from e2e.support.kube import containers
from e2e.support.kube.containers import EngineRefused
from e2e.support.kube.status import Document

START_PARAMS: Final = "made-up/ray-start-params"
"""The annotation in which a pod tells how its Ray is to be started."""
_NETWORK: Final = "ray"
_SUBNET: Final = "10.215.0.0/24"
_FIRST_HOST: Final = 10
_PORT: Final = 6379


@dataclass(slots=True)
class RayNodes:
    """`python` is an interpreter with Ray that any user may run; pods see it, and this host's /usr, where they lie."""

    machine: PrivateEngine
    python: Path
    _hosts: "itertools.count[int]" = field(default_factory=lambda: itertools.count(_FIRST_HOST))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def make_network(self) -> None:
        """The network of all pods, unless the engine has it from an earlier cluster."""
        try:
            containers.ask_engine(self.machine.socket_path, "GET", f"/networks/{_NETWORK}")
        except EngineRefused:
            wanted = {"Name": _NETWORK, "IPAM": {"Config": [{"Subnet": _SUBNET}]}}
            containers.ask_engine(self.machine.socket_path, "POST", "/networks/create", wanted)

    def take_address(self) -> str:
        """An address that no other pod has had."""
        with self._lock:
            return f"{_SUBNET.rpartition('.')[0]}.{next(self._hosts)}"

    def connect(self, body: Document, address: str) -> None:
        """Let the container have the address, and see Ray."""
        body["HostConfig"]["NetworkMode"] = _NETWORK
        home = self.python.parent.parent
        body["HostConfig"]["Binds"] += ["/usr:/usr:ro", f"{home}:{home}:ro"]
        body["NetworkingConfig"] = {"EndpointsConfig": {_NETWORK: {"IPAMConfig": {"IPv4Address": address}}}}

    def build_start(self, pod: Document, address: str, leader: str) -> list[str]:
        """The command that starts Ray in the pod; `leader` is the head's address, its own for the head."""
        params = json.loads(pod["metadata"]["annotations"][START_PARAMS])
        first = ["--head", f"--port={_PORT}", "--include-dashboard=false"]
        place = first if leader == address else [f"--address={leader}:{_PORT}"]
        return [
            *(str(self.python.parent / "ray"), "start", *place, f"--node-ip-address={address}"),
            *("--disable-usage-stats", "--object-store-memory=100000000"),
            *(f"--{name}={value}" for name, value in sorted(params.items()) if name.startswith("num-")),
        ]
