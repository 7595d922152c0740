"""Where a delivery goes: to the addresses that were checked, over TLS to the name alone."""

import asyncio
import ipaddress
from collections.abc import Sequence
from pathlib import Path

import pytest

from server.tests.certificates import make_certificate
from server.tests.webhooks.receiver import Receiver, receiving
from starforge.contract.launch import Secret
from starforge.contract.webhooks import WebhookMessage
from starforge_console.clock import SystemClock
from starforge_console.domain.reachable import Address
from starforge_console.settings.webhooks import WebhookSettings
from starforge_console.webhooks.sending import Answered, Sender

LOOPBACK = WebhookSettings(webhook_allow="127.0.0.0/8 ::1/128")


class Names:
    """What a name leads to, which may change; `asked` counts."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses
        self.asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[Address]:
        del host, port
        self.asked += 1
        return [ipaddress.ip_address(one) for one in self.addresses]


def send(sender: Sender, url: str) -> Answered:
    message = WebhookMessage(id="ping-1", kind="ping", number=0, at=1.0, job=None)
    return asyncio.run(sender.send(url, Secret("sfw_x"), message))


def write_certificate(folder: Path, *hosts: str) -> Path:
    file = folder / "certificate.pem"
    file.write_bytes(make_certificate(*hosts))
    return file


def test_the_certificate_is_compared_with_the_name_though_an_address_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with receiving(file) as receiver:
        answered = send(Sender(LOOPBACK, SystemClock()), f"{receiver.url}/hook")
    assert answered == Answered(204, "")
    assert [(one.path, f"https://{one.headers['host']}") for one in receiver.arrived] == [("/hook", receiver.url)]


@pytest.mark.parametrize("hosts", [("hooks.example",), ("127.0.0.1",)])
def test_a_certificate_of_another_name_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, ...]
) -> None:
    file = write_certificate(tmp_path, *hosts)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with receiving(file) as receiver:
        answered = send(Sender(LOOPBACK, SystemClock()), receiver.url)
    assert (answered.status, receiver.arrived) == (None, [])
    assert "not valid for 'localhost'" in answered.error


def test_a_certificate_of_an_authority_that_is_not_trusted_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with receiving(write_certificate(tmp_path, "localhost")) as receiver:
        answered = send(Sender(LOOPBACK, SystemClock()), receiver.url)
    assert (answered.status, receiver.arrived) == (None, [])
    assert "self-signed certificate" in answered.error


def test_authorities_that_cannot_be_read_are_the_error_of_the_delivery(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))
    answered = send(Sender(LOOPBACK, SystemClock()), receiver.url)
    assert (answered.status, receiver.arrived) == (None, [])
    assert "SSL_CERT_FILE" in answered.error


def test_an_address_that_does_not_answer_leaves_the_delivery_to_the_next(receiver: Receiver) -> None:
    answered = send(Sender(LOOPBACK, SystemClock(), Names("::1", "127.0.0.1")), receiver.url)
    assert answered == Answered(204, "")
    assert len(receiver.arrived) == 1


@pytest.mark.parametrize("trouble", [500, None])
def test_what_was_sent_once_is_not_sent_to_another_address(receiver: Receiver, trouble: int | None) -> None:
    receiver.usual = trouble
    answered = send(Sender(LOOPBACK, SystemClock(), Names("127.0.0.1", "127.0.0.1")), receiver.url)
    assert (answered.status, len(receiver.arrived)) == (trouble, 1)


def test_a_refused_address_is_named_once_and_one_behind_a_name_beside_it() -> None:
    sender = Sender(WebhookSettings(webhook_allow=""), SystemClock(), Names("127.0.0.1"))
    assert asyncio.run(sender.find_refused("http://127.0.0.1:9/")).startswith("127.0.0.1 is not public: ")
    assert asyncio.run(sender.find_refused("http://hooks.test/")).startswith(
        "hooks.test is 127.0.0.1, which is not public: "
    )


def test_a_name_that_leads_to_a_private_address_later_is_refused_at_the_delivery(receiver: Receiver) -> None:
    names = Names("1.1.1.1")
    sender = Sender(WebhookSettings(webhook_allow=""), SystemClock(), names)
    assert asyncio.run(sender.find_refused(receiver.url)) == ""
    names.addresses = ("1.1.1.1", "127.0.0.1")
    answered = send(sender, receiver.url)
    assert (answered.status, receiver.arrived) == (None, [])
    assert "not public" in answered.error
    assert names.asked == 2, "once for each look: between look and call nobody is asked again"
