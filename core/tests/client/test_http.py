import socket

import pytest

from core.tests.client.server import TOKEN, ConsoleState, serve
from starforge.client.console import Console, render
from starforge.client.http import Connection, is_readable_on_the_way, parse_server
from starforge.client.logs import LogAsk
from starforge.client.problems import AdmissionRefused, read_error
from starforge.contract.api import Problem, RefusalView, StopRequest, SubmitRequest
from starforge.contract.jobspec import digest_of, parse_jobspec
from starforge.errors import (
    BackendUnreachable,
    Busy,
    Conflict,
    InputError,
    NotFound,
    Refused,
    SignInRequired,
    SpecError,
    Unavailable,
)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_the_token_goes_with_each_call(console: Console, state: ConsoleState) -> None:
    assert console.whoami().user == "ada"
    assert state.seen[-1].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_wrong_token_is_told_to_sign_in(state: ConsoleState) -> None:
    with serve(state) as url, Connection(url, "wrong") as connection, pytest.raises(SignInRequired, match="sf login"):
        Console(connection).whoami()


def test_a_call_that_may_be_repeated_is_repeated_while_the_server_is_busy_or_away(state: ConsoleState) -> None:
    state.failures = [("/whoami", 429, {"Retry-After": "3"}), ("/whoami", 503, {}), ("/whoami", 502, {})]
    pauses: list[float] = []
    with serve(state) as url, Connection(url, TOKEN, pause=pauses.append) as connection:
        assert Console(connection).whoami().user == "ada"
    assert pauses[0] == 3
    assert pauses[1] < pauses[2]


def test_a_busy_server_is_in_the_end_told_as_busy(console: Console, state: ConsoleState) -> None:
    state.failures = [("/whoami", 429, {"Retry-After": "3"})] * 10
    with pytest.raises(Busy) as caught:
        console.whoami()
    assert caught.value.retry_after_s == 3


def test_a_submit_whose_answer_was_lost_is_sent_again_with_the_same_key_and_makes_one_job(
    console: Console, state: ConsoleState, submission: SubmitRequest
) -> None:
    state.failures = [("/jobs", 0, {}), ("/jobs", 503, {})]
    record = console.submit(submission, "key-1")
    sent = [seen.headers["idempotency-key"] for seen in state.seen if seen.path == "/jobs"]
    assert sent == ["key-1"] * 3
    assert list(state.jobs) == [record.job]


def test_deleting_is_not_repeated(console: Console, state: ConsoleState, submission: SubmitRequest) -> None:
    job = state.add_job(submission)
    state.failures = [(f"/jobs/{job}", 503, {})]
    with pytest.raises(Unavailable):
        console.delete(job)
    assert len(state.seen) == 1


def test_a_server_that_is_not_there_is_named_with_its_address() -> None:
    address = f"http://127.0.0.1:{free_port()}"
    with (
        Connection(address, None, pause=lambda _: None) as connection,
        pytest.raises(BackendUnreachable, match=address),
    ):
        Console(connection).meta()


def test_a_proxy_of_the_environment_is_not_asked_for_a_server_on_this_machine(
    state: ConsoleState, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with serve(state) as url, Connection(url, TOKEN) as connection:
        assert Console(connection).whoami().user == "ada"


@pytest.mark.parametrize(
    ("server", "answer"),
    [
        ("http://localhost:7080", False),
        ("http://127.3.2.1", False),
        ("http://[::1]:7080", False),
        ("https://forge.example.org", False),
        ("http://10.0.0.1", True),
        ("http://localhost.example.org", True),
    ],
)
def test_what_leaves_this_machine_without_tls_can_be_read_on_the_way(server: str, answer: object) -> None:
    assert is_readable_on_the_way(server) is answer


def test_an_address_is_kept_without_its_last_slash() -> None:
    assert parse_server(" https://forge.example.org/base/ ") == "https://forge.example.org/base"


@pytest.mark.parametrize("text", ["forge.example.org", "ftp://x", "https://", "https://u:secret@x", "https://x/?q=1"])
def test_an_address_that_is_none_is_refused_and_a_password_in_it_is_not_repeated(text: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_server(text)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InputError),
        (401, SignInRequired),
        (403, Refused),
        (404, NotFound),
        (409, Conflict),
        (418, Refused),
        (422, SpecError),
        (429, Busy),
        (500, Unavailable),
        (503, Unavailable),
    ],
)
def test_each_status_is_the_error_that_says_what_to_do(status: int, kind: type[Exception]) -> None:
    problem = Problem(title="it did not work", status=status, code="x", detail="for a reason", next_step="do that")
    body, headers = problem.model_dump_json().encode(), {"content-type": "application/problem+json"}
    for error in (read_error(status, headers, body), read_error(status, {"content-type": "text/html"}, b"<html>")):
        assert type(error) is kind
    assert "it did not work" in str(read_error(status, headers, body))


def test_every_refusal_of_the_gates_is_told_at_once(
    console: Console, state: ConsoleState, submission: SubmitRequest
) -> None:
    state.refusals = (
        RefusalView(code="image_unknown", what="image x is not allowed", next_step="ask for y", gate="image"),
        RefusalView(code="quota", what="8 GPUs asked, 4 allowed", gate="quota"),
    )
    with pytest.raises(AdmissionRefused) as caught:
        console.submit(submission, "key")
    assert caught.value.why == "image: image x is not allowed. ask for y\nquota: 8 GPUs asked, 4 allowed"
    assert [refusal.code for refusal in caught.value.refusals] == ["image_unknown", "quota"]
    assert len(console.check(submission).refusals) == 2


def test_a_redirect_is_not_followed_for_a_token_would_go_along() -> None:
    error = read_error(302, {"location": "https://other.example.org"}, b"")
    assert isinstance(error, Unavailable)
    assert "https://other.example.org" in error.what


def test_an_answer_of_another_program_is_named_as_that(console: Console, state: ConsoleState) -> None:
    state.profiles = [{"unexpected": 1}]
    with pytest.raises(Unavailable, match="sf status"):
        console.profiles()


def test_a_submission_says_nothing_that_is_at_its_default(submission: SubmitRequest) -> None:
    rendered = render(submission)
    spec = rendered["spec"]
    assert isinstance(spec, dict)
    assert set(spec) == {"apiVersion", "kind", "metadata", "spec"}
    assert "lifecycle" not in str(spec)
    assert digest_of(parse_jobspec(spec)) == digest_of(submission.spec)
    assert "allow_dirty" not in rendered


def test_a_list_longer_than_a_page_is_read_to_the_limit(
    console: Console, state: ConsoleState, submission: SubmitRequest
) -> None:
    for _ in range(130):
        state.add_job(submission)
    assert len(console.jobs({}, 120)) == 120
    assert len(console.jobs({}, 1000)) == 130


def test_stop_and_the_log_are_asked_as_the_contract_says(
    console: Console, state: ConsoleState, submission: SubmitRequest
) -> None:
    job = state.add_job(submission)
    state.start_attempt(job)
    state.append_log(job, b"hello", ended=True)
    console.stop(job, StopRequest(grace_s=5))
    assert state.seen[-1].body == b'{"grace_s":5.0}'
    part = console.log(job, LogAsk(offset=2))
    assert (part.content, part.received_to, part.ended) == (b"llo", 5, True)


def test_what_a_closed_connection_raises_is_an_error_of_ours(state: ConsoleState) -> None:
    with serve(state) as url:
        connection = Connection(url, TOKEN, pause=lambda _: None)
        connection.close()
        with pytest.raises(BackendUnreachable):
            Console(connection).whoami()
