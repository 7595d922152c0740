"""A console that may tell webhooks on loopback, a server to be told, and a loop that tells."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from server.tests.web.support import ConsoleUnderTest, build_console, build_webhook_parts, close_console
from server.tests.webhooks.receiver import DEADLINE_S, Receiver, receiving
from starforge_console.accounts.vault import open_vault
from starforge_console.scheduler.loop import Loop
from starforge_console.settings.webhooks import WebhookSettings
from starforge_console.wakeups import JOBS, WEBHOOKS
from starforge_console.webhooks.dispatcher import Dispatcher

PUBLIC_URL = "https://forge.test"


@pytest.fixture
def console(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleUnderTest]:
    monkeypatch.setenv("FORGE_WEBHOOK_ALLOW", "127.0.0.0/8")
    built = build_console(tmp_path)
    try:
        yield built
    finally:
        close_console(built)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


Telling = Callable[..., AbstractContextManager[None]]


@pytest.fixture
def telling(console: ConsoleUnderTest) -> Telling:
    """Tell webhooks in a thread of its own, with these settings."""

    @contextmanager
    def tell(**settings: float) -> Iterator[None]:
        chosen = WebhookSettings(webhook_allow="127.0.0.0/8", **{"webhook_retry_s": 0.05, **settings})  # type: ignore[arg-type] # mypy sees one type for all
        teller = _Teller(console, chosen)
        teller.thread.start()
        try:
            yield
        finally:
            teller.stop()

    return tell


class _Teller:
    def __init__(self, console: ConsoleUnderTest, settings: WebhookSettings) -> None:
        self._console = console
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] | None = None
        self._began = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def stop(self) -> None:
        assert self._began.wait(DEADLINE_S)
        assert self._task is not None
        self._loop.call_soon_threadsafe(self._task.cancel)
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._tell())

    async def _tell(self) -> None:
        services = self._console.services
        services.wakeups.bind()
        vault = open_vault(self._console.root / "vault-key", services.ledger)
        parts = build_webhook_parts(services.ledger, vault, self._console.clock, services.wakeups, self._settings)
        dispatcher = Dispatcher(parts, self._settings, PUBLIC_URL)
        loop = Loop("webhooks", (JOBS, WEBHOOKS), services.wakeups, dispatcher.run_once)
        self._task = asyncio.create_task(loop.run())
        self._began.set()
        try:
            await self._task
        except asyncio.CancelledError:
            await dispatcher.close()
