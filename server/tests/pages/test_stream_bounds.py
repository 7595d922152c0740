"""Bounds on live streams: how many there are, what they look at first, and which there are none of."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace

import httpx2
import pytest
from starlette.responses import StreamingResponse

from server.tests.pages.following import LIMIT_S, Follower, reader
from server.tests.web.lives import begin
from server.tests.web.serving import Served, serving
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.contract.ids import JobId
from starforge_console.wakeups import Wakeups
from starforge_console.web.polls import FIRST_LOOKS_AT_ONCE, LongPolls
from starforge_console.web.room import Room
from starforge_console.web.sse import News, Stream, answer_stream


@pytest.fixture
def served(console: ConsoleUnderTest) -> Iterator[Served]:
    clients: list[httpx2.Client] = []
    with serving(console) as running:
        running.clients = clients
        yield running
    for client in clients:  # their streams have ended with the server
        client.close()


def running(console: ConsoleUnderTest) -> JobId:
    job = submit(console, console.add_user("owner"))
    begin(console, job)
    return job


def test_an_attempt_that_does_not_exist_has_no_stream_and_nobody_says_that_the_job_was_deleted(
    served: Served, console: ConsoleUnderTest
) -> None:
    job = running(console)
    client = reader(served, console)
    for path, last in (("?attempt=2&pinned=1", ""), ("?pinned=1", ""), ("?attempt=1&pinned=1", "1.9.0-1")):
        answer = client.get(f"/live/jobs/{job}{path}", headers={"Last-Event-ID": last} if last else {})
        assert (answer.status_code, "has no attempt" in answer.text) == (404, True)


@pytest.mark.parametrize("last", ["9" * 5000, "9" * 17, "-1", "1.2", "."])
def test_a_place_that_no_stream_gave_is_passed_over(served: Served, console: ConsoleUnderTest, last: str) -> None:
    job = submit(console, console.add_user("owner"))
    client = reader(served, console)
    for path in (f"/live/jobs?jobs={job}&total=1", f"/live/jobs/{job}"):
        Follower(client, path, last=last).wait("Queued")


def test_beyond_the_streams_of_one_user_and_of_all_readers_are_asked_to_come_again(
    served: Served, console: ConsoleUnderTest
) -> None:
    console.app.state.pages = replace(console.app.state.pages, seats=Room(4, 2))
    job = running(console)
    one, other = reader(served, console, "one"), reader(served, console, "other")
    for client in (one, one, other, other):
        Follower(client, f"/live/jobs/{job}").wait("Running")
    refused = one.get("/live/jobs")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
    assert refused.headers["content-type"].startswith("text/plain")
    assert reader(served, console, "third").get("/live/fleets").status_code == 429
    assert one.get("/healthz").status_code == 200


def test_the_room_of_a_reader_who_left_is_free_again(served: Served, console: ConsoleUnderTest) -> None:
    console.app.state.pages = replace(console.app.state.pages, seats=Room(1, 1))
    client = reader(served, console)
    deadline = time.monotonic() + LIMIT_S
    for _ in range(3):
        while not was_seated(client, "/live/jobs"):
            assert time.monotonic() < deadline
    while client.get("/live/jobs/jaaaaaaaaa").status_code != 404:
        assert time.monotonic() < deadline
    assert was_seated(client, "/live/jobs"), "what was refused holds nothing"


def was_seated(client: httpx2.Client, path: str) -> bool:
    """Whether a reader, who leaves at once, was let in."""
    with client.stream("GET", path) as answer:
        assert answer.status_code in {200, 429}
        return answer.status_code == 200


class _Crowd:
    """Readers of one stream, and how many of them look at once."""

    def __init__(self) -> None:
        self._looking = 0
        self.most = 0
        self.looks = 0

    async def look(self, _since: float) -> News:
        self.looks += 1
        self._looking += 1
        self.most = max(self.most, self._looking)
        for _ in range(5):
            await asyncio.sleep(0)
        self._looking -= 1
        return News(over=True)

    async def is_allowed(self) -> bool:
        return True

    async def come(self, readers: int) -> None:
        wakeups = Wakeups()
        wakeups.bind()
        stream = Stream(topics=lambda: (), look=self.look, is_allowed=self.is_allowed)
        polls = LongPolls(wakeups)
        await asyncio.gather(*(_drain(answer_stream(stream, polls, wakeups)) for _ in range(readers)))


def test_readers_who_come_at_once_look_for_the_first_time_by_turns() -> None:
    crowd = _Crowd()
    asyncio.run(crowd.come(50))
    assert (crowd.looks, crowd.most) == (50, FIRST_LOOKS_AT_ONCE)


async def _drain(answer: StreamingResponse) -> None:
    async for _ in answer.body_iterator:
        pass
