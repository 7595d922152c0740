"""The JobSpec: strict, frozen, and with one digest on every machine."""

import copy
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from starforge.contract.canonical import Json, canonical_json, digest_json
from starforge.contract.environment import Binding, spec_to_env
from starforge.contract.ids import (
    AttemptId,
    Digest,
    JobId,
    job_of,
    new_attempt_id,
    new_job_id,
    number_of,
    parse_attempt_id,
    parse_digest,
)
from starforge.contract.jobspec import SETTINGS_AT_MOST, JobSpec, digest_of, parse_jobspec
from starforge.errors import SpecError

SPEC: dict[str, Any] = {
    "apiVersion": "forge/v2",
    "kind": "TrainingJob",
    "metadata": {"name": "iris", "project": "demo"},
    "spec": {
        "recipe": {"name": "custom/custom", "version": "1.0", "digest": "sha256:" + "1" * 64},
        "framework": {"kind": "custom", "image": "registry.corp/train:1"},
        "resources": {"pools": [{"gpus_per_node": 2, "series": "h200"}], "roles": {"trainer": "main"}},
        "hyperparameters": {"learning_rate": 1e-05, "epochs": 3},
        "entry": {"kind": "experiment", "value": "experiments/iris"},
        "workspace": {"digest": "sha256:" + "2" * 64, "bytes": 1024, "files": 3},
        "lifecycle": {"max_runtime_s": 3600},
    },
}
DIGEST = "sha256:6d4de6737fdc816cc603b7ecf12cbaaa1ef3994a1f3bb726f9629dca6d738389"


def changed(path: str, value: object) -> dict[str, Any]:
    spec = copy.deepcopy(SPEC)
    *parents, last = path.split(".")
    at = spec
    for name in parents:
        at = at[name]
    at[last] = value
    return spec


def test_the_digest_is_the_one_that_every_release_gives() -> None:
    assert digest_of(parse_jobspec(SPEC)) == DIGEST


def test_the_digest_does_not_depend_on_order_or_spelt_out_defaults() -> None:
    shuffled = json.loads(json.dumps(SPEC, sort_keys=True))
    spelt_out = changed("spec.placement", {"priority": "normal", "fleet": None})
    first = digest_of(parse_jobspec(SPEC))
    assert digest_of(parse_jobspec(shuffled)) == first
    assert digest_of(parse_jobspec(spelt_out)) == first
    assert digest_of(parse_jobspec(changed("spec.hyperparameters.epochs", 4))) != first


