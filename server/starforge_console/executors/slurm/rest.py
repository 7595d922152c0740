"""Slurm's REST daemon over HTTP or a unix socket: typed calls, and what each way of not answering means."""

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from starforge.said.sentence import say
from starforge_console.executors.slurm.decode.family import Document, Unreadable, read_list, read_submitted
from starforge_console.executors.slurm.native import NativeJob, NativeNode, NativePartition, Submitted
from starforge_console.executors.slurm.replies import (
    ALREADY_DONE,
    JobUnknown,
    SlurmSilent,
    VersionGone,
    check_reply,
)
from starforge_console.executors.slurm.settings import ClusterSettings
from starforge_console.executors.slurm.tokens import Tokens
from starforge_console.executors.slurm.versions import Dialect, UnknownVersions, choose_dialect

CONNECT_TIMEOUT_S: Final = 5.0
MOST_REPLY_BYTES: Final = 256 * 1024**2
"""So much that a list of tens of thousands of jobs goes through."""
NO_SUCH_JOB: Final = 67_108_863
"""The highest id that a job could have: asking for it tells whether the controller answers at all."""


class SlurmRest:
    """One daemon. Every call raises SlurmSilent where nothing is known afterwards.

    Which version is spoken is settled at the first call, and anew when it is not served any more.
    """

    def __init__(self, settings: ClusterSettings, tokens: Tokens) -> None:
        self._settings = settings
        self._tokens = tokens
        self._client: httpx2.AsyncClient | None = None
        self._dialect: Dialect | None = None

    async def close(self) -> None:
        """End the connections; the next call opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def negotiate(self) -> Dialect:
        """Settle which version is spoken. Raises SlurmSilent, which tells what was offered where none is known."""
        if self._dialect is not None:
            return self._dialect
        _, document = await self._ask("GET", "/openapi/v3", self._settings.user)
        paths = document.get("paths") if isinstance(document, dict) else None
        if not isinstance(paths, dict):
            self._tokens.forget()  # it may be them that are refused
            with contextlib.suppress(JobUnknown):
                check_reply(500, "", document)
            raise SlurmSilent(say("slurm.no_answer", why=say("slurm.no_paths", path="/openapi/v3")))
        try:
            self._dialect = choose_dialect(paths)
        except UnknownVersions as error:
            raise SlurmSilent(error.what, next_step=error.next_step) from error
        return self._dialect

    async def list_jobs(self, user: str) -> list[NativeJob]:
        """Every job that the controller remembers and `user` may see."""
        dialect = await self.negotiate()
        return _read_all(dialect.family.read_job, await self._get_list("jobs", user), "jobs")

    async def list_nodes(self, user: str) -> list[NativeNode]:
        """Every node."""
        dialect = await self.negotiate()
        return _read_all(dialect.family.read_node, await self._get_list("nodes", user), "nodes")

    async def list_partitions(self, user: str) -> list[NativePartition]:
        """Every partition."""
        dialect = await self.negotiate()
        return _read_all(dialect.family.read_partition, await self._get_list("partitions", user), "partitions")

    async def find_job(self, job_id: int, user: str) -> list[NativeJob] | None:
        """The job with its components; None when the controller answers that it knows none of that id."""
        dialect = await self.negotiate()
        try:
            document = await self._get(f"job/{job_id}", user)
        except JobUnknown:
            return None
        return _read_all(dialect.family.read_job, document, "jobs")

    async def find_accounted(self, job_id: int, user: str) -> list[NativeJob]:
        """What the accounting keeps of an ended job; nothing where there is no accounting, or it knows nothing."""
        dialect = await self.negotiate()
        if not dialect.accounting:
            return []
        status, document = await self._ask("GET", f"/slurmdb/{dialect.accounting}/job/{job_id}", user)
        with contextlib.suppress(JobUnknown):
            check_reply(status, "", document)
            return _read_all(dialect.family.read_job, document, "jobs")
        return []

    async def submit(self, components: Sequence[Document], script: str, user: str) -> Submitted:
        """Submit; what Slurm complains of comes with the answer. Raises SlurmSilent when that is not known."""
        dialect = await self.negotiate()
        body = dialect.family.write_submission(components, script)
        status, document = await self._ask("POST", f"/slurm/{dialect.version}/job/submit", user, body)
        submitted = read_submitted(document)
        if submitted.job_id is None and not submitted.complaints:
            check_reply(status, "", document)
            raise SlurmSilent(say("slurm.no_answer", why=say("slurm.no_job_named")))
        return submitted

    async def signal(self, job_id: int, signal: str, user: str) -> None:
        """Send `signal` to the job's batch script; to its steps on versions that know no difference."""
        await self._delete(f"job/{job_id}?signal={signal}", user)

    async def cancel(self, job_id: int, user: str) -> None:
        """End the job and every component of it; a job that is not known needs no ending."""
        await self._delete(f"job/{job_id}", user)

    async def _delete(self, path: str, user: str) -> None:
        dialect = await self.negotiate()
        status, document = await self._ask("DELETE", f"/slurm/{dialect.version}/{path}", user)
        submitted = read_submitted(document)
        if submitted.complaints and all(one.number == ALREADY_DONE for one in submitted.complaints):
            return
        with contextlib.suppress(JobUnknown):
            check_reply(status, "", document)

    async def _get_list(self, name: str, user: str) -> Any:  # noqa: ANN401 - parsed JSON
        try:
            return await self._get(name, user)
        except JobUnknown as error:  # nobody asked for one
            raise SlurmSilent(say("slurm.no_answer", why=say("slurm.no_list", name=repr(name)))) from error

    async def _get(self, path: str, user: str) -> Any:  # noqa: ANN401 - the same
        dialect = await self.negotiate()
        status, document = await self._ask("GET", f"/slurm/{dialect.version}/{path}", user)
        try:
            check_reply(status, "", document)
        except VersionGone:
            self._dialect = None
            raise
        except SlurmSilent:
            self._tokens.forget()  # not every version says that it is they that are refused
            raise
        return document

    async def _ask(self, method: str, path: str, user: str, body: Document | None = None) -> tuple[int, Any]:
        limit_s = self._settings.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):  # each piece of an answer may come in time, and the whole never
                token = await asyncio.to_thread(self._tokens.load, user)
                # Without a token the daemon knows us by our process, and takes no other name.
                headers = {} if token is None else {"X-SLURM-USER-NAME": user, "X-SLURM-USER-TOKEN": token.reveal()}
                status, content = await self._fetch(method, path, headers, body)
        except TimeoutError as error:
            raise SlurmSilent(
                say("slurm.too_slow", url=self._settings.url, seconds=f"{limit_s:g}"),
                next_step=say("slurm.too_slow_next"),
            ) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            words = str(error) or type(error).__name__
            raise SlurmSilent(
                say("slurm.unreachable", url=self._settings.url, why=words), next_step=say("slurm.unreachable_next")
            ) from error
        # Whoever may queue a job gives it a name and a comment, and Slurm tells bytes that are no text as they are.
        text = content.decode(errors="replace")
        try:
            return status, json.loads(text)
        except (ValueError, RecursionError):  # no JSON, or nested beyond reading
            return status, text

    async def _fetch(
        self, method: str, path: str, headers: Mapping[str, str], body: Document | None
    ) -> tuple[int, bytes]:
        async with self._open().stream(method, path, headers=headers, json=body) as answer:
            content = bytearray()
            async for piece in answer.aiter_bytes():
                content += piece
                if len(content) > MOST_REPLY_BYTES:
                    why = say("slurm.too_large", mib=MOST_REPLY_BYTES // 1024**2)
                    raise SlurmSilent(say("slurm.no_answer", why=why))
            return answer.status_code, bytes(content)

    def _open(self) -> httpx2.AsyncClient:
        if self._client is None:
            parts = urlsplit(self._settings.url)
            local = parts.scheme == "unix"
            # No connection is kept: a daemon that restarted would be met first by the call that finds its own cut.
            limits = httpx2.Limits(max_keepalive_connections=0)
            self._client = httpx2.AsyncClient(
                base_url="http://slurmrestd" if local else self._settings.url,
                # A proxy of the environment's would answer in the daemon's place.
                transport=httpx2.AsyncHTTPTransport(uds=parts.path if local else None, limits=limits, trust_env=False),
                trust_env=False,
                timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),  # the whole has its own
            )
        return self._client


def _read_all(read: Any, document: Any, name: str) -> list[Any]:  # noqa: ANN401 - one of a family's readers
    try:
        return [read(one) for one in read_list(document, name)]
    except Unreadable as error:
        raise SlurmSilent(say("slurm.no_answer", why=error.why)) from error
