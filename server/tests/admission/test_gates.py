from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from starforge.contract.canonical import digest_bytes
from starforge.contract.executor import Capabilities, FleetView, GpuState, GpuView, NodeView
from starforge.contract.jobspec import JobSpec, digest_of
from starforge.contract.launch import Network
from starforge.recipes.catalog import load_catalog
from starforge_console.admission.decide import decide_admission, seal_record
from starforge_console.admission.gate import FleetState, Snapshot, Submission
from starforge_console.admission.images import parse_patterns
from starforge_console.ledger.accounts import Account
from starforge_console.ledger.fleets import Fleet

WORKSPACE = b"a packed workspace"
ANN = Account(user_id=1, user="ann", role="member", active=True, scopes=frozenset({"read", "submit"}), expires_at=1e12)
ONE_NODE = Capabilities(multi_node=False, pools=False, live_logs=True)
MANY_NODES = Capabilities(multi_node=True, pools=True, live_logs=True)
RECIPE = load_catalog()["custom/custom"]


def spec(**members: object) -> JobSpec:
    whole = {
        "recipe": {"name": RECIPE.name, "version": RECIPE.version, "digest": RECIPE.digest},
        "framework": {"kind": RECIPE.framework, "image": "python:3.11"},
        "resources": {"pools": [{"gpus_per_node": 0}]},
        "entry": {"kind": RECIPE.entry.kind, "value": "experiments/first"},
        "workspace": {"digest": digest_bytes(WORKSPACE), "bytes": len(WORKSPACE), "files": 1},
        "provenance": {"commit": "0" * 40},
    }
    return JobSpec.model_validate({"metadata": {"name": "first", "project": "demo"}, "spec": whole | members})


def node(name: str, gpus: int = 0, series: str | None = "h200", cpus: float = 8) -> NodeView:
    views = tuple(
        GpuView(uuid=f"{name}-{n}", index=n, name="GPU", series=series, memory_bytes=None, state=GpuState.HELD)
        for n in range(gpus)
    )
    return NodeView(name=name, gpus=views, cpus=cpus, memory_bytes=16 << 30)


def fleet(
    *nodes: NodeView,
    name: str = "local",
    capabilities: Capabilities | None = ONE_NODE,
    complete: bool = True,
    requires_limit: bool = False,
) -> FleetState:
    view = FleetView(fleet=name, nodes=nodes, complete=complete)
    row = Fleet(name=name, kind="local", network=Network.BRIDGE, user=None, requires_limit=requires_limit)
    return FleetState(fleet=row, capabilities=capabilities, view=view)


def silent(name: str = "local") -> FleetState:
    row = Fleet(name=name, kind="local", network=Network.BRIDGE, user=None)
    return FleetState(fleet=row, capabilities=ONE_NODE, view=None)


def decide(asked: JobSpec, *fleets: FleetState, **changes: Any) -> Mapping[str, list[str]]:
    """Refusal codes by gate, and warnings under `warned`. `changes`: members of the submission or of the snapshot."""
    sent: dict[str, Any] = {"account": ANN, "allow_dirty": False, "is_trial": False}
    seen: dict[str, Any] = {"catalog": load_catalog(), "blob_bytes": len(WORKSPACE), "images": parse_patterns("*")}
    submission = Submission(spec=asked, **{name: changes.pop(name, value) for name, value in sent.items()})
    snapshot = Snapshot(fleets=fleets or (fleet(node("here")),), **{**seen, **changes})
    record = decide_admission(submission, snapshot, digest_of(asked), 1.0)
    said: dict[str, list[str]] = {"warned": list(record.warnings)} if record.warnings else {}
    for refusal in record.refusals:
        said.setdefault(str(refusal.gate), []).append(refusal.code)
    return said


def pools(*shapes: dict[str, Any]) -> dict[str, Any]:
    return {"pools": [{"name": f"p{number}", "gpus_per_node": 0} | shape for number, shape in enumerate(shapes)]}


