"""A pod as a container of an engine: its mounts, environment and user, as a kubelet makes them."""

import base64
import contextlib
import http.client
import json
import os
import re
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

from e2e.support.kube.status import Document

_LABEL: Final = re.compile(r"metadata\.(labels|annotations)\['([^']+)'\]")
_BAD: Final = 400


class EngineRefused(Exception):
    """The engine answered with an error."""


@dataclass(frozen=True, slots=True)
class Disks:
    """What volumes are on this host: the folder of each claim, and where files of secrets are written."""

    claims: Mapping[str, Path]
    secrets: Path


def ask_engine(socket_path: str, method: str, path: str, body: object = None) -> Document:
    """One call of the engine. Raises EngineRefused."""
    connection = http.client.HTTPConnection("engine", timeout=60)
    with contextlib.closing(connection), socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(socket_path)
        connection.sock = sock
        content = None if body is None else json.dumps(body)
        connection.request(method, path, content, {"Content-Type": "application/json"})
        response = connection.getresponse()
        said = response.read()
        if response.status >= _BAD:
            raise EngineRefused(f"{method} {path}: {said.decode(errors='replace')}")
        found = json.loads(said) if said.startswith(b"{") else {}
        return dict(found)


def build_body(pod: Document, address: str, binds: list[str]) -> Document:
    """The container that stands for the pod: it holds what runs in it, and starts nothing by itself."""
    container = pod["spec"]["containers"][0]
    host: Document = {"Binds": binds, "Init": True, "NetworkMode": "bridge"}
    memory = [name for name, path in _list_memory_mounts(pod) if path == "/dev/shm"]  # noqa: S108 - the pod's own
    if memory:
        host["ShmSize"] = 1 << 30
    tmpfs = [path for _, path in _list_memory_mounts(pod) if path != "/dev/shm"]  # noqa: S108 - as above
    return {
        "Image": container["image"],
        "Entrypoint": ["sleep"],
        "Cmd": ["infinity"],
        "Env": [f"{name}={value}" for name, value in build_env(pod, address).items()],
        "User": find_user(pod),
        "WorkingDir": container.get("workingDir", ""),
        "Hostname": pod["metadata"]["name"][:63],
        "HostConfig": host | ({"Tmpfs": dict.fromkeys(tmpfs, "mode=1777")} if tmpfs else {}),
    }


def build_env(pod: Document, address: str) -> dict[str, str]:
    """The environment, with what pods are told of themselves."""
    env = {}
    for entry in pod["spec"]["containers"][0].get("env") or ():
        source = (entry.get("valueFrom") or {}).get("fieldRef")
        env[entry["name"]] = find_field(pod, source["fieldPath"], address) if source else entry.get("value", "")
    return env


def find_field(pod: Document, path: str, address: str) -> str:
    """What the downward API says."""
    match = _LABEL.fullmatch(path)
    if match is not None:
        return str((pod["metadata"].get(match[1]) or {}).get(match[2], ""))
    if path in {"status.podIP", "status.hostIP"}:
        return address
    value: object = pod
    for step in path.split("."):
        value = value.get(step, "") if isinstance(value, dict) else ""
    return str(value)


def find_user(pod: Document) -> str:
    """Who runs in it, as the engine takes it; empty for the image's own user."""
    both = {**(pod["spec"].get("securityContext") or {})}
    both |= pod["spec"]["containers"][0].get("securityContext") or {}
    if "runAsUser" not in both:
        return ""
    return f"{both['runAsUser']}:{both.get('runAsGroup', 0)}"


def list_secrets(pod: Document) -> list[str]:
    """The Secrets that must be there before it can start."""
    sources = [volume.get("secret") for volume in pod["spec"].get("volumes") or ()]
    return [source["secretName"] for source in sources if source and not source.get("optional")]


def make_binds(pod: Document, disks: Disks, secrets: Mapping[str, Document]) -> list[str]:
    """Make what is mounted, and say where: a line a mount, as the engine takes it."""
    volumes = {volume["name"]: volume for volume in pod["spec"].get("volumes") or ()}
    binds = []
    for mount in pod["spec"]["containers"][0].get("volumeMounts") or ():
        source = _find_source(pod, volumes[mount["name"]], disks, secrets)
        if source is None:
            continue
        path = source / mount["subPath"] if mount.get("subPath") else source
        if not path.exists():
            path.mkdir(parents=True)
        binds.append(f"{path}:{mount['mountPath']}:{'ro' if mount.get('readOnly') else 'rw'}")
    return binds


def drop_secrets(pod: Document, disks: Disks) -> None:
    """Remove the files of its secrets."""
    shutil.rmtree(disks.secrets / pod["metadata"]["uid"], ignore_errors=True)


def exec_in(socket_path: str, container: str, argv: list[str], env: Mapping[str, str] | None = None) -> str:
    """Begin to run a program in the container; its id."""
    wanted = {"Cmd": argv, "Env": [f"{name}={value}" for name, value in (env or {}).items()]}
    made = ask_engine(socket_path, "POST", f"/containers/{container}/exec", wanted)
    ask_engine(socket_path, "POST", f"/exec/{made['Id']}/start", {"Detach": True})
    return str(made["Id"])


def end(socket_path: str, container: str, grace_s: float) -> None:
    """TERM, KILL after the grace, and remove it."""
    with contextlib.suppress(EngineRefused):
        ask_engine(socket_path, "POST", f"/containers/{container}/stop?{urlencode({'t': round(grace_s)})}")
    with contextlib.suppress(EngineRefused):
        ask_engine(socket_path, "DELETE", f"/containers/{container}?force=true&v=true")


def _list_memory_mounts(pod: Document) -> list[tuple[str, str]]:
    memory = {volume["name"] for volume in pod["spec"].get("volumes") or () if "emptyDir" in volume}
    mounts = pod["spec"]["containers"][0].get("volumeMounts") or ()
    return [(mount["name"], mount["mountPath"]) for mount in mounts if mount["name"] in memory]


def _find_source(pod: Document, volume: Document, disks: Disks, secrets: Mapping[str, Document]) -> Path | None:
    if "persistentVolumeClaim" in volume:
        claim: str = volume["persistentVolumeClaim"]["claimName"]
        return disks.claims[claim]
    if "hostPath" in volume:
        return Path(volume["hostPath"]["path"])
    if "secret" in volume:
        return _write_secret(pod, volume["secret"], disks, secrets)
    return None


def _write_secret(pod: Document, source: Document, disks: Disks, secrets: Mapping[str, Document]) -> Path:
    folder: Path = disks.secrets / pod["metadata"]["uid"] / source["secretName"]
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    folder.parent.chmod(0o755)
    group = (pod["spec"].get("securityContext") or {}).get("fsGroup", -1)
    data = secrets.get(source["secretName"], {}).get("data") or {}
    names = {item["key"]: item["path"] for item in source.get("items") or ()} or {name: name for name in data}
    for key, name in names.items():
        file = folder / name
        file.write_bytes(base64.b64decode(data[key]))
        file.chmod(source.get("defaultMode", 0o644))
        os.chown(file, -1, group)
    return folder
