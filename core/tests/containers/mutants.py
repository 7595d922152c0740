"""Hosts that lack one guard each: the machine must find every one of them out.

A guard is taken out by overriding what it is made of. ContainerHost builds its parts itself, so the one place that
reaches into it is `with_part`, which makes a part of an own subclass of its class.
"""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from core.tests.containers.machine import MakeHost
from starforge.containers.engine import Engine
from starforge.containers.facts import HostFacts
from starforge.containers.failures import StartFault
from starforge.containers.gpus import GpuSource, GpuSurvey
from starforge.containers.host import ContainerHost
from starforge.containers.labels import ATTEMPT, INSTALL, Claim, State, find_claims
from starforge.containers.launching import Launcher, _Tried
from starforge.containers.secrets import SecretFiles
from starforge.containers.settings import HostSettings
from starforge.containers.spec import Allotment
from starforge.containers.stopping import Stops
from starforge.contract.executor import Swept
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Gone, NoSignal, Observation

_ENDED: Final = frozenset({State.EXITED, State.DEAD})


def with_part(name: str, part: type[object]) -> MakeHost:
    """Makes hosts whose part `name` is a `part`."""

    def make(engine: Engine, gpus: GpuSource, settings: HostSettings) -> ContainerHost:
        host = ContainerHost(engine, gpus, settings)
        getattr(host, name).__class__ = part
        return host

    return make


class WithoutLock(Launcher):
    """The lock is left out."""

    def hold_lock(self) -> AbstractContextManager[None]:
        return nullcontext()


class WithoutAttemptLock(Launcher):
    """A fence does not wait for a launch that is under way."""

    def hold_attempt(self, attempt: AttemptId) -> AbstractContextManager[None]:
        del attempt
        return nullcontext()


class WithoutSecondLook(Launcher):
    """Between create and start nobody looks whether another container names the same GPUs."""

    _created = False

    def _try(self, request: LaunchRequest, allotment: Allotment, facts: HostFacts) -> _Tried | StartFault:
        self._created = True
        try:
            return super()._try(request, allotment, facts)
        finally:
            self._created = False

    def list_claims(self) -> list[Claim]:
        return [] if self._created else super().list_claims()


class WithoutFence(Launcher):
    """Fences are written and not read."""

    def _require_not_fenced(self, attempt: AttemptId) -> None:
        del attempt


class WithEarlyFence(Launcher):
    """The fence is read before the lock is taken, and not again under it."""

    def start(self, request: LaunchRequest) -> StartFault | None:
        super()._require_not_fenced(request.attempt)
        return super().start(request)

    def _require_not_fenced(self, attempt: AttemptId) -> None:
        del attempt


class StartsEndedAgain(Launcher):
    """A repeat starts the container that has ended."""

    def _start_locked(self, request: LaunchRequest, survey: GpuSurvey, facts: HostFacts) -> StartFault | None:
        own = self._find_own(request.attempt, self.list_claims())
        if own is not None and own.state in _ENDED:
            self._engine.start(own.container)
        return super()._start_locked(request, survey, facts)


class ReplacesEnded(Launcher):
    """A repeat puts a new container in the place of the one that has ended."""

    def _start_locked(self, request: LaunchRequest, survey: GpuSurvey, facts: HostFacts) -> StartFault | None:
        own = self._find_own(request.attempt, self.list_claims())
        if own is not None and own.state in _ENDED:
            self.remove_unstarted(own.container)
        return super()._start_locked(request, survey, facts)


class BelievesListedRoom(Launcher):
    """What the listing calls living holds its GPUs, whatever became of it."""

    def list_claims(self) -> list[Claim]:
        return find_claims(self._engine.list_containers(ATTEMPT))


class RemovesByForce(Launcher):
    """What is listed as created is removed by force, though its start may be under way."""

    def remove_unstarted(self, container: str) -> bool:
        self._engine.remove(container, force=True)
        return True


class StopsOnce(Stops):
    """A stop that was sent is never sent again, though the engine that kept it has ended since."""

    def begin(self, attempt: AttemptId, container: str, kill_after_s: float) -> None:
        sent: set[AttemptId] = self.__dict__.setdefault("_sent", set())
        if attempt not in sent:
            sent.add(attempt)
            super().begin(attempt, container, kill_after_s)


class KeepsSecrets(SecretFiles):
    """Secrets are left behind."""

    def remove(self, attempt: AttemptId) -> None:
        del attempt


class TakesSilenceForGone(ContainerHost):
    """An engine that does not answer is taken for one that holds nothing."""

    def observe(self, attempts: Collection[AttemptId]) -> dict[AttemptId, Observation]:
        seen = super().observe(attempts)
        return {a: Gone(at=0.0) if isinstance(one, NoSignal) else one for a, one in seen.items()}


class BelievesListedStates(ContainerHost):
    """What the listing says of an attempt is told, whatever became of it."""

    def _load_own_claims(self) -> dict[AttemptId, Claim]:
        listing = self._engine.list_containers(f"{INSTALL}={self._settings.install}")
        return {claim.attempt: claim for claim in find_claims(listing)}


class FencesIntoTheVoid(ContainerHost):
    """A fence is confirmed without asking the engine what it holds."""

    def fence(self, attempt: AttemptId) -> Observation:
        self._fences.add(attempt)
        return Gone(at=0.0, fenced=True)


class ForgetsFencedStop(ContainerHost):
    """The stop of a launch whose image is still fetched is acknowledged and not kept."""

    def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        if not self._preparations.has(attempt):
            super().stop(attempt, remaining_s)


class SweepsWithoutFence(ContainerHost):
    """What a sweep removes may be launched again."""

    def sweep(self, known: Collection[AttemptId]) -> Swept:
        swept = super().sweep(known)
        for attempt in swept.removed:
            (self._settings.state_dir / "fences" / attempt).unlink(missing_ok=True)
        return swept


MUTANTS: Final[dict[str, MakeHost]] = {
    "lock left out": with_part("_launcher", WithoutLock),
    "attempt's lock left out": with_part("_launcher", WithoutAttemptLock),
    "second look left out": with_part("_launcher", WithoutSecondLook),
    "fence left out": with_part("_launcher", WithoutFence),
    "fence not read under the lock": with_part("_launcher", WithEarlyFence),
    "fence confirmed unasked": FencesIntoTheVoid,
    "guard left out: the ended container starts again": with_part("_launcher", StartsEndedAgain),
    "guard left out: the ended container is replaced": with_part("_launcher", ReplacesEnded),
    "an old listing believed: of room": with_part("_launcher", BelievesListedRoom),
    "an old listing believed: of attempts": BelievesListedStates,
    "removal by force": with_part("_launcher", RemovesByForce),
    "NoSignal taken for Gone": TakesSilenceForGone,
    "stop forgotten after the engine's restart": with_part("_stops", StopsOnce),
    "stop forgotten after the process's restart": ForgetsFencedStop,
    "secrets left after cleanup": with_part("_secrets", KeepsSecrets),
    "sweep without a fence": SweepsWithoutFence,
}
