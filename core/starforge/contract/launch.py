"""LaunchRequest: everything an executor needs to start one attempt, whatever the backend."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from starforge.contract.ids import AttemptId, Digest, JobId
from starforge.errors import LaunchRefused


class Secret:
    """A value that never shows in a repr, a log or a label; `reveal()` is its only way out.

    No dataclass: serialisers walk dataclasses by themselves, and this one must be asked.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file of the host, by its absolute real path, seen at `target` (absolute) in the container."""

    source: str
    target: str
    read_only: bool


class Network(StrEnum):
    """How a container reaches others; a fleet's setting."""

    BRIDGE = "bridge"
    HOST = "host"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolRequest:
    """One pool of the job. `cpus` and `memory_bytes` are per node; None takes the machine's default share."""

    name: str
    nodes: int
    gpus_per_node: int
    series: str | None = None
    cpus: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryLogin:
    """How to sign in to the image's registry for this pull."""

    username: str
    password: Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """One attempt, ready to start.

    Attributes:
        attempt: Names the attempt; every name and label at a backend derives from it.
        install: The install that owns what is started.
        image: By tag, digest or image id, as the engine takes it.
        command: Arguments of `bash`, the only entrypoint.
        workdir: The attempt's directory, on the host and in the container alike.
        user: `uid:gid`, or None for the image's own user.
        env: The container's environment; it shows in `docker inspect`, so it holds no secret.
        secrets: Name to value; they reach the job as files that only its user can read.
        shm_bytes: Size of /dev/shm; None takes half of the memory.
        spans_ray: A Ray cluster spans its nodes, and the command runs on the first of them alone.

    """

    attempt: AttemptId
    job: JobId
    number: int
    install: str
    fleet: str
    image: str
    command: tuple[str, ...]
    workdir: str
    user: str | None
    env: Mapping[str, str]
    secrets: Mapping[str, Secret] = field(repr=False)
    mounts: tuple[Mount, ...]
    pools: tuple[PoolRequest, ...]
    labels: Mapping[str, str]
    network: Network
    grace_s: float
    max_runtime_s: float | None
    shm_bytes: int | None
    capsule_digest: Digest
    ingest_url: str
    registry_login: RegistryLogin | None = None
    spans_ray: bool = False

    @property
    def gpus(self) -> int:
        """GPUs over all pools and nodes."""
        return sum(pool.nodes * pool.gpus_per_node for pool in self.pools)


IMAGE_USER: Final = "image"
"""In place of `uid:gid`: each image's own user runs the jobs."""


def parse_user(user: str) -> tuple[int, int]:
    """The numbers of a LaunchRequest's `uid:gid`. Raises LaunchRefused for anything else: a name says nothing here."""
    uid, _, gid = user.partition(":")
    if not (uid.isascii() and uid.isdigit() and gid.isascii() and gid.isdigit()):
        raise LaunchRefused(
            f"the user {user!r} is not of the form uid:gid",
            why="outside of an image only numbers are known, not names",
            next_step="set FORGE_JOB_UID and FORGE_JOB_GID of the console",
        )
    return int(uid), int(gid)
