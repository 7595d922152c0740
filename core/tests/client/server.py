"""A small console on loopback that speaks the API for real: over HTTP, with long polls, and it can be restarted."""

import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from backports import zstd

from starforge.contract.api import (
    AdmissionRecord,
    AttemptView,
    CheckView,
    EventView,
    JobView,
    LineageView,
    Problem,
    RefusalView,
    SubmitRequest,
)
from starforge.contract.ids import new_job_id
from starforge.contract.jobspec import digest_of

TOKEN = "sft_" + "a" * 30
_OPEN = {"/meta", "/device/code", "/device/token"}


@dataclass
class Job:
    request: SubmitRequest
    view: JobView
    admission: AdmissionRecord
    events: list[EventView] = field(default_factory=list)
    logs: dict[int, bytes] = field(default_factory=dict)
    of_nodes: dict[int, bytes] = field(default_factory=dict)
    lost: tuple[int, int] = (0, 0)
    ended: set[int] = field(default_factory=set)
    curves: dict[str, list[float]] = field(default_factory=dict)
    attempts: list[AttemptView] = field(default_factory=list)


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    query: str = ""


class ConsoleState:
    """What outlives a restart."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.jobs: dict[str, Job] = {}
        self.blobs: dict[str, bytes] = {}
        self.keys: dict[str, str] = {}
        self.seen: list[Seen] = []
        self.profiles: list[dict[str, Any]] = [
            {"name": "h200", "series": "h200", "gpus": 1, "gpus_per_node": 8, "cpus": None, "memory_bytes": None}
        ]
        self.refusals: tuple[RefusalView, ...] = ()
        self.min_client = "0.1.0"
        self.failures: list[tuple[str, int, dict[str, str]]] = []
        """Answers to give first: path ends with, status (0: cut the connection after acting), headers."""
        self.partials: dict[str, bytes] = {}
        self.cut_uploads_at: list[int] = []
        """How many plain bytes to have of each of the next uploads before the connection is cut."""
        self.cut_downloads_at: list[int] = []
        """After how many bytes of the content the connection of each of the next downloads is cut."""
        self.log_piece = 1 << 20
        self.primary: str | None = None
        self.answers: dict[str, object] = {}
        self.at_risk: set[str] = set()
        """What is answered to a method and path, such as `GET /fleets`, before anything else is looked for."""

    def add_job(self, request: SubmitRequest) -> str:
        job = str(new_job_id())
        checks = (CheckView(gate="account", outcome="passed"),)
        digest = digest_of(request.spec)
        record = AdmissionRecord(job=job, spec_digest=digest, decided_at=time.time(), checks=checks, digest=digest)
        view = JobView(
            id=job,
            name=request.spec.metadata.name,
            project=request.spec.metadata.project,
            user="ada",
            state="QUEUED",
            reason="admitted",
            desired="run",
            fleet=request.spec.spec.placement.fleet,
            gpus=request.spec.gpus,
            attempt=0,
            submitted_at=time.time(),
            state_since=time.time(),
        )
        with self.changed:
            self.jobs[job] = Job(request, view, record)
        self.move(job, "QUEUED", "admitted")
        return job

    def move(self, job: str, state: str, reason: str, **members: object) -> None:
        with self.changed:
            found = self.jobs[job]
            changes = {"state": state, "reason": reason, "state_since": time.time(), "note": "", **members}
            found.view = found.view.model_copy(update=changes)
            number = 1 + sum(len(one.events) for one in self.jobs.values())
            note = found.view.note
            found.events.append(EventView(number=number, at=time.time(), state=state, reason=reason, note=note))
            self.changed.notify_all()

    def tell(self, job: str, note: str) -> None:
        """Say beside the job's state what it waits for, as a scheduler does: without an event."""
        with self.changed:
            self.jobs[job].view = self.jobs[job].view.model_copy(update={"note": note})
            self.changed.notify_all()

    def start_attempt(self, job: str) -> int:
        number = self.jobs[job].view.attempt + 1
        with self.changed:
            self.jobs[job].logs[number] = b""
        self.move(job, "RUNNING", "started", attempt=number, retry_at=None)
        return number

    def spread(self, job: str, nodes: int) -> None:
        """Let the job be one over so many nodes."""
        with self.changed:
            document = self.jobs[job].request.model_dump(mode="json", by_alias=True)
            document["spec"]["spec"]["resources"]["pools"][0]["nodes"] = nodes
            self.jobs[job].request = SubmitRequest.model_validate(document)

    def append_log(self, job: str, content: bytes, *, ended: bool = False) -> None:
        with self.changed:
            found = self.jobs[job]
            number = found.view.attempt
            found.logs[number] += content
            if ended:
                found.ended.add(number)
            self.changed.notify_all()


