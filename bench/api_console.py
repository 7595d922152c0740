"""A console's API without its loops, for its CPU alone to be measured. `python -m bench.api_console FOLDER`.

Prints a JSON line with port, token and a submission that every gate passes; ends with its standard input.
"""

import asyncio
import json
import sys
import threading
from pathlib import Path

import uvloop
from starlette.applications import Starlette

from server.tests.web.support import ConsoleUnderTest, build_console, build_submission, close_console
from starforge_console.settings.console import HttpSettings, LogFormat
from starforge_console.telemetry.log import set_up_log
from starforge_console.web.server import Listening, serve


def main(folder: Path) -> None:
    """Serve until standard input ends."""
    console = build_console(folder)  # before there is a loop: it reads its fleets in one of its own
    try:
        uvloop.run(_serve(console))
    finally:
        close_console(console)


async def _serve(console: ConsoleUnderTest) -> None:
    token = console.add_user("ada")["Authorization"].removeprefix("Bearer ")
    console.keep_workspace()
    console.services.wakeups.bind()
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def end_with_input() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(stop.set)

    async def tell(listening: Listening) -> None:
        threading.Thread(target=end_with_input, daemon=True).start()
        told = {"port": listening.api_port, "token": token, "submission": build_submission()}
        print(json.dumps(told), flush=True)

    http = HttpSettings(listen="127.0.0.1:0", ingest_listen="127.0.0.1:0")
    await serve(console.app, Starlette(), http, tell, stop)


if __name__ == "__main__":
    set_up_log(LogFormat.JSON, "error")
    main(Path(sys.argv[1]))
