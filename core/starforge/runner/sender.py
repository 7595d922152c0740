"""Sends the spool to ingest, beside the training process and never in its way: what ingest misses is in the spool."""

from __future__ import annotations

import json
import threading
import time
from typing import Any, Callable, Dict, Optional

from starforge.contract import capsule as contract
from starforge.contract.bounds import BODY_BYTES
from starforge.runner.spool import Spool
from starforge.runner.steps import Steps
from starforge.runner.wishes import Wishes

LONGEST_READ_BYTES = 8 << 20  # of a line that no body holds
HEARTBEAT_S = 5.0
BACKOFF_FIRST_S = 0.1
BACKOFF_CAP_S = 5.0
SPACING_S = 0.02  # between two bodies, so that single lines travel together
_RETRY_AFTER_CAP_S = 30.0
_NO_PROGRESS_S = 1.0  # an answer that acknowledged nothing is not asked for again at once
_LEAVE_S = 1.0  # for the thread to close its connection
_ZIP_FROM_BYTES = 1024
_GONE = (401, 403, 410)
_OK, _CONFLICT, _TOO_LARGE, _TOO_MANY = 200, 409, 413, 429
_CLIENT_ERRORS = range(400, 500)


class Sender:
    """One thread that catches up with the spool's files. `on_wish` is called after ingest told a wish."""

    sleep: Callable[[float], None] = staticmethod(time.sleep)
    """How the thread waits before it asks again."""

    def __init__(self, spool: Spool, wishes: Wishes, on_wish: Callable[[], None], node_rank: int = 0) -> None:
        self._spool = spool
        self._wishes = wishes
        self._on_wish = on_wish
        self._steps = Steps(spool)
        self._suffix = "" if node_rank == 0 else f"-{node_rank}"
        self._acknowledged: Dict[str, int] = dict.fromkeys(self._wanted(), 0)
        self._closed_streams: set[str] = set()
        self._body_bytes = BODY_BYTES
        self._news = threading.Event()
        self._caught_up = threading.Event()
        self._record: Optional[bytes] = None
        self._is_over = False  # no more can be sent
        self._last_sent = time.monotonic()
        self._thread: Optional[threading.Thread] = None

    def start(self, ingest: contract.Ingest, token: str) -> None:
        """Begin to send what is in the spool and what will come."""
        self._thread = threading.Thread(target=self._attend, args=(ingest, token), name="ingest", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Say that the spool has grown."""
        self._news.set()

    def finish(self, record: Dict[str, Any], patience_s: float) -> bool:
        """Wait until everything and the exit record is acknowledged, at most `patience_s`; say whether it was."""
        if self._thread is None:
            return False
        self._record = json.dumps(record).encode("ascii")
        self._news.set()
        if not self._caught_up.wait(patience_s):
            self._is_over = True  # the thread leaves as soon as it can
            return False
        self._thread.join(_LEAVE_S)
        return not self._is_over

    def _wanted(self) -> "list[str]":
        """The leader sends all streams; another node only its log."""
        return list(contract.SPOOL_FILES) if not self._suffix else [contract.STREAM_LOG]

    def _attend(self, ingest: contract.Ingest, token: str) -> None:
        self._steps.attend("sending to ingest", lambda: self._run(ingest, token), None)
        self._is_over = self._is_over or not self._caught_up.is_set()
        self._caught_up.set()  # nobody waits for a thread that is not there

    def _run(self, ingest: contract.Ingest, token: str) -> None:
        from starforge.runner.wire import NoTransport, Unreachable, Wire  # noqa: PLC0415 - slow to import, in this thread

        try:
            wire = Wire(ingest, token)
        except NoTransport as error:
            self._give_up(f"live view not available: {error}")
            return
        backoff_s = BACKOFF_FIRST_S
        while not self._is_over and not self._caught_up.is_set():
            try:
                wait_s = self._round(wire.post)
                backoff_s = BACKOFF_FIRST_S
            except Unreachable:
                wait_s, backoff_s = backoff_s, min(backoff_s * 2, BACKOFF_CAP_S)
            except Exception as error:  # noqa: BLE001 - the outermost frame of a round: the next one may do better
                self._steps.note("ingest_round", f"sending to ingest failed: {type(error).__name__}: {error}")
                wait_s, backoff_s = backoff_s, min(backoff_s * 2, BACKOFF_CAP_S)
            self._rest(wait_s)
        wire.close()

    def _round(self, post: Callable[..., Any]) -> float:
        """Send one body of each stream that has news; give how long to wait before the next round."""
        wait_s: Optional[float] = None
        self._news.clear()
        for name in self._acknowledged:
            body = b"" if name in self._closed_streams else self._read_body(name)
            if body:
                wait_s = max(wait_s or 0.0, self._send(post, name, body))
            if self._is_over:
                return 0.0
        if wait_s is not None:
            return wait_s
        if self._record is not None:
            return self._send_record(post)
        if time.monotonic() - self._last_sent >= HEARTBEAT_S:
            return self._take(post("/heartbeat", b""))
        return -1.0

    def _rest(self, wait_s: float) -> None:
        """Sleep `wait_s`; a negative one means until there is news or a heartbeat is due."""
        if wait_s < 0:
            self._news.wait(max(0.0, self._last_sent + HEARTBEAT_S - time.monotonic()))
            wait_s = SPACING_S if self._record is None else 0.0
        if wait_s > 0:
            self.sleep(wait_s)

    def _read_body(self, name: str) -> bytes:
        stream, offset = self._spool.streams[name], self._acknowledged[name]
        size_bytes = stream.size_bytes  # before the read: what is written meanwhile is no sign of a cut
        body = stream.read(offset, self._body_bytes)
        if not body and size_bytes > offset:
            self._close(name, f"{stream.path} was cut: byte {offset} of {size_bytes} is gone")
        if name == contract.STREAM_LOG or not body or body.endswith(b"\n"):
            return body
        whole = body[: body.rfind(b"\n") + 1]
        if whole or len(body) < self._body_bytes:
            return whole
        # A line longer than a body goes as one, ingest decides about it.
        body = stream.read(offset, LONGEST_READ_BYTES)
        whole = body[: body.find(b"\n") + 1]
        if not whole and len(body) == LONGEST_READ_BYTES:
            self._close(name, f"a line of {name} at {offset} is longer than {LONGEST_READ_BYTES} bytes")
        return whole

    def _send(self, post: Callable[..., Any], name: str, body: bytes) -> float:
        headers = {"Content-Type": "application/octet-stream"}
        content = _zip(body) if len(body) >= _ZIP_FROM_BYTES else None
        if content is not None:
            headers["Content-Encoding"] = "gzip"
        path = f"/streams/{name}{self._suffix}?offset={self._acknowledged[name]}"
        answer = post(path, body if content is None else content, headers)
        received_to, offset = answer.document.get("received_to"), self._acknowledged[name]
        if answer.status in (_OK, _CONFLICT) and isinstance(received_to, int):
            if received_to > self._spool.streams[name].size_bytes or received_to < 0:
                self._close(name, f"ingest says it has {received_to} bytes of {name}, more than there are")
            self._acknowledged[name] = received_to
            return max(self._take(answer), _NO_PROGRESS_S if received_to == offset else 0.0)
        if answer.status == _TOO_LARGE and self._body_bytes > _ZIP_FROM_BYTES:
            self._body_bytes //= 2
        elif answer.status in _CLIENT_ERRORS and answer.status not in (*_GONE, _TOO_MANY):
            self._close(name, f"ingest does not take {name}{self._suffix} (status {answer.status})")
        return self._take(answer)

    def _send_record(self, post: Callable[..., Any]) -> float:
        if self._suffix:
            self._caught_up.set()
            return 0.0
        wait_s = self._take(post("/exit", self._record, {"Content-Type": "application/json"}))
        if wait_s <= 0 or wait_s == SPACING_S:
            self._caught_up.set()
        return wait_s

    def _take(self, answer: Any) -> float:  # noqa: ANN401 - an Answer; its module is imported late
        """Hear the wish in an answer; give how long to wait. Stops for good where the token counts no longer."""
        from starforge.runner.wire import Unreachable  # noqa: PLC0415 - see above

        if answer.status in _GONE:
            self._give_up(f"live view not available: ingest refused the token (status {answer.status})")
            return 0.0
        if answer.status == _TOO_MANY:
            return min(answer.retry_after_s or 1.0, _RETRY_AFTER_CAP_S)
        if answer.status >= 500:  # noqa: PLR2004 - the server's errors
            raise Unreachable(f"status {answer.status}")
        self._last_sent = time.monotonic()
        desired = answer.document.get("desired")
        if desired in ("stop", "pause"):
            grace_s = answer.document.get("grace_s")
            self._wishes.offer(desired, float(grace_s) if isinstance(grace_s, (int, float)) else None)
            self._on_wish()
        return SPACING_S if self._record is None else 0.0

    def _close(self, name: str, why: str) -> None:
        self._closed_streams.add(name)
        self._spool.event("note", code="ingest_stream", message=f"{why}: what there is stays in the spool")

    def _give_up(self, why: str) -> None:
        self._is_over = True
        self._spool.event("note", code="ingest_over", message=f"{why}: the record stays in the spool")
        self._caught_up.set()


def _zip(body: bytes) -> Optional[bytes]:
    """Compress, where this Python can."""
    try:
        import gzip  # noqa: PLC0415 - a minimal Python may lack zlib
    except ImportError:
        return None
    return gzip.compress(body, compresslevel=1)
