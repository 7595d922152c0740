"""Waiting for an approval: at the console's pace, through its restarts, and not for ever."""

from collections.abc import Callable, Iterator

import pytest

from starforge.client.device import DeviceConsole
from starforge.contract.device import DeviceBegun, DeviceToken
from starforge.errors import (
    BackendUnreachable,
    Busy,
    CodeExpired,
    SignInDenied,
    SignInPending,
    SlowDown,
    StarForgeError,
    Unavailable,
)

TOKEN = DeviceToken(access_token="sfp_x", expires_in=60, scope="read")  # noqa: S106 - made up
BEGUN = DeviceBegun(
    device_code="d",
    user_code="BCDF-GHJK",
    verification_uri="https://forge.test/device",
    verification_uri_complete="https://forge.test/device?code=BCDF-GHJK",
    expires_in=600,
    interval=5,
)


class _Scripted(DeviceConsole):
    """A console whose answers a test wrote down; time passes with pauses alone."""

    def __init__(self, answers: Iterator[StarForgeError | DeviceToken]) -> None:
        self.answers = answers
        self.at = 0.0
        self.pauses: list[float] = []

    def poll(self, begun: DeviceBegun) -> DeviceToken:
        assert begun is BEGUN
        answer = next(self.answers)
        if isinstance(answer, StarForgeError):
            raise answer
        return answer

    def let_pass(self, seconds: float) -> None:
        self.at += seconds
        self.pauses.append(seconds)

    def wait_for_it(self) -> DeviceToken:
        return self.wait(BEGUN, self.let_pass, lambda: self.at)


@pytest.mark.parametrize(
    ("answers", "pauses"),
    [
        ([SignInPending("x"), SignInPending("x"), TOKEN], [5, 5, 5]),
        ([SlowDown("x"), SignInPending("x"), SlowDown("x"), TOKEN], [5, 10, 10, 15]),
        ([BackendUnreachable("x"), Unavailable("x"), TOKEN], [5, 5, 5]),
        ([Busy("x", retry_after_s=20.0), TOKEN], [5, 20]),
    ],
)
def test_it_asks_at_the_consoles_pace_until_there_is_a_token(
    answers: list[StarForgeError | DeviceToken], pauses: list[float]
) -> None:
    console = _Scripted(iter(answers))
    assert console.wait_for_it() == TOKEN
    assert console.pauses == pauses


@pytest.mark.parametrize("end", [SignInDenied("x"), CodeExpired("x")])
def test_a_no_ends_the_wait_at_once(end: StarForgeError) -> None:
    console = _Scripted(iter([SignInPending("x"), end]))
    with pytest.raises(type(end)):
        console.wait_for_it()
    assert len(console.pauses) == 2


@pytest.mark.parametrize("make", [lambda: SignInPending("x"), lambda: BackendUnreachable("x")])
def test_it_does_not_wait_longer_than_the_code_lives(make: Callable[[], StarForgeError]) -> None:
    console = _Scripted(iter(make() for _ in range(10_000)))
    with pytest.raises(CodeExpired):
        console.wait_for_it()
    assert console.at == BEGUN.expires_in
