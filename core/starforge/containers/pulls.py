"""Fetching images: one pull an image however many wait for it, with progress, and an end only for lack of it."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Event, Lock, Thread
from typing import Final, TypeAlias

from starforge.containers.engine import Document, Engine, EngineError, Stream
from starforge.containers.failures import PullTrouble, classify_pull, tell_pull
from starforge.contract.ids import AttemptId
from starforge.contract.launch import RegistryLogin
from starforge.contract.observation import Failure, Pull
from starforge.errors import BackendUnreachable

_NEAR_END: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|\d+(?:\.\d+){3}):\d+->")
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_DOWNLOADED: Final = frozenset({"Verifying Checksum", "Download complete", "Extracting", "Pull complete"})
_NO_PROGRESS: Final = "Retrying"


@dataclass(frozen=True, slots=True)
class PullEnd:
    """How a pull ended for one that waited: `failure` is None when the image is there."""

    failure: Failure | None = None
    note: str = ""


class PullLeft(Exception):
    """The one that waited has left."""


_Key: TypeAlias = tuple[str, RegistryLogin | None]


class Progress:
    """Bytes of a pull, summed over its layers as the engine's lines tell them."""

    def __init__(self) -> None:
        self._done: dict[str, int] = {}
        self._totals: dict[str, int] = {}
        self.at = time.time()
        self._at_monotonic = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since the last sign of progress."""
        return time.monotonic() - self._at_monotonic

    def take(self, line: Document) -> None:
        """Add what `line` says. Every line is a sign of progress, but one that says that the engine tries again."""
        status, layer = str(line.get("status", "")), str(line.get("id", ""))
        if status.startswith(_NO_PROGRESS):
            return
        self.at, self._at_monotonic = time.time(), time.monotonic()
        detail = line.get("progressDetail") or {}
        if status == "Downloading" and "current" in detail:
            self._done[layer] = int(detail["current"])
            self._totals[layer] = int(detail.get("total") or detail["current"])
        elif status in _DOWNLOADED and layer in self._totals:
            self._done[layer] = self._totals[layer]

    def show(self, image: str) -> Pull:
        """The sums so far."""
        totals = list(self._totals.values())
        return Pull(
            image=image,
            done_bytes=sum(list(self._done.values())),
            total_bytes=sum(totals) if totals else None,
            progressed_at=self.at,
        )


@dataclass(slots=True)
class _Running:
    """One pull under way. The lock of `Pulls` guards `waiting`; all else belongs to the pull's thread."""

    key: _Key
    waiting: dict[AttemptId, "Future[PullEnd]"] = field(default_factory=dict)
    cancelled: Event = field(default_factory=Event)
    stream: Stream | None = None
    progress: Progress = field(default_factory=Progress)
    trouble: str = ""


