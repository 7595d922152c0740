"""`sf webhook`: what is refused before anything is sent."""

import pytest

from core.tests.cli.conftest import Sf


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
