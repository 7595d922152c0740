"""`sf webhook`: what is refused before anything is sent, and how a webhook is said to stand."""

import pytest

from core.tests.cli.conftest import Sf
from starforge.cli.webhook import describe_standing
from starforge.contract.webhooks import WebhookView


@pytest.mark.usefixtures("server")
def test_an_address_that_is_empty_is_refused_in_words(sf: Sf) -> None:
    refused = sf("webhook", "add", "")
    assert refused.code == 2
    assert "cannot be added" in refused.err


@pytest.mark.usefixtures("server")
def test_a_state_that_does_not_exist_is_named(sf: Sf) -> None:
    refused = sf("webhook", "add", "https://hooks.corp.example/", "--event", "DONE")
    assert refused.code == 2
    assert "DONE" in refused.err


def test_nobody_adds_one_without_signing_in(sf: Sf) -> None:
    assert "login" in sf("webhook", "add", "https://hooks.corp.example/").err


def build_view(outcome: str | None, **members: object) -> WebhookView:
    last = {"id": "1-7", "job": None, "state": None, "at": 0.0, "tries": 1, "status": 204, "outcome": outcome}
    told = {"id": 1, "url": "https://hooks.corp.example/", "events": [], "project": None, "jobs": "own", "user": "ann"}
    return WebhookView.model_validate({**told, "created_at": 0.0, "last": last if outcome else None, **members})


@pytest.mark.parametrize(
    ("view", "standing"),
    [
        (build_view(None), "nothing sent yet"),
        (build_view("delivered"), "delivered"),
        (build_view("waiting"), "not delivered"),
        (build_view("given_up"), "not delivered"),
        (build_view("waiting", failing_since=1.0), "failing since"),
        (build_view("waiting", failing_since=1.0, disabled_at=2.0, disabled_why="it fails"), "switched off: it fails"),
    ],
)
def test_a_webhook_that_was_switched_on_again_is_not_said_to_have_delivered(view: WebhookView, standing: str) -> None:
    assert describe_standing(view).startswith(standing)
