"""Labels: what a container says of its attempt. They alone are the truth of what is allocated."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from starforge.containers.engine import Document
from starforge.contract.ids import AttemptId, parse_attempt_id
from starforge.errors import SpecError

INSTALL: Final = "forge.install"
FLEET: Final = "forge.fleet"
NODE: Final = "forge.node"
JOB: Final = "forge.job"
ATTEMPT: Final = "forge.attempt"
CPUS: Final = "forge.cpus"
MEMORY: Final = "forge.memory"
PORT: Final = "forge.port"
BOOT: Final = "forge.boot"
GPUS: Final = "forge.gpus"
"""How many GPUs are named. Every container of ours has each of these labels, for one that is left out would be the
image's own to set: an image could then claim GPUs or ports."""
GPU_PREFIX: Final = "forge.gpu."

OWN: Final = (INSTALL, FLEET, NODE, JOB, ATTEMPT, CPUS, MEMORY, PORT, BOOT, GPUS)


class State(StrEnum):
    """The engine's words for a container's state."""

    CREATED = "created"
    RUNNING = "running"
    PAUSED = "paused"
    RESTARTING = "restarting"
    REMOVING = "removing"
    EXITED = "exited"
    DEAD = "dead"


ENDED: Final = frozenset({State.EXITED, State.DEAD, State.REMOVING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One container as the listing shows it, and what it holds."""

    container: str
    state: str
    attempt: AttemptId
    install: str
    boot: str
    gpus: tuple[str, ...]
    cpus: float
    memory_bytes: int
    port: int | None
    image_id: str
    image: str = ""
    """What it was created from, as it was asked for."""

    def holds(self, boot: str) -> bool:
        """Whether its GPUs, CPUs and memory are taken: from its creation to its end, and not beyond a reboot.

        A container whose state is unknown holds what it names.
        """
        if self.state in ENDED:
            return False
        # After a reboot nothing of an earlier boot runs, unless the engine says so.
        return self.boot == boot or self.state != State.CREATED


def name_container(attempt: AttemptId) -> str:
    """The one name under which `attempt` can exist at an engine."""
    return f"starforge-{attempt}"


def find_claim(listed: Document) -> Claim | None:
    """What `listed` claims, or None when it is no container that a StarForge install made."""
    labels: Mapping[str, str] = listed.get("Labels") or {}
    try:
        attempt = parse_attempt_id(labels.get(ATTEMPT, ""))
    except SpecError:
        return None
    if _is_copy(listed, attempt):
        return None
    return Claim(
        container=str(listed["Id"]),
        state=str(listed.get("State", "")),
        attempt=attempt,
        install=labels.get(INSTALL, ""),
        boot=labels.get(BOOT, ""),
        gpus=_gpus_of(labels),
        cpus=_number(labels.get(CPUS)),
        memory_bytes=int(_number(labels.get(MEMORY))),
        port=int(_number(labels[PORT])) if labels.get(PORT) else None,
        image_id=str(listed.get("ImageID", "")),
        image=str(listed.get("Image", "")),
    )


def find_claims(listing: Sequence[Document]) -> list[Claim]:
    """Every claim in `listing`."""
    return [claim for listed in listing if (claim := find_claim(listed)) is not None]


def _is_copy(listed: Document, attempt: AttemptId) -> bool:
    """Whether the labels came with an image: one that somebody made of a job's container carries them for ever.

    Whatever that container is, it is not the attempt. One of ours that was renamed still has the attempt's own folder.
    """
    names, mounts = listed.get("Names"), listed.get("Mounts")
    if not names or mounts is None or f"/{name_container(attempt)}" in names:
        return False
    return not any(attempt in str(mount.get("Source")) for mount in mounts)


def _gpus_of(labels: Mapping[str, str]) -> tuple[str, ...]:
    named = {name.removeprefix(GPU_PREFIX): uuid for name, uuid in labels.items() if name.startswith(GPU_PREFIX)}
    if GPUS in labels:
        count = _number(labels[GPUS])
        named = {key: uuid for key, uuid in named.items() if key.isascii() and key.isdigit() and float(key) < count}
    return tuple(named[key] for key in sorted(named, key=lambda key: (len(key), key)))


def _number(text: str | None) -> float:
    """What a label says; 0 for what no container of ours says, such as "inf": whoever starts one may write anything."""
    try:
        number = float(text or 0)
    except ValueError:
        return 0.0
    return number if math.isfinite(number) and number > 0 else 0.0