def test_a_clean_submission_passes_every_gate() -> None:
    assert decide(spec()) == {}


@pytest.mark.parametrize(
    ("members", "codes"),
    [
        ({"recipe": {"name": "custom/nothing", "version": "1", "digest": RECIPE.digest}}, ["method_unknown"]),
        ({"recipe": {"name": RECIPE.name, "version": "0", "digest": RECIPE.digest}}, ["recipe_version"]),
        ({"recipe": {"name": RECIPE.name, "version": RECIPE.version, "digest": digest_bytes(b"")}}, ["recipe_digest"]),
        ({"framework": {"kind": "trl", "image": "python:3.11"}}, ["framework_kind"]),
        ({"framework": {"kind": RECIPE.framework, "image": "  "}}, ["image_missing"]),
        ({"entry": {"kind": "module", "value": "train"}}, ["entry_kind"]),
        ({"model": "models/tiny", "data": {"train": "data/train.jsonl"}}, []),
    ],
)
def test_the_catalog_must_publish_what_the_lock_names(members: dict[str, Any], codes: list[str]) -> None:
    assert decide(spec(**members)) == ({"catalog": codes} if codes else {})


def test_an_account_that_may_not_submit_is_refused() -> None:
    reader = Account(user_id=1, user="bob", role="member", active=False, scopes=frozenset({"read"}), expires_at=1e12)
    assert decide(spec(), account=reader) == {"account": ["user_inactive", "scope_missing"]}


def test_a_dirty_tree_is_refused_unless_it_is_allowed() -> None:
    dirty = spec(provenance={"commit": "0" * 40, "dirty": True, "dirty_files": ["a.py"]})
    assert decide(dirty) == {"provenance": ["workspace_dirty"]}
    assert list(decide(dirty, allow_dirty=True)) == ["warned"]


@pytest.mark.parametrize("size", [None, 1])
def test_the_workspace_must_be_here_in_its_size(size: int | None) -> None:
    assert decide(spec(), blob_bytes=size) == {"provenance": ["workspace_missing"]}


def test_a_trial_is_told_of_a_workspace_that_is_still_to_come_and_refused_for_one_of_another_size() -> None:
    assert list(decide(spec(), blob_bytes=None, is_trial=True)) == ["warned"]
    assert decide(spec(), blob_bytes=1, is_trial=True) == {"provenance": ["workspace_missing"]}


def test_a_workspace_outside_of_git_is_admitted_with_a_warning() -> None:
    assert list(decide(spec(provenance={}))) == ["warned"]


def test_an_image_off_the_list_is_refused() -> None:
    assert decide(spec(), images=parse_patterns("ubuntu:*")) == {"image": ["image_not_allowed"]}


@pytest.mark.parametrize("image", ["Train:1", "train:a:b", "train@sha256:12", "http://registry/train", "-x/train"])
def test_an_image_that_no_engine_could_read_is_refused_even_where_everything_is_allowed(image: str) -> None:
    framework = {"kind": RECIPE.framework, "image": image}
    assert decide(spec(framework=framework)) == {"image": ["image_malformed"]}


@pytest.mark.parametrize(
    "asked",
    [
        pools({"gpus_per_node": 4, "series": "h200"}),
        pools({"gpus_per_node": 4, "series": None}),
        pools({"cpus": 8, "memory_bytes": 16 << 30}),
    ],
)
def test_what_the_largest_node_could_hold_if_it_were_empty_passes(asked: dict[str, Any]) -> None:
    assert decide(spec(resources=asked), fleet(node("small"), node("big", gpus=4))) == {}


@pytest.mark.parametrize(
    "asked",
    [
        pools({"gpus_per_node": 5}),
        pools({"gpus_per_node": 1, "series": "b200"}),
        pools({"cpus": 9}),
        pools({"memory_bytes": 17 << 30}),
        pools({"nodes": 2}),
        pools({}, {}),
    ],
    ids=["GPUs", "series", "CPUs", "memory", "nodes", "pools"],
)
def test_what_no_node_could_ever_hold_is_refused(asked: dict[str, Any]) -> None:
    assert decide(spec(resources=asked), fleet(node("small"), node("big", gpus=4))) == {"topology": ["never_fits"]}


