"""GPUs of this machine: which there are. Not knowing is an answer of its own, never "none" and never "all free"."""

import math
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, Protocol, TypeAlias

from starforge.containers.gpu_cards import ONE_GPU_ALONE, Card, Listing
from starforge.containers.gpu_probe import Unsaid
from starforge.containers.gpu_users import NOBODY, GpuUser
from starforge.containers.nvidia_smi import PROGRAM, TIMEOUT_S, NvidiaSmiReader

_MIB: Final = 1024 * 1024
_NAMESPACE: Final = uuid.UUID("6f4a1f0e-7c55-4f4b-9a59-0d1b6f2f5f11")
_FRESH_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. `why_not` is empty for one that can be given to a job; `users` are the processes on it."""

    uuid: str
    index: int
    name: str
    memory_bytes: int | None
    why_not: str = ""
    users: tuple[GpuUser, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuSurvey:
    """What was found, in the order of the machine's slots; `complaints` say what could not be read or is at fault."""

    gpus: tuple[Gpu, ...]
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotKnown:
    """The machine could not be asked, or its answer could not be understood."""

    reason: str


SurveyResult: TypeAlias = GpuSurvey | NotKnown

WITHOUT_GPUS: Final = "for a machine without GPUs set FORGE_GPU_RUNTIME=none"
"""What to do where GPUs are not known because there are none: that is never guessed."""


class GpuSource(Protocol):
    """Says which GPUs this machine has."""

    def survey(self) -> SurveyResult:
        """Look now. Never raises for what the machine does."""


class MadeUpGpus:
    """GPUs that exist in name alone, with UUIDs that stay the same for one `identity` (a machine's)."""

    def __init__(self, count: int, name: str, identity: str) -> None:
        self._survey = GpuSurvey(
            tuple(
                Gpu(
                    uuid=f"GPU-{uuid.uuid5(_NAMESPACE, f'{identity}/{index}')}",
                    index=index,
                    name=name,
                    memory_bytes=None,
                )
                for index in range(count)
            )
        )

    def survey(self) -> SurveyResult:
        """The same GPUs every time."""
        return self._survey


class NvidiaSmi:
    """GPUs as `nvidia-smi` lists them; the first `ceiling` in PCI order are offered, 0 offers all.

    One program runs at a time however many ask, and none is started while one that cannot be killed still hangs.
    """

    def __init__(
        self, ceiling: int = 0, program: str = PROGRAM, timeout_s: float = TIMEOUT_S, proc: Path = Path("/proc")
    ) -> None:
        self._ceiling = ceiling
        self._reader = NvidiaSmiReader(program, timeout_s, proc)
        self._lock = Lock()
        self._asked_at = -math.inf
        self._answer: SurveyResult = NotKnown("nvidia-smi was not asked yet")

    def survey(self) -> SurveyResult:
        """Ask the driver within the time limit; an answer that is not two seconds old stands."""
        with self._lock:
            if time.monotonic() - self._asked_at > _FRESH_S:
                self._answer = self._ask()
                self._asked_at = time.monotonic()
            return self._answer

    def _ask(self) -> SurveyResult:
        listing = self._reader.read_cards()
        if isinstance(listing, Unsaid):
            return NotKnown(listing.reason)
        survey = build_survey(listing, self._ceiling)
        if isinstance(survey, NotKnown):
            return survey
        users = self._reader.read_users()
        if isinstance(users, Unsaid):
            return GpuSurvey(survey.gpus, (*survey.complaints, f"who uses the GPUs is not known: {users.reason}"))
        return build_survey(listing, self._ceiling, users)


def build_survey(listing: Listing, ceiling: int = 0, users: Mapping[str, tuple[GpuUser, ...]] = NOBODY) -> SurveyResult:
    """The GPUs of `listing` in the order of their slots. Pure.

    A GPU at fault is kept and not offered, alone; an error that concerns the whole machine, or no GPU at all, is
    NotKnown.
    """
    machine = [error.message for error in listing.errors if error.code not in ONE_GPU_ALONE]
    single = [error.message for error in listing.errors if error.code in ONE_GPU_ALONE]
    unread = [f"nvidia-smi said {line!r}, which names no GPU" for line in listing.unread]
    nameless = [f"a GPU tells no UUID or index: {card.detail or card.name}" for card in listing.cards if _hides(card)]
    cards = sorted((card for card in listing.cards if not _hides(card)), key=lambda card: (card.slot, card.index))
    complaints = [*single, *nameless, *unread]
    if machine or not cards:
        return NotKnown("; ".join([*machine, *complaints]) or "nvidia-smi listed nothing")
    complaints += [f"GPU {card.index} ({card.uuid}) is not offered: {card.detail}" for card in cards if card.why]
    if ceiling and len(cards) < ceiling:
        complaints.append(f"{ceiling} GPUs are set to be offered, {len(cards)} are there")
    gpus = tuple(_build_gpu(card, users) for card in cards)
    return GpuSurvey(gpus[:ceiling] if ceiling else gpus, tuple(complaints))


def _hides(card: Card) -> bool:
    return card.uuid is None or card.index is None


def _build_gpu(card: Card, users: Mapping[str, tuple[GpuUser, ...]]) -> Gpu:
    if card.uuid is None or card.index is None:
        raise ValueError(f"{card.name} has no UUID or index")  # build_survey lets none through
    return Gpu(
        uuid=card.uuid,
        index=card.index,
        name=card.name,
        memory_bytes=None if card.memory_mib is None else card.memory_mib * _MIB,
        why_not=card.why.value if card.why else "",
        users=users.get(card.uuid, ()),
    )
