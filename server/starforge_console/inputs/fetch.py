"""Runs the process that fetches a snapshot, hears how far it is, and ends it when nothing arrives any more."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from starforge_console.inputs.fetch_process import Wanted

_LINE_BYTES: Final = 1 << 16
_ENVIRONMENT: Final = ("HF_", "HUGGING", "FORGE_")
"""Nothing of these reaches the process: the wish says all, and the console's settings hold secrets."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The snapshot is there."""


@dataclass(frozen=True, slots=True)
class NeverThere:
    """The snapshot cannot be had."""

    why: str


@dataclass(frozen=True, slots=True)
class NotYet:
    """The snapshot may be had later; what arrived is kept."""

    why: str


Fetched = Ready | NeverThere | NotYet
Progress = Callable[[int, int], None]
"""Told how many bytes are here, of how many."""


async def fetch(wanted: Wanted, stall_s: float, progress: Progress) -> Fetched:
    """Fetch the snapshot in a process of its own. Cancelled, it leaves none behind.

    Raises:
        OSError: no process can be started now.

    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "starforge_console.inputs.fetch_process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=_build_environment(os.environ),
        limit=_LINE_BYTES,
    )
    try:
        if process.stdin is not None:
            process.stdin.write(wanted.to_line())
        return await _hear(process, stall_s, progress)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _hear(process: asyncio.subprocess.Process, stall_s: float, progress: Progress) -> Fetched:
    clock = asyncio.get_running_loop().time
    heard, moved_at = (-1, -1), clock()
    while True:
        left_s = moved_at + stall_s - clock()
        try:
            async with asyncio.timeout(left_s):
                line = await process.stdout.readline() if process.stdout is not None else b""
        except TimeoutError:
            return NotYet(f"nothing arrived for {stall_s:g} s")
        except ValueError:
            return NotYet(f"the fetching process said more than {_LINE_BYTES} bytes at once")
        if not line:
            return NotYet(f"the fetching process ended with code {await process.wait()}")
        said: dict[str, Any] = json.loads(line)
        match said:
            case {"done": int(done), "of": int(of)}:
                if (done, of) != heard:
                    heard, moved_at = (done, of), clock()
                    progress(done, of)
            case {"ready": _}:
                return Ready()
            case {"refused": str(why)}:
                return NeverThere(why)
            case {"unknown": str(why)}:
                return NotYet(why)


def _build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environment.items() if not name.startswith(_ENVIRONMENT)}
    quiet = {
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_XET": "1",  # plain HTTP passes proxies and mirrors, and goes on where it was cut
    }
    return kept | quiet