def test_several_nodes_are_counted_where_a_fleet_has_them() -> None:
    cluster = fleet(node("a", gpus=8), node("b", gpus=8), node("c"), name="big", capabilities=MANY_NODES)
    assert decide(spec(resources=pools({"nodes": 2, "gpus_per_node": 8})), cluster) == {}
    assert decide(spec(resources=pools({"nodes": 3, "gpus_per_node": 8})), cluster) == {"topology": ["never_fits"]}


def test_a_fleet_that_does_not_answer_is_a_warning_and_no_refusal() -> None:
    asked = spec(resources=pools({"gpus_per_node": 64}))
    assert list(decide(asked, silent())) == ["warned"]
    assert list(decide(asked, fleet(node("here"), complete=False))) == ["warned"]
    assert list(decide(asked, fleet(node("here"), capabilities=None))) == ["warned"]


def test_gpus_that_are_not_known_are_a_warning_to_those_who_ask_for_some() -> None:
    blind = replace(node("here"), gpus_unknown="nvidia-smi cannot be run")
    one = spec(resources=pools({"gpus_per_node": 1}))
    assert "nvidia-smi cannot be run" in decide(one, fleet(blind))["warned"][0]
    assert decide(spec(resources=pools({"gpus_per_node": 0})), fleet(blind)) == {}
    assert decide(one, fleet(blind, node("big", gpus=1))) == {}
    assert decide(spec(resources=pools({"gpus_per_node": 1, "cpus": 9})), fleet(blind)) == {"topology": ["never_fits"]}
    two = spec(resources=pools({"nodes": 2, "gpus_per_node": 1}))
    both = fleet(blind, node("big", gpus=1), capabilities=MANY_NODES)
    assert list(decide(two, both)) == ["warned"]
    three = spec(resources=pools({"nodes": 3, "gpus_per_node": 1}))
    assert decide(three, both) == {"topology": ["never_fits"]}


def test_a_fleet_that_was_named_must_exist_and_is_the_only_one_asked() -> None:
    able, unable = fleet(node("a", gpus=8), name="able"), fleet(node("b"), name="unable")
    shape = pools({"gpus_per_node": 8})
    assert decide(spec(resources=shape), able, unable) == {}
    assert decide(spec(resources=shape, placement={"fleet": "able"}), able, unable) == {}
    assert decide(spec(resources=shape, placement={"fleet": "unable"}), able, unable) == {"topology": ["never_fits"]}
    assert decide(spec(placement={"fleet": "abel"}), able, unable) == {"topology": ["fleet_unknown"]}


def test_a_job_that_every_backend_would_refuse_is_refused_in_their_words() -> None:
    taking = fleet(node("a"), name="taking")
    refusing = replace(fleet(node("b"), name="refusing"), refusal="spec.entrypoint: too long")
    assert decide(spec(), refusing) == {"backend": ["backend_refuses"]}
    assert decide(spec(placement={"fleet": "refusing"}), taking, refusing) == {"backend": ["backend_refuses"]}
    assert decide(spec(placement={"fleet": "taking"}), taking, refusing) == {}
    assert "too long" in decide(spec(), taking, refusing)["warned"][0]


def test_every_check_is_in_the_record_and_the_digest_covers_them() -> None:
    asked = spec()
    seen = Snapshot(
        catalog=load_catalog(), blob_bytes=18, fleets=(fleet(node("here")),), images=parse_patterns("python:*")
    )
    record = decide_admission(Submission(account=ANN, spec=asked, allow_dirty=False), seen, digest_of(asked), 1.0)
    assert [check.against for check in record.checks if check.gate == "image"] == ["python:*"]
    sealed = seal_record(record, None)
    altered = seal_record(record.model_copy(update={"decided_at": 2.0}), None)
    assert sealed.digest is not None
    assert sealed.digest != altered.digest
