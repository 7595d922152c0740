"""Start one attempt under the engine's lock: list, choose, create, look again, start.

The second look catches what does not share the lock, and creates whose caller died and that appear late.
"""

import logging
import random
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from enum import Enum, auto
from typing import Final

from starforge.containers import labels
from starforge.containers.allocation import decide_allotment, find_rivals
from starforge.containers.engine import Engine, EngineError
from starforge.containers.facts import HostFacts, KnownFacts
from starforge.containers.failures import StartFault, StartTrouble, classify_start
from starforge.containers.gpus import WITHOUT_GPUS, GpuSource, GpuSurvey, NotKnown
from starforge.containers.images import Images
from starforge.containers.labels import Claim, State, find_claims, name_container
from starforge.containers.listeners import list_listening_ports
from starforge.containers.listing import load_listing
from starforge.containers.lock import LockUnusable, find_trouble, hold_lock, name_attempt_lock, name_lock
from starforge.containers.records import Fences, make_private
from starforge.containers.secrets import SecretFiles
from starforge.containers.settings import HostSettings
from starforge.containers.spec import Allotment, build_create_body
from starforge.containers.storage import StorageCheck
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest, Network
from starforge.errors import BackendUnreachable, LaunchError, LaunchRefused, NoCapacity, NodeFault

_log = logging.getLogger(__name__)

_TRIES: Final = 10
_PAUSE_S: Final = 0.05
_NOT_FOUND: Final = 404
_CONFLICT: Final = 409


class ImageAbsent(LaunchError):
    """The image is not at the engine; nothing was started."""


class _Tried(Enum):
    STARTED = auto()
    AGAIN = auto()


