"""The wire between console and forgelet."""

import dataclasses

import pytest

from starforge.contract.ids import AttemptId, Digest, JobId
from starforge.contract.launch import LaunchRequest, Mount, Network, PoolRequest, RegistryLogin, Secret
from starforge.contract.observation import Exit, Failure, Gone, NoSignal, Observation, Phase, Pull, Seen
from starforge.contract.wire import decode_launch, decode_observation, encode_launch, encode_observation
from starforge.errors import SpecError

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
    Seen(phase=Phase.EXITED, at=1.0, failure=Failure.PULL_DENIED, note="denied"),
    Gone(at=2.0, fenced=True),
    NoSignal(reason="timed out"),
]


def test_a_launch_comes_back_as_it_was_sent_secrets_included() -> None:
    assert decode_launch(encode_launch(REQUEST)) == REQUEST


@pytest.mark.parametrize("observation", OBSERVATIONS, ids=lambda one: type(one).__name__)
def test_an_observation_comes_back_as_it_was_sent(observation: Observation) -> None:
    assert decode_observation(encode_observation(observation)) == observation


def test_secrets_show_in_no_repr_and_no_text() -> None:
    for text in (repr(REQUEST), str(REQUEST), f"{REQUEST}", repr(REQUEST.secrets), repr(dataclasses.asdict(REQUEST))):
        assert "hunter" not in text


def test_a_member_that_a_newer_console_added_is_ignored() -> None:
    newer = encode_launch(REQUEST).replace(b'"launch":{', b'"launch":{"later":1,')
    assert decode_launch(newer) == REQUEST


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"wire":99,"launch":{}}', b'{"launch":{}}', b'{"wire":1}'])
def test_what_cannot_be_read_is_refused(content: bytes) -> None:
    with pytest.raises(SpecError):
        decode_launch(content)
    assert isinstance(decode_observation(content), NoSignal)
