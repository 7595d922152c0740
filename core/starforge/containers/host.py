"""ContainerHost: one machine's containers, for the console's own machine and for forgelet alike.

Labels at the engine are the truth of what is allocated. What the engine cannot hold (fences, launches under way,
launches that failed) is kept in small files, so that a restart of this process changes nothing.
"""

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from threading import Lock

from starforge.containers import labels
from starforge.containers.engine import Engine, EngineError
from starforge.containers.facts import KnownFacts
from starforge.containers.gpus import GpuSource
from starforge.containers.images import Images
from starforge.containers.inspecting import Inspector
from starforge.containers.labels import Claim, State, find_claims, name_container
from starforge.containers.launching import ImageAbsent, Launcher
from starforge.containers.listening import Listener
from starforge.containers.listing import load_listing
from starforge.containers.logs import read_logs
from starforge.containers.preparing import Preparations
from starforge.containers.pulls import Pulls
from starforge.containers.records import Fences, PendingLaunches, Verdict, Verdicts
from starforge.containers.secrets import SecretFiles
from starforge.containers.settings import HostSettings
from starforge.containers.spec import KILL_AFTER_GRACE_S, require_one_node
from starforge.containers.stopping import Stops
from starforge.containers.storage import StorageCheck
from starforge.containers.viewing import build_view
from starforge.contract.executor import LogChunk, NodeView, Swept
from starforge.contract.ids import AttemptId
from starforge.contract.launch import LaunchRequest
from starforge.contract.observation import Failure, Gone, NoSignal, Observation, Phase, Seen
from starforge.errors import BackendUnreachable, Conflict, LaunchRefused, NodeFault
from starforge.said.sentence import say


