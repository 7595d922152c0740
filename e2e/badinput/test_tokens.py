"""Tokens that are no longer good, or never were for this: refused in words, without a trace of what they were."""

import pytest

from e2e.badinput.calls import Answer, Caller
from e2e.badinput.yard import Yard, write_sound
from e2e.support.console import wait_for

pytestmark = pytest.mark.engine

HEARTBEAT = "/api/ingest/v1/heartbeat"
WAIT_FOR_GO = 'while [ ! -e "$FORGE_OUT_DIR/go" ]; do sleep 0.1; done; '


def said_with(yard: Yard, token: str) -> str:
    """What `sf submit` says with this token; it must be refused."""
    yard.console.environment["SF_TOKEN"] = token
    try:
        return yard.probe.refused()
    finally:
        del yard.console.environment["SF_TOKEN"]


def test_a_token_that_ran_out_is_refused_and_says_how_to_get_another(yard: Yard) -> None:
    before = yard.list_jobs()
    token = yard.console.token("--days", "0.00001")  # not a second
    caller = Caller(yard.console.port, token)
    wait_for(lambda: caller.call("GET", "/api/v1/whoami").status == 401, "the token to run out")
    said = said_with(yard, token)
    assert "token" in said
    assert "sf login" in said
    assert token not in said
    assert yard.list_jobs() == before


def test_a_token_that_was_revoked_is_refused_at_once(yard: Yard) -> None:
    token = yard.console.token()
    caller = Caller(yard.console.port, token)
    assert caller.call("POST", "/api/v1/tokens/revoke-self").status == 204
    assert caller.call("GET", "/api/v1/jobs").status == 401
    assert "sf login" in said_with(yard, token)


def test_a_token_that_may_only_read_reads_and_submits_nothing(yard: Yard) -> None:
    before = yard.list_jobs()
    token = yard.console.token("--scopes", "read")
    caller = Caller(yard.console.port, token)
    assert caller.call("GET", "/api/v1/jobs").status == 200
    workspace = yard.upload(write_sound)
    answer = caller.send("POST", "/api/v1/jobs", {"spec": yard.spec_with(workspace)})
    assert (answer.status, answer.code) == (403, "forbidden")
    assert "submit" in answer.words
    assert yard.list_jobs() == before


@pytest.mark.parametrize("days", ["0", "-1", "nan", "1e9"])
def test_a_token_with_an_impossible_life_is_not_made(unharmed: Yard, days: str) -> None:
    with pytest.raises(RuntimeError, match="cannot live"):
        unharmed.console.token("--days", days)


@pytest.mark.parametrize(
    "header", ["", "Bearer", "Basic YWRhOg==", "Bearer " + "x" * 5000, "Bearer sfp_\x00", "Bearer \xff\xfe"]
)
def test_an_authorization_that_is_none_is_refused(unharmed: Yard, header: str) -> None:
    answer = Caller(unharmed.console.port, "").call("GET", "/api/v1/jobs", headers={"Authorization": header})
    assert answer.status in {400, 401}


def test_a_personal_token_is_none_for_ingest_and_the_other_way_round(yard: Yard) -> None:
    job = yard.begin(WAIT_FOR_GO)
    token = yard.ingest_token(job)
    assert Caller(yard.console.ingest_port, yard.probe.token).call("POST", HEARTBEAT).status == 401
    answer = Caller(yard.console.port, token).call("GET", "/api/v1/jobs")
    (yard.out(job) / "go").touch()
    assert answer.status == 401
    assert yard.probe.wait_end(job)["job"]["state"] == "SUCCEEDED"


def test_an_ingest_token_speaks_for_its_own_attempt_alone_and_ends_with_it(yard: Yard) -> None:
    first, second = yard.begin(WAIT_FOR_GO), yard.begin(WAIT_FOR_GO + "echo the second")
    stranger = Caller(yard.console.ingest_port, yard.ingest_token(first))
    yard.probe.wait_state(second, "RUNNING")
    exit_record = {"attempt": f"{second}.1", "number": 1, "code": 0, "complete": True}
    assert stranger.send("POST", "/api/ingest/v1/exit", exit_record).status == 422
    assert stranger.call("POST", "/api/ingest/v1/streams/log?offset=0", b"a lie about the second").status == 200
    for job in (first, second):
        (yard.out(job) / "go").touch()
    assert yard.probe.wait_end(second)["job"]["state"] == "SUCCEEDED"
    assert yard.probe.log(second) == "the second\n"
    yard.probe.wait_end(first)

    def refused() -> Answer | None:
        answer = stranger.call("POST", "/api/ingest/v1/streams/log?offset=0", b"x")
        return None if answer.status == 200 else answer

    ended = wait_for(refused, "the token of the ended attempt to be refused", 10)
    assert ended.status == 410
    assert "spool" in ended.words