class Launcher:
    """Starts attempts on one engine, one at a time over all processes that use it."""

    def __init__(  # noqa: PLR0913 - the parts are built and owned by ContainerHost
        self,
        engine: Engine,
        settings: HostSettings,
        *,
        gpus: GpuSource,
        facts: KnownFacts,
        images: Images,
        storage: StorageCheck,
        secrets: SecretFiles,
        fences: Fences,
    ) -> None:
        self._engine = engine
        self._settings = settings
        self._gpus = gpus
        self._facts = facts
        self._images = images
        self._storage = storage
        self._secrets = secrets
        self._fences = fences

    def list_claims(self) -> list[Claim]:
        """Every container of every install on this engine. Raises BackendUnreachable, EngineError."""
        return find_claims(load_listing(self._engine, labels.ATTEMPT))

    def check(self, request: LaunchRequest) -> bool:
        """Whether `request` would find room now; False when it has started already. Raises as `start` does."""
        with _engine_at_fault():
            survey, facts = self._look(request)
            claims = self.list_claims()
            if self._find_own(request.attempt, claims) is not None:
                return False
            self._require_not_fenced(request.attempt)
            decide_allotment(request, claims, survey, facts, self._settings.port_base)
            return True

    def start(self, request: LaunchRequest) -> StartFault | None:
        """Start `request`, or give the fault that it would show everywhere; a repeat changes nothing.

        Raises:
            NoCapacity, NodeFault, LaunchRefused, ImageAbsent: nothing is left behind and nothing starts later.
            BackendUnreachable: not known.

        """
        with _engine_at_fault():
            survey, facts = self._look(request)
            try:
                with self.hold_attempt(request.attempt), self.hold_lock():
                    fault = self._start_locked(request, survey, facts)
            except LockUnusable as error:
                # Nothing was created now, but an earlier launch of the attempt may have been answered into the void.
                if self._find_own(request.attempt, self.list_claims()) is not None:
                    raise
                self._secrets.remove(request.attempt)
                raise NodeFault(error.what, why=error.why, next_step=error.next_step) from error
            except LaunchError:
                self._secrets.remove(request.attempt)
                raise
            if fault is not None:
                self._secrets.remove(request.attempt)
            return fault

    def hold_lock(self) -> AbstractContextManager[None]:
        """The lock under which anything is created on this engine."""
        path = name_lock(self._settings.lock_dir, self._facts.load())
        return hold_lock(path, self._settings.lock_timeout_s)

    def find_lock_trouble(self) -> str:
        """Why nothing can be launched for lack of the lock, or an empty string. Raises BackendUnreachable."""
        return find_trouble(name_lock(self._settings.lock_dir, self._facts.load()))

    def hold_attempt(self, attempt: AttemptId) -> AbstractContextManager[None]:
        """The lock under which `attempt` is started; a fence needs no more, so that no other's start holds it up.

        Taken before the engine's own lock, never after it.
        """
        folder = make_private(self._settings.state_dir / "starting")
        return hold_lock(name_attempt_lock(folder, attempt), self._settings.lock_timeout_s)

    def remove_unstarted(self, container: str) -> bool:
        """Remove a container that does not run; False when it runs after all. Under the lock only.

        Without force: a start that is under way wins, and the engine answers that it runs.
        """
        try:
            self._engine.remove(container)
        except EngineError as error:
            if error.status == _NOT_FOUND or "already in progress" in error.message:
                return True
            if error.status == _CONFLICT:
                return False
            raise
        return True

    def _look(self, request: LaunchRequest) -> tuple[GpuSurvey, HostFacts]:
        self._storage.require()
        if not any(pool.gpus_per_node for pool in request.pools):
            return GpuSurvey(()), self._load_facts(request)  # a driver that hangs holds up nobody who wants no GPU
        survey = self._gpus.survey()
        if isinstance(survey, NotKnown):
            raise NodeFault(
                f"the GPUs of this machine are not known, so {request.attempt} cannot start",
                why=survey.reason,
                next_step=WITHOUT_GPUS,
            )
        return survey, self._load_facts(request)

    def _load_facts(self, request: LaunchRequest) -> HostFacts:
        facts = self._facts.load()
        if request.network is not Network.HOST:
            return facts
        return replace(facts, listening=list_listening_ports())

    def _find_own(self, attempt: AttemptId, claims: list[Claim]) -> Claim | None:
        mine = (claim for claim in claims if claim.attempt == attempt and claim.install == self._settings.install)
        return next(mine, None)

    def _require_not_fenced(self, attempt: AttemptId) -> None:
        if self._fences.has(attempt):
            raise LaunchRefused(f"{attempt} is fenced and never starts here", why="it was given up or has ended")

    def _require_unhindered(self, request: LaunchRequest) -> None:
        why = self._settings.find_hindrance()
        if why:
            raise BackendUnreachable(f"{request.attempt} was not started", why=why, next_step="it is tried again")

    def _start_locked(self, request: LaunchRequest, survey: GpuSurvey, facts: HostFacts) -> StartFault | None:
        for tried in range(_TRIES):
            claims = self.list_claims()
            own = self._find_own(request.attempt, claims)
            # An ended container is the evidence of a run that was: it is neither started nor replaced.
            if own is not None and (own.state != State.CREATED or not self.remove_unstarted(own.container)):
                return None
            self._require_not_fenced(request.attempt)
            claims = self._clear_leftovers(claims)
            allotment = decide_allotment(request, claims, survey, facts, self._settings.port_base)
            outcome = self._try(request, allotment, facts)
            if isinstance(outcome, StartFault):
                return outcome
            if outcome is _Tried.STARTED:
                return None
            facts = self._load_facts(request)
            time.sleep(_PAUSE_S * random.uniform(0.5, 1.0 + tried))  # noqa: S311 - two that retreat must not meet again
        raise NoCapacity(
            f"{request.attempt} found no GPU to itself in {_TRIES} tries", why="others take them meanwhile"
        )

    def _clear_leftovers(self, claims: list[Claim]) -> list[Claim]:
        """Remove what launchers of ours created and did not live to start; without its lock none can be under way."""
        left = []
        for claim in claims:
            ours = claim.install == self._settings.install
            if ours and claim.state == State.CREATED and self.remove_unstarted(claim.container):
                continue
            left.append(claim)
        return left

    def _try(self, request: LaunchRequest, allotment: Allotment, facts: HostFacts) -> _Tried | StartFault:
        self._require_unhindered(request)
        folder = self._secrets.write(request.attempt, self._find_owner(request), request.secrets)
        body = build_create_body(request, allotment, facts, self._settings, str(folder))
        try:
            created = self._engine.create(name_container(request.attempt), body)
        except EngineError as error:
            # The name is taken by a create whose caller died, or by somebody else: the next look tells.
            return _Tried.AGAIN if error.status == _CONFLICT else self._judge(request, error)
        container = str(created["Id"])
        for warning in created.get("Warnings") or ():
            _log.warning("the engine warns of %s: %s", request.attempt, warning)
        if find_rivals(self.list_claims(), container, allotment.gpus, facts.boot):
            self._engine.remove(container, force=True)
            return _Tried.AGAIN
        try:
            self._require_unhindered(request)
        except BackendUnreachable:
            self._engine.remove(container, force=True)
            raise
        try:
            self._engine.start(container)
        except EngineError as error:
            if not self.remove_unstarted(container):
                return _Tried.STARTED
            return self._judge(request, error)
        return _Tried.STARTED

    def _find_owner(self, request: LaunchRequest) -> str:
        """Who is to read the secrets. Names live in the image's own passwd, which nobody reads from outside."""
        if request.user is not None:
            return request.user
        image = self._images.find_wanted(request.image)
        user, _, group = (image.user if image else "").partition(":")
        if user in {"", "root"} or not request.secrets:
            return "0:0"
        if user.isdigit() and (group.isdigit() or not group):
            return f"{user}:{group or 0}"
        raise LaunchRefused(
            f"image {request.image} runs as {user!r}, who cannot be given the job's secrets",
            why="outside the image only numbers are known, not names",
            next_step="set FORGE_JOB_UID and FORGE_JOB_GID, or write the image's USER as a number",
        )

    def _judge(self, request: LaunchRequest, error: EngineError) -> _Tried | StartFault:
        fault = classify_start(error)
        if fault.trouble is StartTrouble.JOB:
            return fault
        unset = fault.trouble is StartTrouble.LIMIT and self._facts.forget_limit(fault.limit)
        if unset or fault.trouble is StartTrouble.GONE:
            return _Tried.AGAIN
        raise _build_error(request, fault) from error


@contextmanager
def _engine_at_fault() -> Iterator[None]:
    """An answer of the engine that nobody expected changes nothing that was promised: what it means is not known."""
    try:
        yield
    except EngineError as error:
        raise BackendUnreachable("the engine could not do what a launch needs", why=error.message) from error


def _build_error(request: LaunchRequest, fault: StartFault) -> LaunchError:
    match fault.trouble:
        case StartTrouble.NO_IMAGE:
            return ImageAbsent(f"image {request.image} is not at the engine")
        case StartTrouble.REFUSED:
            return LaunchRefused(
                f"the engine does not take {request.attempt}",
                why=fault.note,
                next_step="mend what the engine names, then submit again",
            )
        case _:
            return NodeFault(
                f"{request.attempt} cannot start on this machine",
                why=fault.note,
                next_step="mend what is named, or let the job run on another machine",
            )
