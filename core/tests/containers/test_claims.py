"""Allocation, the view and observations: pure, from what the listing says."""

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from core.tests.containers.builders import make_request, make_settings
from starforge.containers import labels
from starforge.containers.allocation import decide_allotment, find_rivals
from starforge.containers.facts import HostFacts
from starforge.containers.gpu_users import GpuUser
from starforge.containers.gpus import Gpu, GpuSurvey
from starforge.containers.labels import Claim, find_claim
from starforge.containers.listeners import list_listening_ports
from starforge.containers.pulls import Progress, split_image
from starforge.containers.seeing import build_observation, parse_time
from starforge.containers.viewing import build_view
from starforge.contract.executor import GpuState
from starforge.contract.ids import AttemptId
from starforge.contract.launch import Network, PoolRequest
from starforge.contract.observation import Exit, Failure, NoSignal, Phase, Seen
from starforge.errors import NoCapacity

FACTS = HostFacts(
    engine_id="E", root_dir="/d", cpus=8, memory_bytes=16 * 1024**3, architecture="amd64", boot="now", limits={}
)
FIRST, SECOND = "GPU-first", "GPU-second"
SURVEY = GpuSurvey(
    tuple(
        Gpu(uuid=uuid, index=index, name="NVIDIA H100 80GB HBM3", memory_bytes=None)
        for index, uuid in enumerate((FIRST, SECOND))
    )
)
OTHER = AttemptId("jabcdefghi-1-000000")


def claim(
    state: str = "running", boot: str = "now", gpus: tuple[str, ...] = (FIRST,), port: int | None = None
) -> Claim:
    return Claim(
        container="c1",
        state=state,
        attempt=OTHER,
        install="lab",
        boot=boot,
        gpus=gpus,
        cpus=1,
        memory_bytes=1024,
        port=port,
        image_id="sha256:i",
    )


@pytest.mark.parametrize(
    ("state", "boot", "holds"),
    [
        ("created", "now", True),
        ("running", "now", True),
        ("paused", "now", True),
        ("a word of a later engine", "now", True),
        ("exited", "now", False),
        ("dead", "now", False),
        ("removing", "now", False),
        ("created", "before", False),
        ("running", "before", True),
    ],
)
def test_a_container_holds_its_gpus_from_creation_to_its_end(state: str, boot: str, *, holds: bool) -> None:
    assert claim(state, boot).holds("now") is holds


def test_gpus_of_living_claims_are_not_given_again(tmp_path: Path) -> None:
    request = make_request(tmp_path)
    assert decide_allotment(request, [claim()], SURVEY, FACTS, 24000).gpus == (SECOND,)
    assert decide_allotment(request, [claim("exited")], SURVEY, FACTS, 24000).gpus == (FIRST,)
    with pytest.raises(NoCapacity):
        decide_allotment(request, [claim(gpus=(FIRST, SECOND))], SURVEY, FACTS, 24000)


def test_a_sick_gpu_is_left_out_alone(tmp_path: Path) -> None:
    sick = Gpu(uuid="GPU-sick", index=0, name="T4", memory_bytes=None, why_not="mig_enabled")
    well = Gpu(uuid="GPU-well", index=1, name="T4", memory_bytes=None)
    survey = GpuSurvey((sick, well))
    assert decide_allotment(make_request(tmp_path), [], survey, FACTS, 24000).gpus == ("GPU-well",)
    with pytest.raises(NoCapacity, match="2 of that series, 1 healthy"):
        decide_allotment(make_request(tmp_path, gpus=2), [], survey, FACTS, 24000)


@pytest.mark.parametrize(
    ("container", "state"),
    [
        ("c1", GpuState.FREE),
        ("", GpuState.FOREIGN),
        ("c9", GpuState.FOREIGN),
        (None, GpuState.QUARANTINED),
    ],
)
def test_a_gpu_that_somebody_else_uses_is_not_given(tmp_path: Path, container: str | None, state: GpuState) -> None:
    used = Gpu(uuid=FIRST, index=0, name="T4", memory_bytes=None, users=(GpuUser("7", container),))
    survey = GpuSurvey((used, Gpu(uuid=SECOND, index=1, name="T4", memory_bytes=None)))
    ended = claim("exited")  # its last process may take a moment to go
    settings = make_settings(tmp_path, tmp_path)
    assert build_view(survey, [ended], FACTS, settings, "").gpus[0].state is state
    given = decide_allotment(make_request(tmp_path), [ended], survey, FACTS, 24000).gpus
    assert given == ((FIRST,) if state is GpuState.FREE else (SECOND,))


