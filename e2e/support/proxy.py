"""A proxy before an engine's socket that loses, holds or refuses what passes, as a bad moment would."""

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_PIECE_BYTES: Final = 64 * 1024


@dataclass(slots=True)
class _Rule:
    route: str
    kind: str
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)


class EngineProxy:
    """Passes each connection on to `engine`, a socket's path or an address; every rule takes one request."""

    def __init__(self, path: Path, engine: str | tuple[str, int]) -> None:
        self.socket_path = str(path)
        self._engine = engine
        self._rules: list[_Rule] = []
        self._lock = threading.Lock()
        self._away = False
        self._open: set[socket.socket] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.socket_path)
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def lose_reply(self, route: str) -> threading.Event:
        """The next request whose first line holds `route` takes effect, and its answer is lost; set when it was."""
        return self._add(_Rule(route, "lose")).reached

    def hold(self, route: str) -> tuple[threading.Event, threading.Event]:
        """The next such request waits on its way: (set when it is there, set it to let it pass)."""
        rule = self._add(_Rule(route, "hold"))
        return rule.reached, rule.release

    def go_away(self) -> None:
        """Every connection is closed, the open ones too, until `come_back`."""
        with self._lock:
            self._away = True
            for peer in self._open:
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)

    def come_back(self) -> None:
        """Pass connections on again."""
        with self._lock:
            self._away = False

    def close(self) -> None:
        """End every connection and the thread."""
        self.go_away()
        for rule in self._rules:
            rule.release.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _add(self, rule: _Rule) -> _Rule:
        with self._lock:
            self._rules.append(rule)
        return rule

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, self._make_socket() as engine, contextlib.suppress(OSError):
            with self._lock:
                if self._away:
                    return
                self._open |= {client, engine}
            try:
                self._pass_on(client, engine)
            finally:
                with self._lock:
                    self._open -= {client, engine}

    def _make_socket(self) -> socket.socket:
        return socket.socket(socket.AF_UNIX if isinstance(self._engine, str) else socket.AF_INET)

    def _pass_on(self, client: socket.socket, engine: socket.socket) -> None:
        head = client.recv(_PIECE_BYTES)
        rule = self._take_rule(head.partition(b"\r\n")[0].decode(errors="replace"))
        if rule is not None and rule.kind == "hold":
            head = _complete(head, client)
            rule.reached.set()
            rule.release.wait()
            # It has arrived as a whole: that whoever sent it died meanwhile is not passed on.
            engine.connect(self._engine)
            engine.sendall(head)
            self._answer(rule, client, engine)
            return
        engine.connect(self._engine)
        engine.sendall(head)
        upward = threading.Thread(target=_pump, args=(client, engine), daemon=True)
        upward.start()
        self._answer(rule, client, engine)
        upward.join()

    def _answer(self, rule: _Rule | None, client: socket.socket, engine: socket.socket) -> None:
        if rule is not None and rule.kind == "lose":
            engine.recv(_PIECE_BYTES)
            rule.reached.set()
        else:
            _pump(engine, client)
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)

    def _take_rule(self, first_line: str) -> _Rule | None:
        with self._lock:
            for rule in self._rules:
                if rule.route in first_line:
                    self._rules.remove(rule)
                    return rule
        return None


@contextlib.contextmanager
def engine_proxy(path: Path, engine: str | tuple[str, int]) -> Iterator[EngineProxy]:
    """A proxy that is closed at the end."""
    proxy = EngineProxy(path, engine)
    try:
        yield proxy
    finally:
        proxy.close()


def _complete(request: bytes, client: socket.socket) -> bytes:
    """The request with all of its body."""
    found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", request)
    whole = request.index(b"\r\n\r\n") + 4 + (int(found[1]) if found else 0)
    while len(request) < whole and (piece := client.recv(_PIECE_BYTES)):
        request += piece
    return request


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(_PIECE_BYTES):
            sink.sendall(piece)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
