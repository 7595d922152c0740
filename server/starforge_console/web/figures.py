"""The figures behind `/metrics`: what is read when they are asked for, and how long answers take."""

import asyncio
import time
from collections import Counter as Count

from prometheus_client import CollectorRegistry, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from starforge.contract.api import API_PREFIX
from starforge.contract.states import JobState
from starforge_console.ledger.figures import AT_ONCE, find_place, list_turns
from starforge_console.ledger.views import count_by_state
from starforge_console.telemetry.metrics import HttpFigures, JobFigures, build_gauge
from starforge_console.web.deps import ApiServices

_UNKNOWN = "unknown"
_WAITING = ("/events", "/log", "/live", "/stream")


class Figures:
    """Of one console: counts on from its last look, from the moment it was built."""

    def __init__(self, services: ApiServices) -> None:
        self._services = services
        self._began = services.clock.now()
        self._jobs = JobFigures(services.metrics)
        self._place: int | None = None
        self._turn = asyncio.Lock()

    async def render(self) -> bytes:
        """Everything, in the text that Prometheus reads."""
        async with self._turn:
            await self._count()
        counts = await self._services.ledger.read(count_by_state)
        now = CollectorRegistry()
        jobs = build_gauge("starforge_jobs", now)
        for state in JobState:
            jobs.labels(state.value).set(counts.get(state.value, 0))
        gpus = build_gauge("starforge_gpus", now)
        for (series, use), number in self._count_gpus().items():
            gpus.labels(series, use).set(number)
        return generate_latest(self._services.metrics) + generate_latest(now)

    async def _count(self) -> None:
        ledger, began = self._services.ledger, self._began
        if self._place is None:
            self._place = await ledger.read(lambda c: find_place(c, began))
        while True:
            place = self._place
            turns = await ledger.read(lambda c, place=place: list_turns(c, place))  # type: ignore[misc] # mypy sees no type in a default
            for turn in turns:
                if turn.waited_s is not None:
                    self._jobs.waits.observe(turn.waited_s)
                if turn.ended is not None:
                    self._jobs.ended.labels(turn.ended).inc()
                self._place = turn.number
            if len(turns) < AT_ONCE:
                return

    def _count_gpus(self) -> Count[tuple[str, str]]:
        return Count(
            (gpu.series or _UNKNOWN, gpu.state.value)
            for view in self._services.views()
            for node in view.nodes
            for gpu in node.gpus
        )


class Stopwatch:
    """Pure ASGI: notes how long the head of each answer took."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and note when its head went out."""
        figures: HttpFigures | None = getattr(scope["app"].state, "http_figures", None) if "app" in scope else None
        if scope["type"] != "http" or figures is None:
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                figures.note(_surface(str(scope["path"])), int(message["status"]), time.monotonic() - began)
            await send(message)

        await self._app(scope, receive, note)


def _surface(path: str) -> str:
    if path.endswith(_WAITING):
        return "wait"
    return "api" if path.startswith(f"{API_PREFIX}/") else "page"
