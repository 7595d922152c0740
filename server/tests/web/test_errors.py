import base64
import gzip
import json
from typing import Any

import pytest

from server.tests.web.support import ConsoleUnderTest, build_submission
from starforge.contract.api import Problem
from starforge_console.web.guard import SUBMISSION_BYTES, check_body

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/nowhere", 404, "route_unknown"),
        ("GET", "/api/v1/jobs/", 404, "route_unknown"),
        ("PATCH", "/api/v1/jobs", 405, "method_not_allowed"),
        ("GET", "/api/v1/jobs?limit=many", 422, "request_invalid"),
        ("GET", "/api/v1/jobs?limit=0", 422, "request_invalid"),
        ("GET", "/api/v1/jobs?state=LOST", 422, "request_invalid"),
        ("GET", "/api/v1/jobs/jaaaaaaaaa/events?after=99999999999999999999", 422, "request_invalid"),
        ("GET", "/api/v1/jobs/jaaaaaaaaa/log?wait_s=31", 422, "request_invalid"),
        ("GET", "/api/v1/jobs/jaaaaaaaaa/log?wait_s=nan", 422, "request_invalid"),
        ("GET", "/api/v1/blobs/sha256:abc", 422, "request_invalid"),
    ],
)
def test_every_error_is_a_problem_document(
    console: ConsoleUnderTest, method: str, path: str, status: int, code: str
) -> None:
    answer = console.client(console.add_user("ann")).request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem = Problem.model_validate(answer.json())
    assert (problem.status, problem.code) == (status, code)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"\xff\xfe{}", 422),
        (b'{"spec": "\xc3"}', 422),
        (b"[" * 100_000, 422),
        (b'{"a":' * 100 + b"1" + b"}" * 100, 422),
        (b'{"spec": ' + b"9" * 5000 + b"}", 422),
        (b"{", 422),
        (b"", 422),
        (b" " * (SUBMISSION_BYTES + 1), 413),
    ],
    ids=["no UTF-8", "cut UTF-8", "brackets", "objects", "long number", "cut", "empty", "large"],
)
def test_a_body_that_cannot_be_read_is_refused_and_no_fault_of_the_console(
    console: ConsoleUnderTest, body: bytes, status: int
) -> None:
    answer = console.client(console.add_user("ann")).post("/api/v1/jobs", content=body, headers=JSON)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


def test_a_number_that_is_too_long_is_refused_in_words_and_a_text_of_digits_is_none(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    answer = client.post("/api/v1/jobs", content=b'{"spec": ' + b"9" * 5000 + b"}", headers=JSON)
    assert "more than 4300 digits" in answer.json()["title"]
    console.keep_workspace()
    submission = build_submission(hyperparameters={"digits": "9" * 5000})
    assert client.post("/api/v1/jobs", json=submission).status_code == 201


@pytest.mark.parametrize("key", ["\ud800", "a\udfffb"])
def test_names_that_utf_8_cannot_hold_are_refused(console: ConsoleUnderTest, key: str) -> None:
    client = console.client(console.add_user("ann"))
    for hyperparameters in ({key: 1}, {"deep": [{key: 1}]}, {"a": key}):
        answer = client.post("/api/v1/jobs", content=json.dumps(_with(hyperparameters)), headers=JSON)
        assert (answer.status_code, answer.json()["code"]) == (422, "request_invalid"), answer.text
        assert "half of a surrogate pair" in answer.json()["detail"]


def _with(hyperparameters: object) -> object:
    submission: Any = build_submission()
    submission["spec"]["spec"]["hyperparameters"] = hyperparameters
    return submission


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/admission"])
@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, identity"])
def test_a_body_that_came_packed_is_refused_in_words(console: ConsoleUnderTest, path: str, encoding: str) -> None:
    headers = JSON | {"Content-Encoding": encoding}
    answer = console.client(console.add_user("ann")).post(path, content=gzip.compress(b"{}"), headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (415, "encoding_refused")
    assert encoding in answer.json()["title"]


@pytest.mark.parametrize(
    "place",
    [
        [1, "\ud800"],
        [1.5, "j\udfff"],
        [1, None],
        [True, []],
        {"1": 1},
        {"1": 1, "2": 2},
        ["1_0", "x"],
        ["1", "j234567abc"],
        [1.5, "j234567abc", 1],
        [float("inf"), "j234567abc"],
        [1.5, "x" * 10],
        [10**120, "j234567abc"],
        "12",
    ],
)
def test_what_no_list_gave_is_no_cursor(console: ConsoleUnderTest, place: object) -> None:
    cursor = base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")
    answer = console.client(console.add_user("ann")).get("/api/v1/jobs", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["code"]) == (422, "input_invalid"), answer.text


@pytest.mark.parametrize("cursor", ["", "=", "é", "!!!!", "WzEuNSwgImoyMzQ1NjdhYmMiXQ\u0663", "[1]"])
def test_what_is_no_base64_is_no_cursor(console: ConsoleUnderTest, cursor: str) -> None:
    assert console.client(console.add_user("ann")).get("/api/v1/jobs", params={"cursor": cursor}).status_code == 422


def test_a_body_without_a_length_is_bounded_too(console: ConsoleUnderTest) -> None:
    client = console.client(console.add_user("ann"))
    answer = client.post("/api/v1/jobs", content=(b" " * 65536 for _ in range(80)), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_brackets_inside_of_texts_nest_nothing() -> None:
    check_body(json.dumps({"a": "[" * 1000, "b\\": '"{{' * 100}).encode())


def test_a_deep_hyperparameter_within_the_bound_is_taken(console: ConsoleUnderTest) -> None:
    console.keep_workspace()
    value: object = 1
    for _ in range(40):
        value = [value]
    submission = build_submission(hyperparameters={"deep": value})
    assert console.client(console.add_user("ann")).post("/api/v1/jobs", json=submission).status_code == 201


def test_an_error_of_the_consoles_own_says_nothing_of_its_inside(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    client = console.client(headers)
    assert client.get("/api/v1/whoami").status_code == 200
    console.services.ledger.close()
    answer = client.get("/api/v1/jobs")
    assert (answer.status_code, answer.json()["code"]) == (500, "bug")
    assert "Traceback" not in answer.text


def test_a_refused_token_says_how_to_sign_in(console: ConsoleUnderTest) -> None:
    answer = console.client().get("/api/v1/jobs")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["next_step"] == "run 'sf login'"