def test_a_job_may_ask_for_a_family_and_a_name_that_only_the_console_knows_is_not_refused(tmp_path: Path) -> None:
    pool = PoolRequest(name="main", nodes=1, gpus_per_node=1, series="h100", cpus=1, memory_bytes=1024)
    request = make_request(tmp_path, pools=(pool,))
    for name in ("NVIDIA H100 PCIe", "NVIDIA H100 80GB HBM3", "Thing 9000"):
        survey = GpuSurvey((Gpu(uuid=FIRST, index=0, name=name, memory_bytes=None),))
        assert decide_allotment(request, [], survey, FACTS, 24000).gpus == (FIRST,)


def test_a_job_of_a_series_never_gets_another_one(tmp_path: Path) -> None:
    survey = GpuSurvey(
        (
            Gpu(uuid="GPU-t4", index=0, name="Tesla T4", memory_bytes=None),
            Gpu(uuid="GPU-h100", index=1, name="NVIDIA H100 80GB HBM3", memory_bytes=None),
        )
    )
    pool = PoolRequest(name="main", nodes=1, gpus_per_node=1, series="h100", cpus=1, memory_bytes=1024)
    request = make_request(tmp_path, pools=(pool,))
    assert decide_allotment(request, [], survey, FACTS, 24000).gpus == ("GPU-h100",)


def test_blocks_of_ports_do_not_overlap(tmp_path: Path) -> None:
    request = make_request(tmp_path, network=Network.HOST)
    assert decide_allotment(request, [claim(port=24000)], SURVEY, FACTS, 24000).port == 24064
    assert decide_allotment(make_request(tmp_path), [], SURVEY, FACTS, 24000).port is None


def test_a_block_in_which_somebody_listens_is_passed_over(tmp_path: Path) -> None:
    request = make_request(tmp_path, network=Network.HOST)
    for listening, port in (((), 24000), ((24000,), 24064), ((24063, 24064), 24128), ((23999, 24064), 24000)):
        facts = replace(FACTS, listening=frozenset(listening))
        assert decide_allotment(request, [], SURVEY, facts, 24000).port == port
    everywhere = replace(FACTS, listening=frozenset(range(20000, 40000)))
    with pytest.raises(NoCapacity, match="all 128 blocks are taken"):
        decide_allotment(request, [], SURVEY, everywhere, 24000)


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_the_ports_that_somebody_listens_on_are_known(address: str) -> None:
    with socket.create_server((address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET) as server:
        port = server.getsockname()[1]
        assert port in list_listening_ports()
        with socket.create_connection((address, port)) as client:
            assert client.getsockname()[1] not in list_listening_ports()


def test_a_kernel_without_lists_of_ports_knows_none(tmp_path: Path) -> None:
    assert list_listening_ports(tmp_path) == frozenset()


def test_the_second_look_finds_others_on_the_same_gpu_and_not_itself() -> None:
    others = [claim()]
    assert find_rivals(others, "c1", [FIRST], "now") == []
    assert find_rivals(others, "c2", [FIRST], "now") == others
    assert find_rivals(others, "c2", [SECOND], "now") == []


def test_labels_make_a_claim_and_strangers_none() -> None:
    labels = {
        "forge.attempt": OTHER,
        "forge.install": "lab",
        "forge.gpu.1": "b",
        "forge.gpu.0": "a",
        "forge.gpu.10": "k",
    }
    found = find_claim({"Id": "c", "State": "running", "Labels": labels | {"forge.cpus": "1.5", "forge.memory": "7"}})
    assert found is not None
    assert (found.gpus, found.cpus, found.memory_bytes, found.port) == (("a", "b", "k"), 1.5, 7, None)
    assert find_claim({"Id": "c", "State": "running", "Labels": None}) is None
    assert find_claim({"Id": "c", "State": "running", "Labels": {"forge.attempt": "what"}}) is None


def inspected(**state: object) -> dict[str, object]:
    return {"State": state}


def test_an_exit_is_told_with_code_and_times() -> None:
    state = inspected(
        ExitCode=255,
        OOMKilled=True,
        StartedAt="2026-11-29T17:24:46.500000000Z",
        FinishedAt="2026-11-29T17:24:47.25Z",
        Error="",
    )
    seen = build_observation(claim("exited"), state, "n1", 5.0, 3.0)
    assert isinstance(seen, Seen)
    assert seen.exit == Exit(
        code=255,
        out_of_memory=True,
        started_at=1795973086.5,
        finished_at=1795973087.25,
        engine_started_at=3.0,
    )
    assert (seen.phase, seen.gpus, seen.node, seen.image_id) == (Phase.EXITED, (FIRST,), "n1", "sha256:i")


def test_a_start_that_failed_under_a_dead_launcher_is_told_as_such() -> None:
    error = 'exec: "bash": executable file not found in $PATH: unknown'
    seen = build_observation(claim("created"), inspected(ExitCode=127, Error=error), "n1", 5.0, None)
    assert isinstance(seen, Seen)
    assert (seen.phase, seen.failure, seen.exit) == (Phase.EXITED, Failure.START_FAILED, None)


def test_an_unknown_word_for_a_state_is_no_signal_with_the_word() -> None:
    assert build_observation(claim("hibernating"), None, "n1", 5.0, None) == NoSignal(
        reason="the engine calls the container 'hibernating'"
    )


def test_never_is_no_time() -> None:
    assert parse_time("0001-01-01T00:00:00Z") is None
    assert parse_time("") is None
    assert parse_time("yesterday") is None
    assert parse_time("1970-01-01T00:00:01Z") == 1.0


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("train", ("train", "latest")),
        ("train:2", ("train", "2")),
        ("host:5000/a/train", ("host:5000/a/train", "latest")),
        ("host:5000/a/train:2", ("host:5000/a/train", "2")),
        ("host:5000/train@sha256:ab", ("host:5000/train", "sha256:ab")),
        ("host:5000/train:2@sha256:ab", ("host:5000/train", "sha256:ab")),
    ],
)
def test_a_pull_always_names_one_tag_or_digest(image: str, parts: tuple[str, str]) -> None:
    assert split_image(image) == parts