class ContainerHost:
    """Every promise of `starforge.contract.executor` for one machine. Synchronous; safe to use from several threads."""

    def __init__(self, engine: Engine, gpus: GpuSource, settings: HostSettings) -> None:
        """Raises ProjectError when the secrets folder does not lie on tmpfs."""
        self._engine = engine
        self._gpus = gpus
        self._settings = settings
        self._wake: Callable[[], None] | None = None
        self._facts = KnownFacts(engine, settings.engine_pid_file, settings.boot_id_file)
        self._storage = StorageCheck(settings.storage)
        self._secrets = SecretFiles(settings.secrets_root)
        self._fences = Fences(settings.state_dir)
        self._verdicts = Verdicts(settings.state_dir)
        self._images = Images(engine)
        self._inspector = Inspector(engine, self._images, settings.node)
        self._stops = Stops(engine)
        self._launcher = Launcher(
            engine,
            settings,
            gpus=gpus,
            facts=self._facts,
            images=self._images,
            storage=self._storage,
            secrets=self._secrets,
            fences=self._fences,
        )
        self._preparations = Preparations(
            self._launcher,
            facts=self._facts,
            images=self._images,
            pulls=Pulls(engine, settings.pull_stall_s),
            fences=self._fences,
            pending=PendingLaunches(settings.secrets_root),
            verdicts=self._verdicts,
            wake=self._tell,
        )
        self._lock = Lock()
        self._starting: dict[AttemptId, int] = {}
        self._listener: Listener | None = None

    def launch(self, request: LaunchRequest) -> None:
        """Start `request`, or begin to fetch its image and start it then; a repeat changes nothing.

        Raises:
            NoCapacity, NodeFault, LaunchRefused: nothing is left behind and nothing of this call starts later.
            BackendUnreachable: not known; a repeat is safe.

        """
        if request.install != self._settings.install:
            raise LaunchRefused(
                f"{request.attempt} is of install {request.install}, not {self._settings.install}",
                next_step="look at which consoles use this machine: each has a state directory of its own",
            )
        require_one_node(request)
        if self._verdicts.find(request.attempt) or self._preparations.has(request.attempt):
            return
        with self._mark_starting(request.attempt):
            self._launch(request)

    def resume(self) -> None:
        """Go on with launches that an earlier process of ours had accepted."""
        self._preparations.resume()

    def observe(self, attempts: Collection[AttemptId]) -> dict[AttemptId, Observation]:
        """What is known of each of `attempts`; NoSignal for all when the engine does not answer."""
        try:
            claims = self._load_own_claims()
        except (BackendUnreachable, EngineError) as error:
            return dict.fromkeys(attempts, NoSignal(reason=str(error)))
        started_at = self._facts.find_start_time()
        return {attempt: self._see(attempt, claims.get(attempt), started_at) for attempt in attempts}

    def inventory(self) -> dict[AttemptId, Observation] | NoSignal:
        """Everything of this install that this machine holds, launches under way and failed ones included."""
        try:
            claims = self._load_own_claims()
        except (BackendUnreachable, EngineError) as error:
            return NoSignal(reason=str(error))
        started_at = self._facts.find_start_time()
        attempts = [*claims, *self._preparations.attempts(), *self._verdicts.all()]
        return {attempt: self._see(attempt, claims.get(attempt), started_at) for attempt in attempts}

    def fence(self, attempt: AttemptId) -> Observation:
        """Write durably that `attempt` must not start any more, then say what is held of it.

        `Gone(fenced=True)` is said only after every launch of it under way has met the fence or has ended.
        """
        try:
            self._fences.add(attempt)
            self._preparations.cancel(attempt)
            with self._launcher.hold_attempt(attempt):
                claim = self._load_own_claims().get(attempt)
                if claim is not None and claim.state == State.CREATED:
                    with self._launcher.hold_lock():
                        self._launcher.remove_unstarted(claim.container)
                    claim = self._load_own_claims().get(attempt)
        except (BackendUnreachable, EngineError) as error:
            return NoSignal(reason=str(error))
        if claim is None and self._verdicts.find(attempt) is None:
            self._secrets.remove(attempt)
        return self._see(attempt, claim, self._facts.find_start_time(), still_starting=False)

    def stop(self, attempt: AttemptId, remaining_s: float) -> None:
        """TERM now, KILL 20 s after `remaining_s`; returns at once. One that has not started yet is fenced instead.

        Raises BackendUnreachable; repeat until the end is seen.
        """
        if self._preparations.has(attempt):
            self._fences.add(attempt)
            self._preparations.cancel(attempt)
            note = "stopped before it had started"
            self._verdicts.write(attempt, Verdict(failure=Failure.NODE_FAULT, note=note, at=time.time()))
        with _engine_unreachable():
            claim = self._load_own_claims().get(attempt)
        if claim is not None and claim.state in {State.RUNNING, State.PAUSED, State.RESTARTING}:
            self._stops.begin(attempt, claim.container, remaining_s + KILL_AFTER_GRACE_S)

    def cleanup(self, attempt: AttemptId) -> None:
        """Remove what is left of an ended attempt, secrets included; it never starts again.

        Raises Conflict for one that still runs, BackendUnreachable when the engine does not answer.
        """
        with _engine_unreachable(), self._launcher.hold_attempt(attempt):
            claim = self._load_own_claims().get(attempt)
            self._fences.add(attempt)
            self._preparations.cancel(attempt)
            if claim is not None and not self._launcher.remove_unstarted(claim.container):
                raise Conflict(f"{attempt} still runs", why="only what has ended is removed", next_step="stop it first")
        self._verdicts.drop(attempt)
        self._secrets.remove(attempt)

    def remove(self, attempt: AttemptId) -> None:
        """Fence `attempt` and end it at once, without grace, with all that is left of it.

        For attempts that an administrator has declared lost: somebody else may be running their job by now. Raises
        BackendUnreachable.
        """
        self._fences.add(attempt)
        self._preparations.cancel(attempt)
        with _engine_unreachable(), self._launcher.hold_attempt(attempt):
            claim = self._load_own_claims().get(attempt)
            if claim is not None:
                self._engine.remove(claim.container, force=True)
        self._verdicts.drop(attempt)
        self._secrets.remove(attempt)

    def logs(self, attempt: AttemptId, cursor: str | None = None) -> Iterator[LogChunk]:
        """The engine's own output of `attempt` behind `cursor`; nothing when there is no container."""
        with _engine_unreachable():
            yield from read_logs(self._engine, name_container(attempt), cursor)

    def view(self) -> NodeView | NoSignal:
        """What this machine offers now; NoSignal when its engine does not answer."""
        try:
            return self._view()
        except (BackendUnreachable, EngineError) as error:
            return NoSignal(reason=str(error))

    def find_engine_root(self) -> str | None:
        """Where the engine keeps images and containers; None while it does not answer."""
        try:
            return self._facts.load().root_dir
        except (BackendUnreachable, EngineError):
            return None

    def sweep(self, known: Collection[AttemptId]) -> Swept:
        """Remove what is `created` or ended and not `known`; what runs is left alone whoever knows it.

        What had ended never starts again. Raises BackendUnreachable.
        """
        with _engine_unreachable(), self._launcher.hold_lock():
            unknown = {a: claim for a, claim in self._load_own_claims().items() if a not in set(known)}
            idle = {a: c for a, c in unknown.items() if c.state in {State.CREATED, State.EXITED, State.DEAD}}
            for attempt, claim in idle.items():
                if claim.state != State.CREATED:
                    self._fences.add(attempt)  # its container was what kept a late repeat of the launch from running it
            removed = [a for a, claim in idle.items() if self._launcher.remove_unstarted(claim.container)]
            left = set(self._load_own_claims())
        for attempt in {*self._secrets.attempts(), *self._verdicts.all()} - left - set(known):
            if not self._preparations.has(attempt) and attempt not in self._starting:
                self._secrets.remove(attempt)
                self._verdicts.drop(attempt)
        return Swept(removed=tuple(removed), running=tuple(a for a in unknown if a not in removed))

    def start(self, wake: Callable[[], None]) -> None:
        """Resume launches and listen; `wake` is called, from any thread, when something may have changed."""
        self._wake = wake
        self._listener = Listener(self._engine, self._settings.install, wake)
        self._listener.start()
        self.resume()

    def close(self) -> None:
        """Stop listening and pulling. Containers are untouched; the next process resumes launches under way."""
        self._preparations.close()
        if self._listener is not None:
            self._listener.close()

    def _tell(self) -> None:
        if self._wake is not None:
            self._wake()

    def _launch(self, request: LaunchRequest) -> None:
        try:
            image = self._images.find_wanted(request.image)
        except EngineError as error:
            raise BackendUnreachable("the engine could not look for an image", why=error.message) from error
        if image is None:
            self._begin_pull(request)
            return
        mismatch = image.find_mismatch(self._facts.load())
        if mismatch:
            raise LaunchRefused(
                f"{request.image} cannot run on {self._settings.node}",
                why=mismatch,
                next_step="choose an image that is built for this machine",
            )
        try:
            fault = self._launcher.start(request)
        except ImageAbsent:
            self._begin_pull(request)
            return
        if fault is not None:
            verdict = Verdict(failure=fault.failure, note=fault.note, at=time.time())
            self._verdicts.write(request.attempt, verdict)

    def _begin_pull(self, request: LaunchRequest) -> None:
        if request.image.startswith("sha256:"):
            raise NodeFault(
                f"image {request.image} is not on {self._settings.node}",
                why="an image cannot be fetched by its id alone",
                next_step="push it to a registry and name it by tag or digest",
            )
        if self._launcher.check(request):
            self._preparations.accept(request)

    @contextmanager
    def _mark_starting(self, attempt: AttemptId) -> Iterator[None]:
        with self._lock:
            self._starting[attempt] = self._starting.get(attempt, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._starting[attempt] -= 1
                if not self._starting[attempt]:
                    del self._starting[attempt]

    def _load_own_claims(self) -> dict[AttemptId, Claim]:
        listing = load_listing(self._engine, f"{labels.INSTALL}={self._settings.install}")
        return {claim.attempt: claim for claim in find_claims(listing)}

    def _see(
        self, attempt: AttemptId, claim: Claim | None, engine_started_at: float | None, *, still_starting: bool = True
    ) -> Observation:
        if claim is not None:
            return self._inspector.see(claim, engine_started_at)
        at = time.time()
        verdict = self._verdicts.find(attempt)
        if verdict is not None:
            return Seen(phase=Phase.EXITED, at=at, node=self._settings.node, failure=verdict.failure, note=verdict.note)
        if self._preparations.has(attempt):
            return self._preparations.see(attempt, self._settings.node, at)
        if still_starting and attempt in self._starting:
            return Seen(phase=Phase.PREPARING, at=at, node=self._settings.node, note=say("note.starting"))
        return Gone(at=at, engine_started_at=engine_started_at, fenced=self._fences.has(attempt))

    def _view(self) -> NodeView:
        return build_view(
            self._gpus.survey(),
            self._launcher.list_claims(),
            self._facts.load(),
            self._settings,
            self._storage.find_trouble() or self._launcher.find_lock_trouble(),
        )


@contextmanager
def _engine_unreachable() -> Iterator[None]:
    """An answer that nobody expected leaves it unknown what took effect, as silence does."""
    try:
        yield
    except EngineError as error:
        raise BackendUnreachable("the engine could not do what was asked", why=error.message) from error
