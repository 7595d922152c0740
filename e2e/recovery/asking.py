"""Submissions over HTTP, many at once, as programs send them that repeat what was not answered."""

import asyncio
import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx2

from e2e.badinput.calls import Caller
from e2e.support.console import ConsoleProcess
from server.tests.web.support import WORKSPACE, build_submission
from starforge.contract.canonical import digest_bytes

PATH: Final = "/api/v1/jobs"
_ANSWER_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of one request; without an answer the status is 0."""

    key: str
    status: int
    body: Any

    @property
    def job(self) -> str:
        assert self.status == 201, self
        return str(self.body["job"])


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one console with one token."""

    console: ConsoleProcess
    token: str

    def keep_workspace(self) -> None:
        """Upload what all jobs here are made of."""
        caller = Caller(self.console.port, self.token)
        answer = caller.call("PUT", f"/api/v1/blobs/{digest_bytes(WORKSPACE)}", WORKSPACE)
        assert answer.status == 200, answer

    def get(self, path: str) -> Any:  # noqa: ANN401 - a JSON answer
        answer = Caller(self.console.port, self.token).call("GET", path)
        assert answer.status == 200, answer
        return answer.body

    def submit(self, key: str) -> Reply:
        """One job under this key."""
        (reply,) = self.submit_at_once([key])
        return reply

    def submit_at_once(self, keys: Sequence[str]) -> list[Reply]:
        """All of them on connections of their own at one time; a key names the job too."""
        return asyncio.run(self._submit_at_once(keys, len(keys), None))

    def submit_until(self, keys: Sequence[str], at_once: int, crash: Callable[[], None]) -> list[Reply]:
        """So many at one time; when the first is answered something happens to the others, and to those behind them."""
        return asyncio.run(self._submit_at_once(keys, at_once, crash))

    def list_jobs(self) -> dict[str, str]:
        """All jobs by id, with their names."""
        found: dict[str, str] = {}
        cursor = ""
        while True:
            page = self.get(f"{PATH}?limit=500{cursor}")
            found |= {str(one["id"]): str(one["name"]) for one in page["items"]}
            if not page.get("next_cursor"):
                return found
            cursor = f"&cursor={page['next_cursor']}"

    async def _submit_at_once(self, keys: Sequence[str], at_once: int, crash: Callable[[], None] | None) -> list[Reply]:
        limits = httpx2.Limits(max_connections=at_once, max_keepalive_connections=0)
        replies = []
        async with httpx2.AsyncClient(limits=limits, timeout=_ANSWER_S, trust_env=False) as client:
            for answered in asyncio.as_completed([self._submit(client, key) for key in keys]):
                replies.append(await answered)
                if crash is not None and len(replies) == 1:
                    crash()  # on this thread: nothing more is heard meanwhile
        return replies

    async def _submit(self, client: httpx2.AsyncClient, key: str) -> Reply:
        document: Any = build_submission()
        document["spec"]["metadata"]["name"] = key
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": key}
        try:
            answer = await client.post(self.console.url + PATH, json=document, headers=headers)
            return Reply(key, answer.status_code, answer.json())
        except httpx2.TransportError:
            return Reply(key, 0, None)


def sign_in(console: ConsoleProcess) -> Asker:
    """Set the console up, start it, and ask it as its administrator, with a workspace there."""
    console.admin("init", "--admin", "ada")
    asker = Asker(console, console.token("--scopes", "read,submit,admin"))
    console.start()
    asker.keep_workspace()
    return asker


def run(console: ConsoleProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`starforge-console`, whatever comes of it."""
    program = Path(console.environment["PATH"].split(":")[0]) / "starforge-console"
    return subprocess.run(
        [program, *arguments], env=console.environment, capture_output=True, text=True, timeout=120, check=False
    )


def read_json(done: subprocess.CompletedProcess[str]) -> Any:  # noqa: ANN401 - a JSON answer
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