@contextmanager
def serve(state: ConsoleState, port: int = 0) -> Iterator[str]:
    """Serve `state` at the address it gives; leaving cuts every connection, as a killed process would."""
    gone = threading.Event()
    server = _Server(("127.0.0.1", port), type("Handler", (_Handler,), {"state": state, "gone": gone}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        gone.set()
        with state.changed:
            state.changed.notify_all()
        server.shutdown()
        server.cut_all()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    allow_reuse_address = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self.open_sockets: set[socket.socket | tuple[bytes, socket.socket]] = set()

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        self.open_sockets.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
        self.open_sockets.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        """A client that went away is no fault of the server's."""

    def cut_all(self) -> None:
        for request in list(self.open_sockets):
            if isinstance(request, socket.socket):
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: ConsoleState
    gone: threading.Event
    is_cut = False

    def log_message(self, *_args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._answer()

    def do_PUT(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_PATCH(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def _answer(self) -> None:
        body = self._read_body()
        parts = urlsplit(self.path)
        path = parts.path.removeprefix("/api/v1")
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.state.seen.append(Seen(self.command, path, headers, body, parts.query))
        failure = next((one for one in self.state.failures if path.endswith(one[0])), None)
        if failure is not None:
            self.state.failures.remove(failure)
            if failure[1]:
                self._problem(failure[1], "not now", headers=failure[2])
                return
        if path not in _OPEN and headers.get("authorization") != f"Bearer {TOKEN}":
            self._problem(401, "no valid token came with the request")
            return
        self._route(path, dict(parse_qsl(parts.query)), body, cut=failure is not None)

    def _route(self, path: str, query: dict[str, str], body: bytes, *, cut: bool) -> None:
        answer = self.state.answers.get(f"{self.command} {path}")
        if isinstance(answer, bytes):
            self._send(200, answer, {"Content-Type": "text/plain"})
            return
        if answer is not None:
            self._json(answer)
            return
        name, *rest = path.strip("/").split("/")
        method = getattr(self, f"_{self.command.lower()}_{name}", None)
        if method is None:
            self._problem(404, f"{path} is unknown")
            return
        if cut:
            self.is_cut = True
        method(rest, query, body)

    def _get_meta(self, *_: object) -> None:
        self._json({"server": "0.1.0", "jobspec": ["forge/v2"], "min_client": self.state.min_client, "features": []})

    def _get_whoami(self, *_: object) -> None:
        self._json({"user": "ada", "role": "member", "scopes": ["submit"], "token_expires_at": time.time() + 86400})

    def _get_profiles(self, *_: object) -> None:
        self._json({"items": self.state.profiles})

    def _get_methods(self, *_: object) -> None:
        self._json({"items": []})

    def _get_blobs(self, rest: list[str], *_: object) -> None:
        received = len(self.state.partials.get(rest[0], b""))
        self._json({"digest": rest[0], "present": rest[0] in self.state.blobs, "received": received})

    def _put_blobs(self, rest: list[str], _query: dict[str, str], body: bytes) -> None:
        content = zstd.decompress(body) if self.headers.get("Content-Encoding") == "zstd" else body
        offset = int(self.headers.get("Upload-Offset", 0))
        content = self.state.partials.pop(rest[0], b"")[:offset] + content
        if self.state.cut_uploads_at:
            self.state.partials[rest[0]] = content[: self.state.cut_uploads_at.pop(0)]
            self.is_cut = True
            self._json({})
            return
        if "sha256:" + hashlib.sha256(content).hexdigest() != rest[0]:
            self._problem(422, "the content has another digest")
            return
        self.state.blobs[rest[0]] = content
        self._json({"digest": rest[0], "present": True, "bytes": len(content)})

    def _post_admission(self, _rest: list[str], _query: dict[str, str], body: bytes) -> None:
        request = SubmitRequest.model_validate_json(body)
        record = AdmissionRecord(
            job=None,
            spec_digest=digest_of(request.spec),
            decided_at=time.time(),
            checks=(CheckView(gate="account", outcome="passed"),),
            refusals=self.state.refusals,
        )
        self._json(record.model_dump(mode="json"))

    def _post_jobs(self, rest: list[str], _query: dict[str, str], body: bytes) -> None:
        if rest[1:] == ["rerun"]:
            key, before = self.headers["Idempotency-Key"], self.state.jobs[rest[0]]
            if key not in self.state.keys:
                self.state.keys[key] = self.state.add_job(before.request)
            self._json(self.state.jobs[self.state.keys[key]].admission.model_dump(mode="json"), 201)
            return
        if rest and rest[0] not in self.state.jobs:
            self._problem(404, f"there is no job {rest[0]}")
            return
        if rest and rest[1] != "stop":
            self._turn(rest[0], rest[1], json.loads(body))
            return
        if rest:
            self.state.jobs[rest[0]].view = self.state.jobs[rest[0]].view.model_copy(update={"desired": "stop"})
            self._json(self.state.jobs[rest[0]].view.model_dump(mode="json"), 202)
            return
        if self.state.refusals:
            self._problem(422, "the job was refused", refusals=self.state.refusals)
            return
        key = self.headers["Idempotency-Key"]
        if key not in self.state.keys:
            self.state.keys[key] = self.state.add_job(SubmitRequest.model_validate_json(body))
        self._json(self.state.jobs[self.state.keys[key]].admission.model_dump(mode="json"), 201)

    def _turn(self, job: str, verb: str, asked: dict[str, object]) -> None:
        """Pause, resume or retry as `sf` is told of it; a job in `at_risk` has kept nothing to go on from."""
        if verb == "pause" and job in self.state.at_risk and not asked.get("lose_progress"):
            told = {"title": "it was not paused", "code": "progress_at_risk", "detail": "12 min would be lost"}
            problem = Problem(status=409, **told).model_dump_json().encode()
            self._send(409, problem, {"Content-Type": "application/problem+json"})
            return
        changed = {
            "pause": {"desired": "pause"},
            "resume": {"state": "QUEUED", "reason": "resumed", "desired": "run"},
            "retry": {"state": "QUEUED", "reason": "retried_by_user"},
        }[verb]
        self.state.jobs[job].view = self.state.jobs[job].view.model_copy(update=changed)
        self._json(self.state.jobs[job].view.model_dump(mode="json"), 202)

    def _delete_jobs(self, rest: list[str], *_: object) -> None:
        if self.state.jobs[rest[0]].view.state not in {"SUCCEEDED", "FAILED", "STOPPED"}:
            self._problem(409, f"{rest[0]} is {self.state.jobs[rest[0]].view.state}")
            return
        del self.state.jobs[rest[0]]
        self._send(204, b"", {})

    def _get_jobs(self, rest: list[str], query: dict[str, str], _body: bytes) -> None:
        if not rest:
            views = [job.view.model_dump(mode="json") for job in reversed(self.state.jobs.values())]
            start, limit = int(query.get("cursor", 0)), int(query.get("limit", 100))
            following = str(start + limit) if start + limit < len(views) else None
            self._json({"items": views[start : start + limit], "next": following})
            return
        job = self.state.jobs.get(rest[0])
        if job is None:
            self._problem(404, f"there is no job {rest[0]}")
            return
        part = rest[1] if len(rest) > 1 else "detail"
        if part == "diagnosis":
            self._problem(404, f"job {rest[0]} is not diagnosed")
            return
        getattr(self, f"_show_{part}")(job, query, rest[2:])

    def _show_detail(self, job: Job, *_: object) -> None:
        spec = job.request.spec.model_dump(mode="json", by_alias=True)
        answer = {"job": job.view.model_dump(mode="json"), "spec": spec, "spec_digest": digest_of(job.request.spec)}
        answer |= {"admission": job.admission.model_dump(mode="json"), "log": {"received_bytes": 0}}
        attempts = [attempt.model_dump(mode="json") for attempt in job.attempts]
        difference = job.request.difference
        lineage = LineageView(
            difference_bytes=len(difference.text.encode()) if difference else None, config=job.request.config
        )
        answer["lineage"] = lineage.model_dump(mode="json")
        self._json({**answer, "attempts": attempts, "events": [event.model_dump(mode="json") for event in job.events]})

    def _show_difference(self, job: Job, *_: object) -> None:
        if job.request.difference is None:
            self._problem(404, "no difference is kept")
            return
        commit = job.request.spec.spec.provenance.commit
        self._json({"job": job.view.id, "commit": commit, **job.request.difference.model_dump(mode="json")})

    def _show_workspace(self, job: Job, *_: object) -> None:
        content = self.state.blobs[job.request.spec.spec.workspace.digest]
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
        end = self.state.cut_downloads_at.pop(0) if self.state.cut_downloads_at else len(content)
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        self.wfile.write(content[start:end])
        if end < len(content):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _show_events(self, job: Job, query: dict[str, str], _rest: list[str]) -> None:
        after = int(query["after"])
        self._wait(query, lambda: any(event.number > after for event in job.events))
        self._json({"items": [event.model_dump(mode="json") for event in job.events if event.number > after]})

    def _show_log(self, job: Job, query: dict[str, str], _rest: list[str]) -> None:
        number, offset = int(query.get("attempt", job.view.attempt)), int(query["offset"])
        if "line" in query or "tail" in query:
            lines = [line + b"\n" for line in job.logs[number].removesuffix(b"\n").split(b"\n")]
            offset = sum(map(len, lines[: int(query["line"]) - 1] if "line" in query else lines[: -int(query["tail"])]))
        begin, end = job.lost
        if begin <= offset < end:
            self._send_log(job, number, (offset, end, b""), {"X-Log-Missing": f"{offset}-{end}"})
            return
        if "node" in query:
            content = job.of_nodes[int(query["node"])][offset:]
            self._send_log(job, number, (offset, offset + len(content), content), {})
            return
        self._wait(query, lambda: len(job.logs[number]) > offset or number in job.ended)
        content = job.logs[number][offset : offset + self.state.log_piece]
        content = content[: max(0, begin - offset)] if offset < begin else content
        self._send_log(job, number, (offset, offset + len(content), content), {})

    def _send_log(self, job: Job, number: int, part: tuple[int, int, bytes], headers: dict[str, str]) -> None:
        offset, following, content = part
        headers = {**headers, "X-Log-Offset": str(offset), "X-Log-Next-Offset": str(following)}
        headers |= {"X-Log-Received-To": str(len(job.logs[number])), "Content-Type": "application/octet-stream"}
        self._send(200, content, {**headers, "X-Log-Ended": "true" if number in job.ended else "false"})

    def _show_outputs(self, *_: object) -> None:
        self._json({"artifacts": [{"path": "model.json", "bytes": 10}], "checkpoints": []})

    def _show_metrics(self, job: Job, _query: dict[str, str], rest: list[str]) -> None:
        if not rest:
            keys = {key: len(values) for key, values in job.curves.items()}
            self._json({"keys": keys, "primary": self.state.primary})
            return
        values = job.curves[rest[0]]
        steps = list(range(1, len(values) + 1))
        curve = {"key": rest[0], "steps": steps, "values": values, "times": [0.0] * len(values)}
        self._json({**curve, "total_points": len(values)})

    def _wait(self, query: dict[str, str], is_there: Callable[[], bool]) -> None:
        with self.state.changed:
            self.state.changed.wait_for(lambda: is_there() or self.gone.is_set(), timeout=float(query.get("wait_s", 0)))
        if self.gone.is_set():
            raise ConnectionAbortedError

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _problem(
        self, status: int, title: str, *, headers: dict[str, str] | None = None, refusals: tuple[RefusalView, ...] = ()
    ) -> None:
        problem = Problem(title=title, status=status, code="x", refusals=refusals)
        self._send(
            status, problem.model_dump_json().encode(), {"Content-Type": "application/problem+json", **(headers or {})}
        )

    def _json(self, value: object, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        if self.is_cut:  # it acted, and the reply is lost
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
