"""Addresses at which a console calls a node, and hosts that are this machine."""

import pytest

from starforge.contract.addresses import check_advertise, is_loopback
from starforge.errors import InputError


@pytest.mark.parametrize(
    "address", ["10.0.0.7:7070", "gpu7.example.org:7070", "[fd00::7]:7070", "127.0.0.1:1", "gpu-7:65535", "[::1]:7070"]
)
def test_addresses_that_name_one_machine_are_taken_as_they_are(address: str) -> None:
    assert check_advertise(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "",
        "gpu7",
        ":7070",
        "gpu7:",
        "gpu7:0",
        "gpu7:65536",
        "gpu7:http",
        "fd00::7:7070",
        "0.0.0.0:7070",
        "[::]:7070",
        "224.0.0.1:7070",
        "user@gpu7:7070",
        "gpu7:7070/path",
        "gpu7:7070?x",
        "gpu 7:7070",
        "http://gpu7:7070",
        "999.1.1.1:7070",
        "0:7070",
        "gpu7\n:7070",
        "[fd00::7:7070",
        "[::1]x:7070",
        "a:b@c:1",
        "gpu7:7070#x",
    ],
)
def test_what_the_console_could_not_call_is_refused(address: str) -> None:
    with pytest.raises(InputError, match="advertise"):
        check_advertise(address)


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("localhost", True),
        ("console.localhost", True),
        ("127.3.2.1", True),
        ("::1", True),
        ("", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - bound to nowhere here
        ("localhost.example.org", False),
        ("notlocalhost", False),
    ],
)
def test_only_this_machine_counts_as_loopback(host: str, answer: object) -> None:
    assert is_loopback(host) is answer
