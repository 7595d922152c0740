"""What a webhook is told, in which order, and what happens when it does not listen."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from server.tests.web.lives import begin, go
from server.tests.web.support import ConsoleUnderTest, submit
from server.tests.webhooks.conftest import PUBLIC_URL, Telling
from server.tests.webhooks.receiver import DEADLINE_S, Receiver, receiving
from starforge.contract.ids import JobId
from starforge.contract.states import Reason
from starforge_console.ledger.moves import note_timeline
from starforge_console.ledger.views import list_events
from starforge_console.wakeups import job_topic
from starforge_console.webhooks.dispatcher import AT_ONCE, decide_pause_s

Headers = dict[str, str]
WHOLE = ["QUEUED", "SUBMITTED", "PENDING", "RUNNING", "SUCCEEDED"]


@pytest.fixture
def ann(console: ConsoleUnderTest) -> Headers:
    return console.add_user("ann")


def add(console: ConsoleUnderTest, headers: Headers, url: str, **more: object) -> Any:
    answer = console.client(headers).post("/api/v1/webhooks", json={"url": url, **more})
    assert answer.status_code == 201, answer.text
    return answer.json()


def run(console: ConsoleUnderTest, headers: Headers) -> JobId:
    job = submit(console, headers)
    go(console, begin(console, job), Reason.EXITED_ZERO)
    console.services.wakeups.notify(job_topic(job))
    return job


def await_webhook(console: ConsoleUnderTest, headers: Headers, webhook_id: int, member: str) -> Any:
    """The webhook's page once `member` is there."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        shown = console.client(headers).get(f"/api/v1/webhooks/{webhook_id}").json()
        if shown["webhook"][member]:
            return shown
    raise AssertionError(shown)