def test_the_digest_is_the_same_in_another_process_with_other_surroundings() -> None:
    script = "import json, sys; from starforge.contract.jobspec import digest_of, parse_jobspec;"
    script += "print(digest_of(parse_jobspec(json.load(sys.stdin))))"
    surroundings = os.environ | {"PYTHONHASHSEED": "7", "LC_ALL": "C", "TZ": "Asia/Tokyo"}
    answer = subprocess.run(
        [sys.executable, "-c", script],
        input=json.dumps(SPEC),
        capture_output=True,
        text=True,
        check=True,
        env=surroundings,
        umask=0o077,
    )
    assert answer.stdout.strip() == digest_of(parse_jobspec(SPEC))


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("spec.colour", "red", "spec.colour"),
        ("spec.entry.value", "../outside", "inside the workspace"),
        ("spec.entry.value", "/etc/passwd", "inside the workspace"),
        ("spec.resources.roles", {"trainer": "other"}, "names pool 'other'"),
        ("spec.resources.pools", [], "at least 1"),
        ("spec.resources.pools", [{"gpus_per_node": 1}, {"gpus_per_node": 1}], "share a name"),
        ("spec.workspace.digest", "sha256:xyz", "workspace.digest"),
        ("spec.lifecycle.retries", -1, "retries"),
        ("spec.lifecycle.max_runtime_s", 5e-324, "max_runtime_s"),
        ("spec.lifecycle.max_runtime_s", 0.999, "max_runtime_s"),
        ("spec.hyperparameters", {"\ud800": 1}, "half of a surrogate pair"),
        ("spec.hyperparameters", {"deep": [{"x\udfff": 1}]}, "half of a surrogate pair"),
        ("spec.hyperparameters", {"deep": [{"x": "\ud800"}]}, "half of a surrogate pair"),
        ("spec.hyperparameters", {"deep": [{"x": "a\0"}]}, "NUL"),
        ("spec.hyperparameters", {"a\0": 1}, "NUL"),
        ("spec.model", "a\0b", "NUL"),
        ("spec.data", {"train": "/data/\0"}, "NUL"),
        ("spec.init_from", "run/jabcdefgh2/checkpoint@step=" + "9" * 5000, "init_from"),
        ("metadata.labels", {"\ud800": "x"}, "labels"),
        ("metadata.labels", {"x": "\ud800"}, "labels"),
        ("metadata.name", "Iris!", "metadata.name"),
        ("apiVersion", "forge/v3", "apiVersion"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(path: str, value: object, told: str) -> None:
    with pytest.raises(SpecError, match="fault") as refused:
        parse_jobspec(changed(path, value))
    assert told in refused.value.why


def test_names_and_texts_outside_of_the_first_plane_are_taken_as_they_are() -> None:
    spec = parse_jobspec(changed("spec.hyperparameters", {"\U0001f600": ["\U00010000", "\ue000", "é"]}))
    assert spec.spec.hyperparameters == {"\U0001f600": ["\U00010000", "\ue000", "é"]}


def test_every_fault_is_told_at_once() -> None:
    spec = changed("spec.colour", "red")
    spec["metadata"]["name"] = "Iris!"
    with pytest.raises(SpecError) as refused:
        parse_jobspec(spec)
    assert "colour" in refused.value.why
    assert "metadata.name" in refused.value.why


def test_a_refused_value_is_not_repeated_in_the_message() -> None:
    with pytest.raises(SpecError) as refused:
        parse_jobspec(changed("spec.framework.image", ["hunter2-is-a-secret"]))
    assert "hunter2" not in str(refused.value)


def test_a_spec_cannot_be_changed() -> None:
    spec = parse_jobspec(SPEC)
    with pytest.raises(ValueError, match="frozen"):
        spec.metadata.name = "other"  # type: ignore[misc]  # the fact under test


def test_the_schema_names_every_member() -> None:
    schema = JobSpec.model_json_schema(by_alias=True)
    assert schema["properties"]["apiVersion"]["const"] == "forge/v2"
    assert schema["additionalProperties"] is False
    assert set(schema["$defs"]["Spec"]["properties"]) == set(type(parse_jobspec(SPEC).spec).model_fields)


def test_canonical_json_has_one_form() -> None:
    value: Json = {"b": [1, 2.5, None], "a": {"y": None, "x": "é"}, "c": 1e-05, "d": True}
    assert canonical_json(value).decode() == '{"a":{"x":"é"},"b":[1,2.5,null],"c":1e-05,"d":true}'


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800"])
def test_what_json_cannot_carry_is_refused(value: float | str) -> None:
    with pytest.raises(SpecError):
        canonical_json({"x": value})


def test_deep_nesting_is_refused_before_it_exhausts_the_stack() -> None:
    value: Any = 1
    for _ in range(5000):
        value = [value]
    with pytest.raises(SpecError, match="nested deeper"):
        digest_json(value)


def test_the_environment_of_a_job_is_this_and_nothing_else() -> None:
    binding = Binding(
        job=JobId("j234567abc"),
        attempt=AttemptId("j234567abc-2-abcdef"),
        number=2,
        fleet="local",
        attempt_dir="/srv/runs/j234567abc/attempts/2",
        out_dir="/srv/runs/j234567abc/out",
        model_cache_dir="/srv/cache/hf",
        capsule_digest=Digest("sha256:" + "3" * 64),
    )
    assert spec_to_env(parse_jobspec(SPEC), binding) == {
        "HOME": "/srv/runs/j234567abc/attempts/2/home",
        "XDG_CACHE_HOME": "/srv/runs/j234567abc/attempts/2/home/.cache",
        "TORCHINDUCTOR_CACHE_DIR": "/srv/runs/j234567abc/attempts/2/home/.cache/torchinductor",
        "TRITON_CACHE_DIR": "/srv/runs/j234567abc/attempts/2/home/.cache/triton",
        "USER": "forge",
        "LOGNAME": "forge",
        "HF_HOME": "/srv/cache/hf",
        "PYTHONUNBUFFERED": "1",
        "FORGE_JOB": "j234567abc",
        "FORGE_ATTEMPT": "j234567abc-2-abcdef",
        "FORGE_ATTEMPT_NUMBER": "2",
        "FORGE_PROJECT": "demo",
        "FORGE_EXPERIMENT": "iris",
        "FORGE_FLEET": "local",
        "FORGE_RECIPE": "custom/custom",
        "FORGE_GPUS": "2",
        "FORGE_OUT_DIR": "/srv/runs/j234567abc/out",
        "FORGE_CKPT_DIR": "/srv/runs/j234567abc/attempts/2/ckpt",
        "FORGE_CAPSULE_DIGEST": "sha256:" + "3" * 64,
    }


def test_a_job_that_reads_the_hub_reads_it_offline() -> None:
    binding = Binding(
        job=JobId("j"),
        attempt=AttemptId("j-1-a"),
        number=1,
        fleet="f",
        attempt_dir="/a",
        out_dir="/o",
        model_cache_dir="/c",
        capsule_digest=Digest("sha256:x"),
    )
    spec = parse_jobspec(changed("spec.model", "hf://owner/name@main"))
    assert spec_to_env(spec, binding)["HF_HUB_OFFLINE"] == "1"


def test_ids_name_their_job_and_number() -> None:
    job = new_job_id()
    attempt = new_attempt_id(job, 12)
    assert parse_attempt_id(attempt) == attempt
    assert (job_of(attempt), number_of(attempt)) == (job, 12)


@pytest.mark.parametrize("text", ["", "x234567abc", "j234567ab1", "j234567abc-1", "../j234567abc"])
def test_what_is_no_id_is_refused(text: str) -> None:
    for parse in (parse_attempt_id, parse_digest):
        with pytest.raises(SpecError):
            parse(text)


@pytest.mark.parametrize(
    "values",
    [
        {f"name_{number}": number for number in range(SETTINGS_AT_MOST + 1)},
        {"extra": {"deep": {str(number): None for number in range(SETTINGS_AT_MOST)}}},
        {"files": list(range(SETTINGS_AT_MOST))},
    ],
)
def test_more_hyperparameters_than_anybody_means_are_refused_with_their_number(values: dict[str, Any]) -> None:
    spec = copy.deepcopy(SPEC)
    spec["spec"]["hyperparameters"] = values
    with pytest.raises(SpecError, match=r"hyperparameters: holds 1000\d values, the most is 10000"):
        parse_jobspec(spec)
    spec["spec"]["hyperparameters"] = {"files": list(range(SETTINGS_AT_MOST - 1))}
    assert parse_jobspec(spec).spec.hyperparameters["files"]
