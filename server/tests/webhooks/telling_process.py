"""A process that tells the webhooks of the ledger below a folder, until it is killed."""

import asyncio
import sys
from pathlib import Path

from server.tests.databases import place_of
from starforge_console.accounts.vault import open_vault
from starforge_console.clock import SystemClock
from starforge_console.ledger.database import Database
from starforge_console.scheduler.loop import Loop
from starforge_console.settings.webhooks import WebhookSettings
from starforge_console.wakeups import WEBHOOKS, Wakeups
from starforge_console.webhooks.dispatcher import Dispatcher
from starforge_console.webhooks.sending import Sender, WebhookParts


async def _run(root: Path) -> None:
    settings, clock, wakeups = WebhookSettings(), SystemClock(), Wakeups()
    wakeups.bind()
    ledger = Database(place_of(root / "state" / "ledger.db"), "ledger")
    parts = WebhookParts(
        ledger=ledger,
        vault=open_vault(root / "vault-key", ledger),
        sender=Sender(settings, clock),
        clock=clock,
        wakeups=wakeups,
    )
    await Loop("webhooks", WEBHOOKS, wakeups, Dispatcher(parts, settings, "https://forge.test").run_once).run()


if __name__ == "__main__":
    asyncio.run(_run(Path(sys.argv[1])))
