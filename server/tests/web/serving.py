"""The real server on free ports of this machine, in a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import httpx2
from starlette.applications import Starlette

from server.tests.web.support import ConsoleUnderTest
from starforge_console.settings.console import HttpSettings
from starforge_console.web.server import Listening, serve

START_S = 20.0


class Served:
    """A console that listens; `stop` ends it from any thread."""

    def __init__(self, console: ConsoleUnderTest, http: HttpSettings) -> None:
        self._http = http.model_copy(update={"listen": "127.0.0.1:0", "ingest_listen": "127.0.0.1:0"})
        self._console = console
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self.ports = Listening(0, 0)
        self.error: BaseException | None = None
        self.clients: list[httpx2.Client] = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self.thread.start()
        assert self._ready.wait(START_S), self.error

    def stop(self) -> None:
        assert self._loop is not None
        assert self._stop is not None
        with contextlib.suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._stop.set)

    def client(self, headers: dict[str, str] | None = None) -> httpx2.Client:
        address = f"http://127.0.0.1:{self.ports.api_port}"
        return httpx2.Client(base_url=address, headers=headers, trust_env=False, timeout=40)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self.error = error
            raise

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._console.services.wakeups.bind()
        await serve(self._console.app, Starlette(), self._http, self._on_ready, self._stop)

    async def _on_ready(self, ports: Listening) -> None:
        self.ports = ports
        self._ready.set()


@contextlib.contextmanager
def serving(console: ConsoleUnderTest, http: HttpSettings | None = None) -> Iterator[Served]:
    served = Served(console, http or HttpSettings())
    served.start()
    try:
        yield served
    finally:
        served.stop()
        served.thread.join(START_S)
        assert not served.thread.is_alive()
