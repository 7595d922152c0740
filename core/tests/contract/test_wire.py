"""The wire between console and forgelet."""

import dataclasses

import pytest

from starforge.contract.executor import GpuState, GpuView, LogChunk, NodeView, Swept
from starforge.contract.ids import AttemptId, Digest, JobId
from starforge.contract.launch import LaunchRequest, Mount, Network, PoolRequest, RegistryLogin, Secret
from starforge.contract.observation import Exit, Failure, Gone, NoSignal, Observation, Phase, Pull, Seen
from starforge.contract.wire import (
    NodeReport,
    Observe,
    decode,
    decode_error,
    decode_observations,
    encode,
    encode_error,
    encode_observations,
)
from starforge.errors import (
    BackendUnreachable,
    Conflict,
    LaunchRefused,
    NoCapacity,
    NodeFault,
    NotFound,
    SpecError,
    StarForgeError,
)

REQUEST = LaunchRequest(
    attempt=AttemptId("j234567abc-1-abcdef"),
    job=JobId("j234567abc"),
    number=1,
    install="i1",
    fleet="gpu",
    image="registry.corp/train:1",
    command=(".starforge/capsule/bootstrap.sh",),
    workdir="/srv/runs/j234567abc/attempts/1",
    user="1000:1000",
    env={"A": "1"},
    secrets={"ingest-token": Secret("hunter2")},
    mounts=(Mount("/srv/a", "/srv/a", read_only=False),),
    pools=(PoolRequest(name="main", nodes=1, gpus_per_node=2, series="h200"),),
    labels={},
    network=Network.BRIDGE,
    grace_s=30.0,
    max_runtime_s=None,
    shm_bytes=None,
    capsule_digest=Digest("sha256:" + "1" * 64),
    ingest_url="http://host.docker.internal:7081",
    registry_login=RegistryLogin(username="u", password=Secret("hunter3")),
)
OBSERVATIONS: list[Observation] = [
    Seen(phase=Phase.PREPARING, at=1.0, pull=Pull(image="x", done_bytes=1, total_bytes=None, progressed_at=1.0)),
    Seen(phase=Phase.RUNNING, at=1.0, node="n1", gpus=("GPU-1", "GPU-2"), image_id="sha256:x"),
    Seen(
        phase=Phase.EXITED,
        at=1.0,
        exit=Exit(code=3, out_of_memory=False, started_at=1.0, finished_at=2.0, engine_started_at=None),
    ),
    Seen(phase=Phase.PREPARING, at=1.0, is_queued=True, note="waits in a queue"),
    Seen(phase=Phase.EXITED, at=1.0, failure=Failure.PULL_DENIED, note="denied"),
    Gone(at=2.0, fenced=True),
    NoSignal(reason="timed out"),
]


GPU = GpuView(uuid="GPU-1", index=0, name="NVIDIA H200", series=None, memory_bytes=None, state=GpuState.FREE)
A = AttemptId("j234567abc-1-abcdef")
REPORT = NodeReport(
    node="n3",
    install="i1",
    version="0.1.0",
    view=NodeView(name="n3", gpus=(GPU,), cpus=8.0, memory_bytes=1 << 30, held={A: (1.0, 1 << 20)}),
    attempts={A: "RUNNING"},
    boot="b",
    epoch=2,
    fence=0,
    at=1.0,
)
MESSAGES: list[object] = [
    REQUEST,
    REPORT,
    Observe(attempts=None),
    Observe(attempts=(A,)),
    Swept(removed=(A,), running=()),
    LogChunk(b"\xff\0", "c"),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_a_message_comes_back_as_it_was_sent_secrets_included(message: object) -> None:
    assert decode(encode(message), type(message)) == message


def test_observations_come_back_as_they_were_sent() -> None:
    sent = {AttemptId(f"a{number}"): observation for number, observation in enumerate(OBSERVATIONS)}
    assert decode_observations(encode_observations(sent)) == sent


def test_an_observation_that_cannot_be_understood_is_no_signal_and_spoils_no_other() -> None:
    gone = Gone(at=1.0)
    content = encode_observations({A: gone}).replace(
        b'"body":{', b'"body":{"x":{"later":{}},"y":{},"z":{"seen":{"phase":"?"}},'
    )
    told = decode_observations(content)
    assert told.pop(A) == gone
    assert {type(one) for one in told.values()} == {NoSignal}
    assert set(told) == {"x", "y", "z"}


@pytest.mark.parametrize("kind", [NoCapacity, NodeFault, LaunchRefused, Conflict, NotFound, SpecError])
def test_an_error_is_raised_again_as_what_it_was(kind: type[StarForgeError]) -> None:
    error = decode_error(encode_error(kind("what", why="why", next_step="next")))
    assert (type(error), error.what, error.why, error.next_step) == (kind, "what", "why", "next")


@pytest.mark.parametrize("content", [b"", b"<html>", b'{"wire":1,"body":{"code":"later","what":"x"}}', b'{"wire":2}'])
def test_an_error_that_is_not_known_leaves_open_what_took_effect(content: bytes) -> None:
    assert isinstance(decode_error(content), BackendUnreachable)


def test_secrets_show_in_no_repr_and_no_text() -> None:
    for text in (repr(REQUEST), str(REQUEST), f"{REQUEST}", repr(REQUEST.secrets), repr(dataclasses.asdict(REQUEST))):
        assert "hunter" not in text


def test_a_member_that_a_newer_console_added_is_ignored() -> None:
    newer = encode(REQUEST).replace(b'"body":{', b'"body":{"later":1,')
    assert decode(newer, LaunchRequest) == REQUEST


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"wire":99,"body":{}}',
        b'{"body":{}}',
        b'{"wire":1}',
        b'{"wire":true,"body":{}}',
        b"[" * 99999,
    ],
)
def test_what_cannot_be_read_is_refused(content: bytes) -> None:
    with pytest.raises(SpecError):
        decode(content, LaunchRequest)
    with pytest.raises(SpecError):
        decode_observations(content)
