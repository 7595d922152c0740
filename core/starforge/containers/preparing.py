"""Launches whose image is not there yet: pull, then start, in a thread each, and over a restart of this process."""

import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Final

from starforge.containers.engine import EngineError
from starforge.containers.facts import KnownFacts
from starforge.containers.images import Images
from starforge.containers.launching import ImageAbsent, Launcher
from starforge.containers.pulls import PullLeft, Pulls
from starforge.containers.records import Fences, PendingLaunches, Verdict, Verdicts
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Failure, Phase, Seen
from starforge.errors import BackendUnreachable, LaunchRefused, NoCapacity, NodeFault, SpecError
from starforge.said.sentence import say

_PAUSE_S: Final = 1.0


class Preparations:
    """Launches under way on one host. What fails after it was accepted becomes a verdict."""

    def __init__(  # noqa: PLR0913 - the parts are built and owned by ContainerHost
        self,
        launcher: Launcher,
        *,
        facts: KnownFacts,
        images: Images,
        pulls: Pulls,
        fences: Fences,
        pending: PendingLaunches,
        verdicts: Verdicts,
        wake: Callable[[], None],
    ) -> None:
        self._launcher = launcher
        self._facts = facts
        self._images = images
        self._pulls = pulls
        self._fences = fences
        self._pending = pending
        self._verdicts = verdicts
        self._wake = wake
        self._closed = Event()
        self._lock = Lock()
        self._threads: dict[AttemptId, Thread] = {}

    def accept(self, request: LaunchRequest) -> None:
        """Go on with `request` until it runs or has a verdict, whatever becomes of this process."""
        self._pending.write(request)
        self._begin(request)

    def resume(self) -> None:
        """Go on with what an earlier process of ours had accepted."""
        for attempt in self._pending.attempts():
            try:
                request = self._pending.load(attempt)
            except FileNotFoundError:
                continue
            except SpecError as error:
                self._give_up(attempt, Failure.NODE_FAULT, f"the launch cannot be resumed: {error}")
                continue
            self._begin(request)

    def cancel(self, attempt: AttemptId) -> None:
        """Give up a launch under way. Only a fence that was written before makes sure that it does not start."""
        self._pending.drop(attempt)
        self._pulls.leave(attempt)

    def has(self, attempt: AttemptId) -> bool:
        """Whether a launch of `attempt` is under way."""
        return self._pending.has(attempt) and not self._fences.has(attempt)

    def attempts(self) -> list[AttemptId]:
        """Whose launches are under way."""
        return [attempt for attempt in self._pending.attempts() if not self._fences.has(attempt)]

    def see(self, attempt: AttemptId, node: str, at: float) -> Seen:
        """How far the launch of `attempt` is."""
        found = self._pulls.find_progress(attempt)
        if found is None:
            return Seen(phase=Phase.PREPARING, at=at, node=node, note=say("note.to_start"))
        pull, trouble = found
        note = say("note.pull_held", why=trouble) if trouble else say("note.pulling", image=pull.image)
        return Seen(phase=Phase.PREPARING, at=at, node=node, pull=pull, note=note)

    def close(self) -> None:
        """Stop going on; the next process resumes. Threads have ended when this returns."""
        self._closed.set()
        self._pulls.close()
        with self._lock:
            threads = list(self._threads.values())
        for thread in threads:
            thread.join(timeout=20)

    def _begin(self, request: LaunchRequest) -> None:
        with self._lock:
            if self._closed.is_set() or request.attempt in self._threads:
                return
            thread = Thread(target=self._run, args=(request,), name=f"launch {request.attempt}", daemon=True)
            self._threads[request.attempt] = thread
        thread.start()

    def _run(self, request: LaunchRequest) -> None:
        attempt = request.attempt
        try:
            while not self._closed.is_set() and self.has(attempt) and not self._go_on(request):
                self._closed.wait(_PAUSE_S)
        except Exception as error:  # noqa: BLE001 - the outermost frame of the thread: the attempt needs an end
            self._give_up(attempt, Failure.NODE_FAULT, f"the launch broke off: {error!r}")
        finally:
            with self._lock:
                del self._threads[attempt]
            self._wake()

    def _go_on(self, request: LaunchRequest) -> bool:
        """Do what is left; False when it has to be tried again."""
        try:
            if not self._fetch(request):
                return True
            fault = self._launcher.start(request)
        except NoCapacity as error:
            self._give_up(request.attempt, Failure.NO_CAPACITY, str(error))
        except NodeFault as error:
            self._give_up(request.attempt, Failure.NODE_FAULT, str(error))
        except LaunchRefused as error:
            self._give_up(request.attempt, Failure.START_FAILED, str(error))
        except (BackendUnreachable, EngineError, ImageAbsent):
            return False
        else:
            if fault is not None:
                self._give_up(request.attempt, fault.failure, fault.note)
            self._pending.drop(request.attempt)
        return True

    def _fetch(self, request: LaunchRequest) -> bool:
        """Make sure that the image is there and fits; False when the launch has been given up."""
        image = self._images.find_wanted(request.image)
        if image is None:
            waiting = self._pulls.join(request.image, request.registry_login, request.attempt)
            if not self.has(request.attempt):  # it was given up before there was a pull to leave
                self._pulls.leave(request.attempt)
            try:
                end = waiting.result()
            except PullLeft:
                return False
            if end.failure is not None:
                self._give_up(request.attempt, end.failure, end.note)
                return False
            image = self._images.find_wanted(request.image)
        mismatch = image.find_mismatch(self._facts.load()) if image else None
        if mismatch:
            self._give_up(request.attempt, Failure.PULL_DENIED, f"{request.image}: {mismatch}")
            return False
        if image is None:
            raise ImageAbsent(f"{request.image} was pulled and is not there")
        return True

    def _give_up(self, attempt: AttemptId, failure: Failure, note: str) -> None:
        if not self._fences.has(attempt):
            self._verdicts.write(attempt, Verdict(failure=failure, note=note, at=time.time()))
        self._pending.drop(attempt)
