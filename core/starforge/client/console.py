"""Every call of the console's API that `sf` makes, typed by the contract."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Final, NamedTuple, TypeVar
from urllib.parse import quote

from pydantic import JsonValue, ValidationError

import starforge
from starforge.client.http import Body, Connection, Request
from starforge.client.logs import (
    LogAsk,
    LogPart,
    LogQuestion,
    build_log_request,
    build_search_query,
    parse_log_reply,
)
from starforge.contract import api, results
from starforge.contract.comparing import Comparison
from starforge.contract.diagnosis import DiagnosisView
from starforge.contract.ids import Digest
from starforge.contract.jobspec import API_VERSION, KIND, describe_faults
from starforge.contract.logs import LogHit, LogHits
from starforge.contract.quotas import QuotaList
from starforge.contract.turns import GoOnRequest, PauseRequest
from starforge.contract.versions import check_client
from starforge.errors import NotFound, Unavailable

AnswerT = TypeVar("AnswerT", bound=api.Answer)

_PAGE: Final = 100
_PATIENT_TRIES: Final = 8


class Rest(NamedTuple):
    """What is sent of a blob: its plain bytes from `offset` on, encoded, anew each time `body` is called."""

    offset: int
    body: Callable[[], Body]


def render(submission: api.SubmitRequest) -> dict[str, JsonValue]:
    """The submission as JSON; members at their default are left out, so that an older console can read it."""
    spec = submission.spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    beside = submission.model_dump(mode="json", exclude={"spec"}, exclude_defaults=True)
    return {"spec": {"apiVersion": API_VERSION, "kind": KIND, **spec}, **beside}


class Console:
    """The console as its API shows it."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def meta(self) -> api.Meta:
        """Who answers. Needs no sign-in. Raises ClientTooOld when it no longer serves this version."""
        meta = self._get(api.Meta, "/meta")
        check_client(starforge.__version__, meta.min_client)
        return meta

    def whoami(self) -> api.WhoAmI:
        """Whose token this is."""
        return self._get(api.WhoAmI, "/whoami")

    def quotas(self) -> QuotaList | None:
        """What limits the caller's jobs; None where the console is too old to say."""
        try:
            return self._get(QuotaList, "/quotas")
        except NotFound:
            return None

    def profiles(self) -> api.ProfileList:
        """The named shapes of the hardware registry."""
        return self._get(api.ProfileList, "/profiles")

    def blob(self, digest: Digest) -> api.BlobState:
        """Whether the console holds the blob."""
        return self._get(api.BlobState, f"/blobs/{digest}")

    def upload(self, digest: Digest, choose: Callable[[int], Rest], received: int = 0) -> api.BlobState:
        """Send the blob as zstd. After a cut it goes on where it was.

        Args:
            digest: The digest of the plain content.
            choose: Given the plain bytes that the console has, what is to be sent; asked before each try.
            received: What it has now.

        """

        def build(there: int) -> Request:
            rest = choose(there)
            headers = {"Content-Encoding": "zstd", "Content-Type": "application/x-tar"}
            if rest.offset:
                headers[api.HEADER_UPLOAD_OFFSET] = str(rest.offset)
            path = f"/blobs/{digest}"
            return Request(
                method="PUT", path=path, body=rest.body, headers=headers, tries=_PATIENT_TRIES, wait_s=600, renew=renew
            )

        def renew() -> Request:
            try:
                return build(self.blob(digest).received)
            except Unavailable:
                return build(0)  # from the beginning is right whatever the console has

        return self._send(api.BlobState, build(received))

    def check(self, submission: api.SubmitRequest) -> api.AdmissionRecord:
        """What every gate says; keeps nothing."""
        return self._send(api.AdmissionRecord, Request(method="POST", path="/admission", json=render(submission)))

    def submit(self, submission: api.SubmitRequest, key: str) -> api.AdmissionRecord:
        """Admit the job. The same `key` with the same submission gives the same job, however often it is sent."""
        request = Request(
            method="POST",
            path="/jobs",
            json=render(submission),
            headers={api.HEADER_IDEMPOTENCY_KEY: key},
            tries=_PATIENT_TRIES,
        )
        return self._send(api.AdmissionRecord, request)

    def rerun(self, job: str, key: str) -> api.AdmissionRecord:
        """Admit the JobSpec of `job` again. The same `key` gives the same new job, however often it is sent."""
        path, headers = f"/jobs/{quote(job, safe='')}/rerun", {api.HEADER_IDEMPOTENCY_KEY: key}
        return self._send(api.AdmissionRecord, Request(method="POST", path=path, headers=headers, tries=_PATIENT_TRIES))

    def jobs(self, filters: Mapping[str, str], limit: int) -> list[api.JobView]:
        """The newest jobs that fit `filters` (state, user, project), at most `limit`."""
        found: list[api.JobView] = []
        cursor: str | None = None
        while len(found) < limit:
            query: dict[str, str | int] = {**filters, "limit": min(_PAGE, limit - len(found))}
            page = self._get(api.JobList, "/jobs", query | ({"cursor": cursor} if cursor else {}))
            found += page.items
            cursor = page.next
            if cursor is None:
                break
        return found

    def job(self, job: str) -> api.JobDetail:
        """Everything about a job."""
        return self._get(api.JobDetail, f"/jobs/{quote(job, safe='')}")

    def diagnosis(self, job: str, attempt: int | None = None) -> DiagnosisView:
        """Why an attempt of the job failed, the newest where none is named. Raises NotFound before that is known."""
        query = {} if attempt is None else {"attempt": attempt}
        return self._get(DiagnosisView, f"/jobs/{quote(job, safe='')}/diagnosis", query)

    def difference(self, job: str) -> api.DifferenceView:
        """How the job's tree differs from its commit. Raises NotFound where nothing is kept of it."""
        return self._get(api.DifferenceView, f"/jobs/{quote(job, safe='')}/difference")

    def native(self, job: str, attempt: int | None = None) -> api.NativeView:
        """What was sent to start an attempt of the job, the newest where none is named. Raises NotFound."""
        query = {} if attempt is None else {"attempt": attempt}
        return self._get(api.NativeView, f"/jobs/{quote(job, safe='')}/native", query)

    def save_workspace(self, job: str, file: IO[bytes], progress: Callable[[int], object]) -> None:
        """Write the job's packed workspace into the empty `file`; whoever uses it compares its digest."""
        self.connection.download(f"/jobs/{quote(job, safe='')}/workspace", file, progress)

    def events(self, job: str, after: int, wait_s: int) -> api.EventList:
        """The job's events after number `after`; waits up to `wait_s` for the first."""
        query = {"after": after, "wait_s": wait_s}
        request = Request(
            method="GET", path=f"/jobs/{quote(job, safe='')}/events", query=query, repeatable=False, wait_s=wait_s
        )
        return self._send(api.EventList, request)

    def log(self, job: str, ask: LogAsk) -> LogPart:
        """Bytes of an attempt's log; waits for the first as long as `ask` says."""
        return parse_log_reply(self.connection.send(build_log_request(job, ask)), ask)

    def search_log(self, job: str, question: LogQuestion) -> Iterator[LogHit]:
        """The lines that hold what is asked for, through the whole log, as they are found."""
        path = f"/jobs/{quote(job, safe='')}/log/search"
        start: int | None = 0
        attempt = question.attempt
        while start is not None:
            hits = self._get(LogHits, path, build_search_query(question, start, attempt))
            yield from hits.items
            start, attempt = hits.next, hits.attempt or attempt  # a newer attempt's bytes do not go on here

    def metric_keys(self, job: str, text: str = "") -> results.MetricKeys:
        """The job's curves by name; those that hold `text`, whatever its case."""
        query = {"q": text} if text else {}
        return self._get(results.MetricKeys, f"/jobs/{quote(job, safe='')}/metrics", query)

    def curve(self, job: str, key: str, points: int, attempt: int | None = None) -> results.Curve:
        """One curve with about `points` points; of one attempt alone if asked."""
        query = {"points": points} | ({} if attempt is None else {"attempt": attempt})
        return self._get(results.Curve, f"/jobs/{quote(job, safe='')}/metrics/{quote(key, safe='')}", query)

    def compare(self, jobs: Sequence[str], keys: Sequence[str], points: int) -> Comparison:
        """Runs side by side; without keys, by the metric that says most of all of them."""
        return self._get(Comparison, "/compare", {"job": jobs, "key": keys, "points": points})

    def save_metrics(self, job: str, keys: Sequence[str], file: IO[bytes]) -> None:
        """Write every point of the job's curves, or of those named, into `file` as CSV."""
        asked = "&".join(f"key={quote(key, safe='')}" for key in keys)
        self.connection.download(
            f"/jobs/{quote(job, safe='')}/metrics.csv" + (f"?{asked}" if asked else ""), file, _quietly
        )

    def outputs(self, job: str) -> results.Outputs:
        """The job's artifacts and checkpoints."""
        return self._get(results.Outputs, f"/jobs/{quote(job, safe='')}/outputs")

    def stop(self, job: str, request: api.StopRequest) -> None:
        """Ask for the job's end; it is not over yet when this returns."""
        body = request.model_dump(mode="json", exclude_none=True)
        self.connection.send(Request(method="POST", path=f"/jobs/{quote(job, safe='')}/stop", json=body))

    def pause(self, job: str, request: PauseRequest) -> api.JobView:
        """Ask for the job's pause; it is not confirmed yet when this returns. Raises ProgressAtRisk."""
        return self._turn(job, "pause", request)

    def resume(self, job: str, request: GoOnRequest) -> api.JobView:
        """Let a paused job go on."""
        return self._turn(job, "resume", request)

    def retry(self, job: str, request: GoOnRequest) -> api.JobView:
        """Queue a failed or stopped job again."""
        return self._turn(job, "retry", request)

    def delete(self, job: str) -> None:
        """Remove a finished job's record, logs and work."""
        self.connection.send(Request(method="DELETE", path=f"/jobs/{quote(job, safe='')}", repeatable=False))

    def _turn(self, job: str, verb: str, request: PauseRequest | GoOnRequest) -> api.JobView:
        body = request.model_dump(mode="json", exclude_defaults=True)
        # Sent again after a lost answer, a retry would be told that the job is queued already.
        return self._send(
            api.JobView,
            Request(method="POST", path=f"/jobs/{quote(job, safe='')}/{verb}", json=body, repeatable=verb != "retry"),
        )

    def _get(
        self, kind: type[AnswerT], path: str, query: Mapping[str, str | int | Sequence[str]] | None = None
    ) -> AnswerT:
        return self._send(kind, Request(method="GET", path=path, query=query or {}))

    def _send(self, kind: type[AnswerT], request: Request) -> AnswerT:
        reply = self.connection.send(request)
        try:
            return kind.model_validate_json(reply.body)
        except ValidationError as error:
            raise Unavailable(
                f"the answer to {request.method} {request.path} is not what was asked for",
                why=describe_faults(error),
                next_step="check that the address is that of a StarForge console of a near version: sf status",
            ) from error


def _quietly(_count: int) -> None:
    """Nobody watches."""
