"""Requests that are answered before FastAPI get what its routes would have given; odd ones reach the routes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from httpx2 import Response
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from server.tests.web.support import ConsoleUnderTest, build_console, build_submission, close_console, submit
from starforge_console.web.hot import HotDoor
from starforge_console.web.jobs import HOT_ROUTES

JOBS = "/api/v1/jobs"
THE_ROUTES_TURN = 418
PLAIN = "application/json"
ROUNDABOUT = "application/json; charset=utf-8"
"""Means the same, and is left to the route."""


@pytest.fixture
def console(tmp_path: Path) -> Iterator[ConsoleUnderTest]:
    console = build_console(tmp_path)
    yield console
    close_console(console)


@pytest.fixture
def ada(console: ConsoleUnderTest) -> dict[str, str]:
    return console.add_user("ada")


def open_door(console: ConsoleUnderTest) -> TestClient:
    """The door alone: what it passes on is answered with a status of its own and the body that came through."""

    async def behind(scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive() if scope["method"] == "POST" else {"body": b""}
        await PlainTextResponse(message["body"], THE_ROUTES_TURN)(scope, receive, send)

    door = HotDoor(behind, HOT_ROUTES)

    async def within(scope: Scope, receive: Receive, send: Send) -> None:
        await door({**scope, "app": console.app}, receive, send)

    return TestClient(within)


def told(answer: Response) -> tuple[int, str | None, bytes]:
    return answer.status_code, answer.headers.get("content-type"), answer.content


@pytest.mark.parametrize("query", ["", "limit=1", "limit=2&state=QUEUED", "state=ACTIVE", "state=FAILED"])
def test_a_plain_list_is_answered_at_once_with_what_the_route_would_give(
    console: ConsoleUnderTest, ada: dict[str, str], query: str
) -> None:
    for _ in range(3):
        submit(console, ada)

    door = open_door(console)
    with console.client(ada) as client:
        assert told(door.get(f"{JOBS}?{query}", headers=ada)) == told(client.get(f"{JOBS}?{query}&q="))


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=x",
        "limit=%2B1",
        "limit=01",
        "limit=1&limit=2",
        "limit=99999",
        "state=",
        "state=no",
        "q=a",
        "odd=1",
    ],
)
def test_a_list_with_anything_odd_is_left_to_the_route(
    console: ConsoleUnderTest, ada: dict[str, str], query: str
) -> None:
    assert open_door(console).get(f"{JOBS}?{query}", headers=ada).status_code == THE_ROUTES_TURN


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer sfp_unknown"},
        {"Authorization": "Basic x"},
        {"User-Agent": "sf/0.0.1"},
    ],
)
def test_whoever_may_not_read_is_refused_as_by_the_route(console: ConsoleUnderTest, headers: dict[str, str]) -> None:
    token = console.add_user("ada") if "User-Agent" in headers else {}
    with console.client({**token, **headers}) as client:
        answers = [client.get(JOBS), client.get(f"{JOBS}?q=")]

    assert told(answers[0]) == told(answers[1])
    assert answers[0].status_code in {401, 426}


def test_a_token_without_the_scope_is_refused_as_by_the_route(console: ConsoleUnderTest) -> None:
    with console.client(console.add_user("ada", scopes=("submit",))) as client:
        answers = [client.get(JOBS), client.get(f"{JOBS}?q=")]

    assert told(answers[0]) == told(answers[1])
    assert answers[0].status_code == 403


def test_a_plain_submission_is_admitted_at_once_and_is_the_one_that_the_route_knows(
    console: ConsoleUnderTest, ada: dict[str, str]
) -> None:
    console.keep_workspace()
    headers, body = {**ada, "Idempotency-Key": "once", "Content-Type": PLAIN}, json.dumps(build_submission())
    door = open_door(console)
    with console.client() as client:
        admitted = door.post(JOBS, headers=headers, content=body)
        again = client.post(JOBS, headers={**headers, "Content-Type": ROUNDABOUT}, content=body)

    assert admitted.status_code == 201
    assert told(admitted) == told(again)


@pytest.mark.parametrize("kind", [PLAIN, ROUNDABOUT])
def test_a_refused_submission_is_told_of_in_the_same_words(
    console: ConsoleUnderTest, ada: dict[str, str], kind: str
) -> None:
    submission = build_submission(recipe={"name": "no/such", "version": "1.0.0", "digest": "sha256:" + "0" * 64})
    with console.client(ada) as client:
        answer = client.post(JOBS, headers={"Content-Type": kind}, content=json.dumps(submission))

    assert answer.status_code == 422
    assert answer.json()["code"] == "admission_refused"
    assert "method_unknown" in {refusal["code"] for refusal in answer.json()["refusals"]}


def test_a_reader_is_refused_a_submission_as_by_the_route(console: ConsoleUnderTest) -> None:
    reader, body = console.add_user("bob", scopes=("read",)), json.dumps(build_submission())
    with console.client(reader) as client:
        answers = [
            told(client.post(JOBS, headers={"Content-Type": kind}, content=body)) for kind in (PLAIN, ROUNDABOUT)
        ]

    assert answers[0] == answers[1]
    assert answers[0][0] == 403


@pytest.mark.parametrize("body", ["", "{", "[]", "{}", '{"spec": {}}', '{"spec": {}, "odd": 1}', "[" * 60 + "]" * 60])
def test_a_body_that_is_no_submission_reaches_the_route_as_it_came(
    console: ConsoleUnderTest, ada: dict[str, str], body: str
) -> None:
    headers = {**ada, "Content-Type": PLAIN}
    door = open_door(console)
    with console.client(ada) as client:
        passed_on = door.post(JOBS, headers=headers, content=body)
        refused = [
            told(client.post(JOBS, headers={"Content-Type": kind}, content=body)) for kind in (PLAIN, ROUNDABOUT)
        ]

    assert (passed_on.status_code, passed_on.text) == (THE_ROUTES_TURN, body)
    assert refused[0] == refused[1]
    assert refused[0][0] == 422


@pytest.mark.parametrize("key", ["", "k" * 201])
def test_a_key_that_the_route_refuses_is_left_to_it(console: ConsoleUnderTest, ada: dict[str, str], key: str) -> None:
    headers = {**ada, "Content-Type": PLAIN, "Idempotency-Key": key}
    assert (
        open_door(console).post(JOBS, headers=headers, content=json.dumps(build_submission())).status_code
        == THE_ROUTES_TURN
    )


def test_every_hot_route_is_declared_where_its_document_comes_from(console: ConsoleUnderTest) -> None:
    paths = console.app.openapi()["paths"]

    assert [(method, path) for method, path in HOT_ROUTES if method.lower() not in paths.get(path, {})] == []
