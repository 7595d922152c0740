"""A relay before a TCP port that can be cut and healed, as a network would be, and that loses answers on demand."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Final

_PIECE_BYTES: Final = 64 * 1024


class Relay:
    """Passes each connection on to `target`; `port` stays the same whatever happens."""

    def __init__(self, target: tuple[str, int], at: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._cut = False
        self._losing = False
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(at, backlog=64)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="relay", daemon=True).start()

    def cut(self) -> None:
        """End every connection, and turn new ones away, until `heal`."""
        with self._lock:
            self._cut = True
            self._end_all()

    def heal(self) -> None:
        """Pass connections on again, and answers too."""
        with self._lock:
            self._cut = self._losing = False

    def lose_answers(self) -> None:
        """Pass on what is asked, and end the connection in place of each answer, until `heal`."""
        with self._lock:
            self._losing = True
            self._end_all()

    def close(self) -> None:
        """Listen no more."""
        self.cut()
        self._listener.close()

    def _end_all(self) -> None:
        for peer in self._open:
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._cut:
                near.close()
                continue
            try:
                far = socket.create_connection(self._target, timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._open |= {near, far}
            threading.Thread(target=self._serve, args=(near, far), daemon=True).start()

    def _serve(self, near: socket.socket, far: socket.socket) -> None:
        asking = threading.Thread(target=lambda: self._pass_on(near, far, answers=False), daemon=True)
        asking.start()
        self._pass_on(far, near, answers=True)
        asking.join()
        with self._lock:
            self._open -= {near, far}
        near.close()
        far.close()

    def _pass_on(self, source: socket.socket, sink: socket.socket, *, answers: bool) -> None:
        shaken = 0
        with contextlib.suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                # The first answers of a connection are the handshake, without which nothing could be asked.
                if answers and self._losing and shaken > 0:
                    break
                shaken += answers
                sink.sendall(piece)
        for peer in (source, sink):
            with contextlib.suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def relay(target: tuple[str, int]) -> Iterator[Relay]:
    """A relay for as long as the block lasts."""
    one = Relay(target)
    try:
        yield one
    finally:
        one.close()