def test_every_change_is_told_in_order_signed_and_once(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    added = add(console, ann, f"{receiver.url}/hook?team=ml")
    with telling():
        job = run(console, ann)
        arrived = receiver.await_number(5)
    assert [one.json["job"]["state"] for one in arrived] == WHOLE
    assert all(one.is_signed_with(added["secret"]) for one in arrived)
    assert not any(one.is_signed_with("sfw_other") for one in arrived)
    assert len({one.id for one in arrived}) == 5
    assert {one.path for one in arrived} == {"/hook?team=ml"}
    last = arrived[-1].json
    assert last["id"] == arrived[-1].id
    assert last["job"] == {
        "id": job,
        "name": "first",
        "project": "demo",
        "user": "ann",
        "state": "SUCCEEDED",
        "reason": "exited_zero",
        "attempt": 1,
        "note": "",
        "url": f"{PUBLIC_URL}/jobs/{job}",
    }


def test_what_happened_before_is_not_told_and_neither_is_what_changes_no_state(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    run(console, ann)
    add(console, ann, receiver.url)
    with telling():
        job = submit(console, ann)
        console.ledger.write_now(lambda c: note_timeline(c, job, 1.0, "a word"))
        begin(console, job)
        console.services.wakeups.notify(job_topic(job))
        arrived = receiver.await_number(4)
    assert {one.json["job"]["id"] for one in arrived} == {job}
    assert [one.json["job"]["state"] for one in arrived] == WHOLE[:4]


def test_a_webhook_is_told_of_its_own_jobs_states_and_project(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    root, bob = console.add_user("root", "admin"), console.add_user("bob")
    add(console, ann, f"{receiver.url}/own", events=["SUCCEEDED"])
    add(console, ann, f"{receiver.url}/other-project", project="elsewhere")
    add(console, root, f"{receiver.url}/all", events=["SUCCEEDED"], jobs="all")
    with telling():
        own, others = run(console, ann), run(console, bob)
        receiver.await_number(3)
    told = sorted((one.path, one.json["job"]["id"]) for one in receiver.arrived)
    assert told == sorted([("/own", own), ("/all", own), ("/all", others)])


@pytest.mark.parametrize("trouble", [500, 404, 429, 302, None])
def test_whatever_is_no_success_is_tried_again_until_it_is(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling, trouble: int | None
) -> None:
    added = add(console, ann, receiver.url, events=["SUCCEEDED"])
    receiver.answers = [trouble, trouble]
    with telling():
        run(console, ann)
        arrived = receiver.await_number(3)
        shown = await_webhook(console, ann, added["webhook"]["id"], "last")
        while shown["deliveries"][0]["outcome"] != "delivered":
            shown = await_webhook(console, ann, added["webhook"]["id"], "last")
    assert len({one.id for one in arrived}) == 1
    assert {one.path for one in arrived} == {"/"}, "no redirect is followed"
    delivery = shown["deliveries"][0]
    assert (delivery["tries"], delivery["status"], delivery["error"]) == (3, 204, "")
    assert shown["webhook"]["failing_since"] is None


def test_what_is_behind_a_failed_change_waits_for_it(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    add(console, ann, receiver.url)
    receiver.answers = [204, 500, 500]
    with telling():
        run(console, ann)
        arrived = receiver.await_number(7)
    states = [one.json["job"]["state"] for one in arrived]
    assert states == ["QUEUED", "SUBMITTED", "SUBMITTED", "SUBMITTED", "PENDING", "RUNNING", "SUCCEEDED"]


@pytest.mark.parametrize("trouble", ["wait", "endless"])
def test_one_that_is_slow_keeps_nobody_else_waiting(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling, trouble: str
) -> None:
    with receiving() as slow:
        slow.usual = trouble
        added = add(console, ann, slow.url)
        add(console, ann, receiver.url)
        with telling(webhook_timeout_s=0.3):
            run(console, ann)
            receiver.await_number(5)
            slow.await_number(2)
            shown = await_webhook(console, ann, added["webhook"]["id"], "last")
    if trouble == "wait":
        assert "no answer within 0.3 s" in shown["webhook"]["last"]["error"]
    else:
        assert shown["webhook"]["last"]["status"] == 200, "what an answer says beside its status is not read"


def test_one_user_whose_webhooks_are_slow_and_far_behind_keeps_nobody_else_waiting(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    bob = console.add_user("bob")
    with receiving() as slow:
        slow.answers_after_s = 0.02
        for number in range(AT_ONCE):
            add(console, ann, f"{slow.url}/{number}")
        add(console, bob, receiver.url)
        run(console, bob)
        for _ in range(6):
            run(console, ann)
        with telling():
            receiver.await_number(1)
            told_before = len(slow.arrived)
            receiver.await_number(5)
    assert told_before < 3 * AT_ONCE, "not before one of them had been told of all that there was"


def test_an_administrator_who_is_one_no_more_is_not_told_the_rest(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    root = console.add_user("root", "admin")
    for number in range(3):
        add(console, root, f"{receiver.url}/{number}", jobs="all")
    with receiving() as own:
        add(console, root, own.url)
        receiver.answers_after_s = own.answers_after_s = 0.2
        run(console, ann)
        run(console, root)
        with telling():
            receiver.await_number(3)
            console.ledger.write_now(lambda c: c.exec_driver_sql("UPDATE users SET role = 'member'"))
            own.await_number(5)
    assert len(receiver.arrived) <= 6, "what was on its way, and no more"


def test_a_change_that_is_too_old_is_given_up_and_the_next_has_its_turn(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    added = add(console, ann, receiver.url)
    receiver.answers = [500]
    with telling(webhook_give_up_s=0.0):
        run(console, ann)
        arrived = receiver.await_number(5)
    assert [one.json["job"]["state"] for one in arrived] == WHOLE
    shown = console.client(ann).get(f"/api/v1/webhooks/{added['webhook']['id']}").json()
    assert [one["outcome"] for one in shown["deliveries"]][-1] == "given_up"
    assert shown["deliveries"][-1]["error"] == "answered with the status 500"


def test_one_that_fails_for_days_is_switched_off_which_the_job_tells_and_on_again(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    added = add(console, ann, receiver.url)["webhook"]
    receiver.usual = 500
    with telling(webhook_disable_s=0.1):
        job = run(console, ann)
        shown = await_webhook(console, ann, added["id"], "disabled_at")
        before = len(receiver.arrived)
        run(console, ann)
        receiver.usual = 204
        enabled = console.client(ann).post(f"/api/v1/webhooks/{added['id']}/enable").json()
        latest = run(console, ann)
        receiver.await_number(before + 5)
    assert "answered with the status 500" in shown["webhook"]["disabled_why"]
    assert (enabled["disabled_at"], enabled["failing_since"]) == (None, None)
    assert enabled["last"] == shown["webhook"]["last"], "switching it on delivers nothing"
    assert {one.json["job"]["id"] for one in receiver.arrived[before:]} == {latest}
    notes = [one.note for one in console.ledger.read_now(lambda c: list_events(c, job))]
    assert any(note.startswith(f"webhook {added['id']} of ann was switched off") for note in notes)


def test_a_user_who_left_and_one_who_no_longer_administrates_are_told_nothing(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    root, leaver = console.add_user("root", "admin"), console.add_user("eve")
    add(console, root, f"{receiver.url}/all", jobs="all")
    add(console, leaver, f"{receiver.url}/left")
    add(console, ann, f"{receiver.url}/own")
    console.ledger.write_now(lambda c: c.exec_driver_sql("UPDATE users SET role = 'member' WHERE name = 'root'"))
    console.ledger.write_now(lambda c: c.exec_driver_sql("UPDATE users SET active = false WHERE name = 'eve'"))
    with telling():
        run(console, ann)
        receiver.await_number(5)
    assert {one.path for one in receiver.arrived} == {"/own"}


def test_a_removed_webhook_is_told_no_more(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    gone = add(console, ann, f"{receiver.url}/gone")["webhook"]
    add(console, ann, f"{receiver.url}/kept")
    assert console.client(ann).delete(f"/api/v1/webhooks/{gone['id']}").status_code == 204
    with telling():
        run(console, ann)
        receiver.await_number(5)
    assert {one.path for one in receiver.arrived} == {"/kept"}


def test_a_console_that_is_killed_between_the_answer_and_its_mark_tells_the_same_again(
    console: ConsoleUnderTest, receiver: Receiver, ann: Headers, telling: Telling
) -> None:
    add(console, ann, receiver.url)
    run(console, ann)
    receiver.answers = [204, "wait"]  # the second has arrived, and its answer is not there yet
    program = [sys.executable, "-m", "server.tests.webhooks.telling_process", str(console.root)]
    process = subprocess.Popen(program, env={**os.environ, "FORGE_WEBHOOK_ALLOW": "127.0.0.0/8"})
    try:
        receiver.await_number(2)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(DEADLINE_S)
    with telling():
        arrived = receiver.await_number(6)
    assert [one.json["job"]["state"] for one in arrived] == [*WHOLE[:2], *WHOLE[1:]]
    assert arrived[1].id == arrived[2].id
    assert arrived[1].body == arrived[2].body


def test_the_pause_doubles_up_to_an_hour() -> None:
    assert [decide_pause_s(10, tries) for tries in (1, 2, 3, 8, 9, 10, 5000)] == [10, 20, 40, 1280, 2560, 3600, 3600]
