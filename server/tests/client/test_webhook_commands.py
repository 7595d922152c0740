"""`sf webhook` against a console that listens."""

import json
from collections.abc import Callable

import pytest

from server.tests.webhooks.receiver import receiving
from starforge.cli.main import main


@pytest.fixture
def sf(login: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    assert login

    def run(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as ended:
            main(["webhook", *words])
        return int(ended.value.code or 0), capsys.readouterr().out

    return run


@pytest.fixture(autouse=True)
def _allowed(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    monkeypatch.setenv("FORGE_WEBHOOK_ALLOW", "127.0.0.0/8")
    request.getfixturevalue("login")  # the console reads it when it is built


def test_a_webhook_is_added_tried_listed_and_removed(sf: Callable[..., tuple[int, str]]) -> None:
    with receiving() as receiver:
        code, shown = sf("add", receiver.url, "--event", "FAILED")
        assert code == 0
        secret = shown.splitlines()[-1]
        assert secret.startswith("sfw_")
        assert sf("test", "1")[0] == 0
        receiver.usual = 500
        assert sf("test", "1")[0] == 1
    assert receiver.arrived[0].is_signed_with(secret)
    listed = json.loads(sf("ls", "--json")[1])["items"]
    assert [(one["id"], one["events"]) for one in listed] == [(1, ["FAILED"])]
    assert "nothing sent yet" in sf("ls")[1]
    assert listed[0]["url"] in sf("show", "1")[1]
    assert "told again" in sf("enable", "1")[1]
    assert sf("rm", "1")[0] == 0
    assert "there is no webhook" in sf("ls")[1]
