import re

import pytest

from server.tests.pages.support import sign_in
from server.tests.web.support import ConsoleUnderTest, submit
from starforge.said.sentence import say
from starforge_console.domain.waiting import WaitReason, explain_maintenance
from starforge_console.ledger.queue import list_queued, note_waiting
from starforge_console.web.i18n.words import CHINESE, ENGLISH

REASONS = [
    WaitReason("0 of 8 GPUs free; 1 broken: Xid 79: bus", ("n1", "n2", "n3"), 2),
    WaitReason("no room either", more=1),
    WaitReason("could not run it: never", ("lab",)),
]


@pytest.mark.parametrize(
    ("language", "places"),
    [
        (ENGLISH, ["n1, n2, n3 and 2 more", "1 more machine", "lab"]),
        (CHINESE, ["n1, n2, n3，以及另外 2 台", "另有 1 台机器", "lab"]),  # noqa: RUF001 - Chinese
    ],
)
def test_page_and_api_show_each_reason_of_a_queued_job_with_its_places(
    console: ConsoleUnderTest, language: str, places: list[str]
) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    (queued,) = console.ledger.read_now(list_queued)
    console.ledger.write_now(lambda c: note_waiting(c, [(queued, REASONS)]))
    client = sign_in(console, headers)
    client.cookies.set("starforge_language", language)
    rows = re.findall(r'<tr><td>([^<]*)</td><td lang="en">([^<]*)</td></tr>', client.get(f"/jobs/{job}").text)
    assert rows == [(place, reason.reason) for place, reason in zip(places, REASONS, strict=True)]
    view = console.client(headers).get(f"/api/v1/jobs/{job}").json()["job"]
    assert view["waits"] == [
        {"reason": one.reason, "code": None, "places": list(one.places), "more": one.more} for one in REASONS
    ]
    assert view["note"] == (
        "n1, n2, n3 and 2 more: 0 of 8 GPUs free; 1 broken: Xid 79: bus; 1 more: no room either; lab: could not run it:"
        " never"
    )


def test_what_the_console_says_itself_is_read_in_chinese_and_has_a_code_in_the_api(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    job = submit(console, headers)
    (queued,) = console.ledger.read_now(list_queued)
    silent = WaitReason(say("host.unreachable", why="connection refused"), ("n1",))
    reasons = [silent, explain_maintenance("root", "")]
    console.ledger.write_now(lambda c: note_waiting(c, [(queued, reasons)]))
    client = sign_in(console, headers)
    client.cookies.set("starforge_language", CHINESE)
    rows = re.findall(r"<tr><td>([^<]*)</td><td>([^<]*)</td></tr>", client.get(f"/jobs/{job}").text)
    assert rows == [
        ("n1", "控制台无法连接：connection refused"),  # noqa: RUF001 - Chinese
        ("控制台", "root 已开启维护：管理员结束维护后，作业才会启动"),  # noqa: RUF001 - Chinese
    ]
    assert "n1：控制台无法连接：connection refused；控制台：root" in client.get("/queue").text  # noqa: RUF001 - Chinese
    view = console.client(headers).get(f"/api/v1/jobs/{job}").json()["job"]
    assert [one["code"] for one in view["waits"]] == ["host.unreachable", "wait.maintenance"]
    assert view["note"] == (
        "n1: unreachable from console: connection refused; "
        "the console: in maintenance by root: jobs start again once an administrator ends it"
    )
    assert view["note_code"] == "list.semicolon"
