"""Listen for what happens to the containers of one install. Events only wake; the listing decides."""

import time
from collections.abc import Callable
from threading import Event, Lock, Thread
from typing import Final

from starforge.containers import labels
from starforge.containers.engine import Document, Engine, EngineError, Stream
from starforge.containers.labels import State
from starforge.errors import BackendUnreachable

_LISTED_WITHIN_S: Final = 1.0
_LOOK_AGAIN_S: Final = 0.005
_ACTIONS: Final = frozenset({"die", "start", "oom", "destroy"})
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0


class Listener:
    """One thread that follows the engine's events and takes the stream up again whenever it ends."""

    def __init__(self, engine: Engine, install: str, wake: Callable[[], None]) -> None:
        self._engine = engine
        self._label = f"{labels.INSTALL}={install}"
        self._wake = wake
        self._closed = Event()
        self._lock = Lock()
        self._stream: Stream | None = None
        self._thread = Thread(target=self._run, name="engine events", daemon=True)

    def start(self) -> None:
        """Begin. The first wake comes once the events are followed, so that nothing falls between."""
        self._thread.start()

    def close(self) -> None:
        """End the thread; it has ended when this returns."""
        self._closed.set()
        with self._lock:
            if self._stream is not None:
                self._stream.close()
        if self._thread.is_alive():
            self._thread.join(timeout=20)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._closed.is_set():
            try:
                self._follow()
                pause_s = _FIRST_PAUSE_S
            except (BackendUnreachable, EngineError):
                pause_s = min(_LONGEST_PAUSE_S, pause_s * 2)
            self._closed.wait(pause_s)

    def _follow(self) -> None:
        stream = self._engine.events(self._label)
        with self._lock:
            self._stream = stream
        try:
            if self._closed.is_set():
                return
            self._wake()
            for event in stream:
                if event.get("Action") == "die":
                    self._await_listing(event)
                if event.get("Action") in _ACTIONS:
                    self._wake()
        finally:
            with self._lock:
                self._stream = None
            stream.release()

    def _await_listing(self, event: Document) -> None:
        """Wait until the listing tells of an end: it lags some milliseconds behind the event.

        Who is woken looks at the listing, and would sleep on if that still said that the container runs.
        """
        container = str(event["Actor"]["ID"])
        attempt = event["Actor"]["Attributes"].get(labels.ATTEMPT, "")
        deadline = time.monotonic() + _LISTED_WITHIN_S
        while time.monotonic() < deadline and not self._closed.is_set():
            listed = self._engine.list_containers(f"{labels.ATTEMPT}={attempt}")
            if not any(one["Id"] == container and one["State"] == State.RUNNING for one in listed):
                return
            self._closed.wait(_LOOK_AGAIN_S)