def test_progress_sums_layers_and_ignores_retries() -> None:
    progress = Progress()
    before = progress.show("i")
    assert (before.done_bytes, before.total_bytes) == (0, None)
    progress.take({"id": "a", "status": "Pulling fs layer", "progressDetail": {}})
    progress.take({"id": "a", "status": "Downloading", "progressDetail": {"current": 40, "total": 100}})
    progress.take({"id": "b", "status": "Downloading", "progressDetail": {"current": 10, "total": 50}})
    progress.take({"id": "b", "status": "Download complete", "progressDetail": {}})
    progress.take({"id": "b", "status": "Extracting", "progressDetail": {"current": 5, "total": 50}})
    at = progress.at
    progress.take({"id": "a", "status": "Retrying in 5 seconds", "progressDetail": {}})
    shown = progress.show("i")
    assert (shown.done_bytes, shown.total_bytes, shown.progressed_at) == (90, 150, at)


def test_what_an_image_says_of_gpus_and_ports_claims_nothing() -> None:
    ours = {"forge.attempt": OTHER, "forge.install": "lab", "forge.gpus": "1", "forge.gpu.0": "a", "forge.port": ""}
    images = {"forge.gpu.1": "GPU-x", "forge.gpu.01": "GPU-y", "forge.gpu.": "GPU-z"}
    found = find_claim({"Id": "c", "State": "running", "Labels": images | ours})
    assert found is not None
    assert (found.gpus, found.port) == (("a",), None)


@pytest.mark.parametrize("said", ["inf", "-inf", "nan", "-1", "1e999", "many", ""])
@pytest.mark.parametrize("label", [labels.CPUS, labels.MEMORY, labels.PORT, labels.GPUS])
def test_a_number_that_no_container_of_ours_says_claims_nothing_and_spoils_no_listing(label: str, said: str) -> None:
    sane = {labels.ATTEMPT: OTHER, labels.CPUS: "1", labels.MEMORY: "2", labels.PORT: "3", labels.GPUS: "1"}
    listed = {"Id": "c1", "State": "running", "Labels": {**sane, f"{labels.GPU_PREFIX}0": FIRST, label: said}}
    found = find_claim(listed)
    assert found is not None
    numbers = {labels.CPUS: found.cpus, labels.MEMORY: found.memory_bytes, labels.PORT: found.port or 0}
    assert {**numbers, labels.GPUS: len(found.gpus)} == {
        labels.CPUS: 1,
        labels.MEMORY: 2,
        labels.PORT: 3,
        labels.GPUS: 1,
        label: 0,
    }
