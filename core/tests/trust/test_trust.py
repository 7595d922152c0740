"""Console and node let in each other's certificate, and nobody else's."""

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from starforge.contract.registration import EPOCH_PURPOSE, HEARTBEAT_PURPOSE, signed_bytes
from starforge.errors import ProjectError, SpecError
from starforge.trust.certificates import Identity, load_public_key, make_identity
from starforge.trust.contexts import build_client_context, build_server_context
from starforge.trust.signatures import Signer, is_signed

NODE, CONSOLE, STRANGER = (make_identity(name) for name in ("n3", "console", "stranger"))


@pytest.fixture
def file_of(tmp_path: Path) -> Callable[[Identity], Path]:
    def write(identity: Identity) -> Path:
        path = tmp_path / f"{load_public_key(identity.certificate).hex()}.pem"
        path.write_text(identity.pem)
        return path

    return write


def talk(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes:
    """One message from the server after both hands are shaken, without a network."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    near = client.wrap_bio(to_client, to_server)
    far = server.wrap_bio(to_server, to_client, server_side=True)
    for step in (near, far, near, far):
        try:
            step.do_handshake()
        except ssl.SSLWantReadError:
            continue
    far.write(b"hello")
    return near.read(5)


def test_the_right_pair_talks(file_of: Callable[[Identity], Path]) -> None:
    server = build_server_context(file_of(NODE), CONSOLE.certificate)
    client = build_client_context(file_of(CONSOLE), NODE.certificate)
    assert talk(server, client) == b"hello"


@pytest.mark.parametrize(
    ("node_trusts", "console_trusts", "who_calls"),
    [(CONSOLE, STRANGER, CONSOLE), (STRANGER, NODE, CONSOLE), (CONSOLE, NODE, STRANGER)],
    ids=["the node is another", "the node trusts another", "the caller is another"],
)
def test_any_other_certificate_is_refused(
    file_of: Callable[[Identity], Path], node_trusts: Identity, console_trusts: Identity, who_calls: Identity
) -> None:
    server = build_server_context(file_of(NODE), node_trusts.certificate)
    client = build_client_context(file_of(who_calls), console_trusts.certificate)
    with pytest.raises(ssl.SSLCertVerificationError):
        talk(server, client)


def test_a_caller_without_a_certificate_is_refused(file_of: Callable[[Identity], Path]) -> None:
    server = build_server_context(file_of(NODE), CONSOLE.certificate)
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        talk(server, bare)


def test_an_older_protocol_is_refused(file_of: Callable[[Identity], Path]) -> None:
    server = build_server_context(file_of(NODE), CONSOLE.certificate)
    client = build_client_context(file_of(CONSOLE), NODE.certificate)
    client.minimum_version = client.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        talk(server, client)


def test_the_server_is_told_why_somebody_was_not_let_in(file_of: Callable[[Identity], Path]) -> None:
    told: list[str] = []
    server = build_server_context(file_of(NODE), CONSOLE.certificate, told.append)
    with pytest.raises(ssl.SSLCertVerificationError):
        talk(server, build_client_context(file_of(STRANGER), NODE.certificate))
    assert told == ["CERTIFICATE_VERIFY_FAILED self-signed certificate"]
    assert talk(server, build_client_context(file_of(CONSOLE), NODE.certificate)) == b"hello"
    assert len(told) == 1


@pytest.mark.parametrize(
    "changed",
    [
        (EPOCH_PURPOSE, "i1", "n3", (1, 2), b"body"),
        (HEARTBEAT_PURPOSE, "i2", "n3", (1, 2), b"body"),
        (HEARTBEAT_PURPOSE, "i1", "n4", (1, 2), b"body"),
        (HEARTBEAT_PURPOSE, "i1", "n3", (2, 2), b"body"),
        (HEARTBEAT_PURPOSE, "i1", "n3", (1, 3), b"body"),
        (HEARTBEAT_PURPOSE, "i1", "n3", (1, 2), b"bodY"),
    ],
    ids=["purpose", "install", "node", "epoch", "counter", "body"],
)
def test_a_signature_holds_for_what_was_signed_alone(changed: tuple[bytes, str, str, tuple[int, int], bytes]) -> None:
    message = signed_bytes(HEARTBEAT_PURPOSE, "i1", "n3", (1, 2), b"body")
    public, signature = load_public_key(NODE.certificate), Signer(NODE.pem).sign(message)
    assert is_signed(public, signature, message)
    assert not is_signed(public, signature, signed_bytes(*changed))
    assert not is_signed(load_public_key(STRANGER.certificate), signature, message)
    assert not is_signed(public, b"", message)


def test_an_identity_keeps_its_key_out_of_its_repr_and_its_certificate() -> None:
    assert "PRIVATE" not in repr(NODE)
    assert "PRIVATE" not in NODE.certificate


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_or_key_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        load_public_key(text)
    with pytest.raises(ProjectError):
        Signer(text)