class Pulls:
    """The pulls of one engine."""

    def __init__(self, engine: Engine, stall_s: float, first_pause_s: float = _FIRST_PAUSE_S) -> None:
        self._engine = engine
        self._stall_s = stall_s
        self._first_pause_s = first_pause_s
        self._lock = Lock()
        self._running: dict[_Key, _Running] = {}
        self._closed = False

    def join(self, image: str, login: RegistryLogin | None, attempt: AttemptId) -> "Future[PullEnd]":
        """Wait for `image` on behalf of `attempt`: the future ends when the image is there or cannot be had."""
        key = (image, login)
        with self._lock:
            if self._closed:
                return _left()
            running = self._running.get(key)
            if running is None:
                running = self._running[key] = _Running(key)
                Thread(target=self._run, args=(running,), name=f"pull {image}", daemon=True).start()
            return running.waiting.setdefault(attempt, Future())

    def leave(self, attempt: AttemptId) -> None:
        """`attempt` waits no longer; a pull that nobody waits for is given up."""
        with self._lock:
            for running in list(self._running.values()):
                future = running.waiting.pop(attempt, None)
                if future is None:
                    continue
                future.set_exception(PullLeft())
                if not running.waiting:
                    self._cancel(running)

    def find_progress(self, attempt: AttemptId) -> tuple[Pull, str] | None:
        """How far the pull is that `attempt` waits for, and what holds it up, if something does."""
        with self._lock:
            for running in self._running.values():
                if attempt in running.waiting:
                    return running.progress.show(running.key[0]), running.trouble
        return None

    def close(self) -> None:
        """Give up every pull; those who wait, and those who come later, are told that they left."""
        with self._lock:
            self._closed = True
            attempts = [attempt for running in self._running.values() for attempt in running.waiting]
        for attempt in attempts:
            self.leave(attempt)

    def _cancel(self, running: _Running) -> None:
        self._running.pop(running.key, None)
        running.cancelled.set()
        if running.stream is not None:
            running.stream.close()

    def _run(self, running: _Running) -> None:
        try:
            end = self._pull_until_decided(running)
        except Exception as error:  # noqa: BLE001 - the outermost frame of the thread: those who wait must be told
            end = PullEnd(Failure.NODE_FAULT, f"the pull of {running.key[0]} broke off: {error!r}")
        with self._lock:
            if self._running.get(running.key) is running:
                del self._running[running.key]
            waiting = list(running.waiting.values())
            running.waiting.clear()
        for future in waiting:
            future.set_result(end)

    def _pull_until_decided(self, running: _Running) -> PullEnd:
        image = running.key[0]
        for pause_s in _pauses(self._first_pause_s):
            try:
                self._pull_once(running)
            except EngineError as error:
                trouble, said = classify_pull(error), tell_pull(error)
            except BackendUnreachable as error:
                trouble, said = PullTrouble.PASSING, str(error)
            else:
                return PullEnd()
            if trouble is PullTrouble.DENIED:
                return PullEnd(Failure.PULL_DENIED, f"{image}: {said}")
            if trouble is PullTrouble.NODE:
                return PullEnd(Failure.NODE_FAULT, f"{image}: {said}")
            running.trouble = leave_out_ports(said)
            if running.progress.silent_s + pause_s > self._stall_s or running.cancelled.wait(pause_s):
                break
        return PullEnd(
            Failure.NODE_FAULT, f"{image}: no progress for {running.progress.silent_s:.0f} s; last: {running.trouble}"
        )

    def _pull_once(self, running: _Running) -> None:
        repository, tag = split_image(running.key[0])
        stream = self._engine.pull(repository, tag, running.key[1], max(0.1, self._stall_s - running.progress.silent_s))
        try:
            with self._lock:
                running.stream = stream
                if running.cancelled.is_set():
                    stream.close()
            self._read(running, stream)
        finally:
            with self._lock:
                running.stream = None
            stream.release()

    def _read(self, running: _Running, stream: Stream) -> None:
        """Follow the stream to its end; EngineError for an error line, BackendUnreachable for lack of progress."""
        for line in stream:
            if "error" in line:
                raise EngineError(200, str(line["error"]))
            running.progress.take(line)
            left_s = self._stall_s - running.progress.silent_s
            if left_s <= 0:
                raise BackendUnreachable("the pull makes no progress", why=str(line.get("status", "")))
            stream.set_timeout(left_s)
        if running.cancelled.is_set():
            raise BackendUnreachable("the pull was given up")


def leave_out_ports(said: str) -> str:
    """`said` without the near ends of connections: a new port for each try would make the same trouble look new."""
    return _NEAR_END.sub("", said)


def _left() -> "Future[PullEnd]":
    future: Future[PullEnd] = Future()
    future.set_exception(PullLeft())
    return future


def split_image(image: str) -> tuple[str, str]:
    """Repository and tag (or digest) of a reference; without either the tag is `latest`, never "all of them"."""
    named, at, digest = image.partition("@")
    head, colon, tag = named.rpartition(":")
    repository, tag = (head, tag) if colon and "/" not in tag else (named, "latest")
    return repository, digest if at else tag


def _pauses(first_s: float) -> Iterator[float]:
    pause_s = first_s
    while True:
        yield pause_s
        pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
