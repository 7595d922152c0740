"""Readers of a console's streams, each in a thread of its own, over a console that really serves."""

import threading
import time
from collections.abc import Callable

import httpx2

from server.tests.pages.support import form_key
from server.tests.web.serving import Served
from server.tests.web.support import ConsoleUnderTest

LIMIT_S = 10.0  # less than the time between two pings: what only a ping brings is a lost wake-up


class Follower:
    """A reader of one stream, in a thread of its own."""

    def __init__(self, client: httpx2.Client, path: str, last: str = "") -> None:
        self.text = ""
        self.ended = False
        self._asked = (client, path, {"Last-Event-ID": last} if last else {})
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def wait(self, wanted: str, limit_s: float = LIMIT_S) -> str:
        self._until(lambda: wanted in self.text, f"{wanted!r} in {self.text[-2000:]}", limit_s)
        return self.text

    def wait_end(self) -> None:
        self._until(lambda: self.ended, "the stream's end", LIMIT_S)

    @property
    def last_number(self) -> str:
        return [line for line in self.text.splitlines() if line.startswith("id: ")][-1].removeprefix("id: ")

    def _until(self, holds: Callable[[], bool], what: str, limit_s: float) -> None:
        deadline = time.monotonic() + limit_s
        while not holds():
            assert time.monotonic() < deadline, what
            self._thread.join(0.02)

    def _read(self) -> None:
        client, path, headers = self._asked
        with client.stream("GET", path, headers=headers) as answer:
            for piece in answer.iter_text():
                self.text += piece
        self.ended = True


def reader(served: Served, console: ConsoleUnderTest, name: str = "reader", role: str = "member") -> httpx2.Client:
    """A client with the session of a new user of that role."""
    client = served.client()
    served.clients.append(client)
    client.follow_redirects = True
    token = console.add_user(name, role)["Authorization"].removeprefix("Bearer ")
    client.post("/signin", data={"form_key": form_key(client.get("/signin").text), "token": token})
    return client
