"""A way to a server that is cut after so many bytes of an answer, as a bad line would."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Way:
    """`cuts`: after how many bytes each of the next connections that carry more is cut; the ones after are whole."""

    target: int
    cuts: list[int] = field(default_factory=list)
    listener: socket.socket = field(default_factory=lambda: socket.create_server(("127.0.0.1", 0)))

    @property
    def port(self) -> int:
        return int(self.listener.getsockname()[1])

    def serve(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed: the test is over
            while True:
                near, _ = self.listener.accept()
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", self.target)) as far:
            back = threading.Thread(target=_pump, args=(near, far), daemon=True)
            back.start()
            left = self.cuts[0] if self.cuts else None
            with contextlib.suppress(OSError):
                while piece := far.recv(1 << 16):
                    if left is not None and len(piece) > left:
                        self.cuts.pop(0)
                        near.sendall(piece[:left])
                        near.shutdown(socket.SHUT_RDWR)
                        return
                    near.sendall(piece)
                    left = None if left is None else left - len(piece)
                near.shutdown(socket.SHUT_WR)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def cutting(target: int, cuts: list[int]) -> Iterator[Way]:
    way = Way(target, cuts)
    threading.Thread(target=way.serve, daemon=True).start()
    try:
        yield way
    finally:
        way.listener.close()
