"""Replies and ends as engines tell them; those in `replies/` were observed, or composed of what was."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from server.tests.domain.test_exit_reason import RECORD
from starforge_console.cli.main import main

FOLDER = Path(__file__).with_name("replies")
CASES: list[dict[str, Any]] = json.loads((FOLDER / "expected.json").read_text())
CAUSE = "OCI runtime create failed: runc create failed: unable to start container process: "


def call(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(main, ["explain-exit", *arguments], input=given)


def explain(given: str) -> dict[str, Any]:
    done = call("--json", given=given)
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert isinstance(answer, dict)
    return answer


def inspected(**state: object) -> str:
    return json.dumps(
        [{"Id": "x", "State": {"Status": "exited", "ExitCode": 0, "OOMKilled": False, "Error": "", **state}}]
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["file"])
def test_each_reply_is_laid_at_the_right_door(case: dict[str, Any]) -> None:
    answer = explain((FOLDER / case["file"]).read_text())
    assert (answer["fault"], answer["cause"]) == (case["fault"], case["cause"])
    told = f"{answer['summary']}; {answer['advice']}"
    assert [words for words in case["says"] if words not in told] == []


@pytest.mark.parametrize(
    ("words", "fault", "reason"),
    [
        (CAUSE + 'exec: "python": executable file not found in $PATH: unknown', "user_error", "start_failed"),
        (CAUSE + 'exec: "/run.sh": permission denied: unknown', "user_error", "start_failed"),
        (CAUSE + 'exec: "/run.sh": stat /run.sh: no such file or directory: unknown', "user_error", "start_failed"),
        ("exec /run.sh: exec format error", "user_error_or_placement", "start_failed"),
        ("standard_init_linux.go:228: exec user process caused: exec format error", "user_error_or_placement", None),
        (CAUSE + 'chdir to cwd ("/w") set in config.json failed: permission denied', "user_error", "start_failed"),
        (
            "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4, please update your driver",
            "user_error_or_placement",
            None,
        ),
        (
            "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open",
            "node_fault",
            "node_fault",
        ),
        ("nvidia-container-cli: initialization error: driver rpc error: timed out", "node_fault", "node_fault"),
        ("nvidia-container-cli: detection error: nvml error: unknown error", "node_fault", "node_fault"),
        ("Error response from daemon: unknown or invalid runtime name: nvidia", "node_fault", "node_fault"),
        ('fork/exec: exec: "nvidia-container-runtime": executable file not found in $PATH', "node_fault", "node_fault"),
        ("CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=GPU-a", "node_fault", "node_fault"),
        ("device error: GPU-7: unknown device", "retryable_infrastructure", "node_fault"),
        ("dial unix:///run/containerd/containerd.sock: connect: connection refused", "retryable_infrastructure", None),
        ("permission denied while trying to connect to the Docker daemon socket", "node_fault", "node_fault"),
        ("error creating overlay mount to /var/lib/docker: no space left on device", "node_fault", "node_fault"),
        (
            "error while creating mount source path '/mnt/share': mkdir /mnt/share: stale file handle",
            "node_fault",
            None,
        ),
        (
            "driver failed programming external connectivity: Bind for 0.0.0.0:80 failed: port is already allocated",
            "retryable_infrastructure",
            None,
        ),
        (
            "standard_init_linux.go:228: exec user process caused: no such file or directory",
            "user_error",
            "start_failed",
        ),
        ("failed to mount local volume: mount :/x: connection refused", "node_fault", None),
        ("failed to remove root filesystem: device or resource busy", "retryable_infrastructure", None),
        ("schema 1 support is disabled by default", "user_error", "pull_denied"),
        ("unauthorized: authentication required", "user_error", "pull_denied"),
        ("Error: manifest unknown: Tag 3 was deleted or has expired", "user_error", "pull_denied"),
        ("invalid reference format: repository name must be lowercase", "user_error", "pull_denied"),
        ("received unexpected HTTP status: 503 Service Unavailable", "retryable_infrastructure", "node_fault"),
        ("net/http: TLS handshake timeout", "retryable_infrastructure", "node_fault"),
        ("dial tcp: lookup registry.example on 10.0.0.2:53: no such host", "retryable_infrastructure", "node_fault"),
        ("unexpected EOF", "retryable_infrastructure", "node_fault"),
        ("x509: certificate has expired or is not yet valid", "node_fault", "node_fault"),
        ("tls: failed to verify certificate: x509: certificate is valid for a, not b", "node_fault", "node_fault"),
        ("Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available", "user_error_or_placement", None),
        ("a sentence that nobody has seen before", "unknown", None),
    ],
)
def test_words_of_an_engine_are_told_apart_by_their_cause(words: str, fault: str, reason: str | None) -> None:
    for text in (words, json.dumps({"message": words, "exit_code": 125})):
        answer = explain(text)
        assert answer["fault"] == fault
        assert reason is None or answer["reason"] == reason


@pytest.mark.parametrize(
    "words",
    [
        "failed to register layer: " * 100_000 + "\ntoomanyrequests: slow down",
        "toomanyrequests: slow down\n" + "1" * 3_000_000,
    ],
    ids=["at the end", "at the beginning"],
)
def test_words_without_an_end_are_explained_by_their_beginning_and_their_end(words: str) -> None:
    began = time.monotonic()
    assert explain(words)["fault"] == "retryable_infrastructure"
    assert time.monotonic() - began < 10, "with all of them it takes hours"


def test_brackets_without_an_end_are_words_that_nobody_knows() -> None:
    assert explain("[" * 100_000)["fault"] == "unknown"


def test_what_an_image_lacks_is_named() -> None:
    assert explain(CAUSE + 'exec: "python": executable file not found')["summary"] == '"python" is not in the image'
    assert "linux/arm64" in explain("no matching manifest for linux/arm64 in the manifest list entries")["summary"]


@pytest.mark.parametrize("status", ["created", "exited"])
def test_a_container_that_could_not_start_is_explained_by_its_error(status: str) -> None:
    answer = explain(inspected(Status=status, ExitCode=127, Error='exec: "bash": executable file not found in $PATH'))
    assert (answer["reason"], answer["retryable"], answer["evidence"]["exit_code"]) == ("start_failed", False, 127)


@pytest.mark.parametrize(
    ("state", "category", "confidence"),
    [
        ({"ExitCode": 1}, "user_error", "sure"),
        ({"ExitCode": 139}, "user_error", "sure"),
        ({"ExitCode": 137, "OOMKilled": True}, "out_of_memory", "sure"),
        ({"ExitCode": 1, "OOMKilled": True}, "out_of_memory", "likely"),
        ({"ExitCode": 137}, "unknown", "unknown"),
        ({"ExitCode": 143}, "unknown", "unknown"),
        ({"ExitCode": 255, "FinishedAt": "2026-03-02T10:14:22Z"}, "unknown", "unknown"),
        ({"ExitCode": 0, "OOMKilled": True}, "none", "likely"),
        ({"Status": "running", "Running": True}, "none", "sure"),
        ({"Status": "paused"}, "none", "sure"),
    ],
)
def test_an_inspected_container_alone_says_what_it_can_and_no_more(
    state: dict[str, object], category: str, confidence: str
) -> None:
    answer = explain(inspected(**state))
    assert (answer["category"], answer["confidence"]) == (category, confidence)


def test_evidence_of_ours_is_decided_as_the_scheduler_would() -> None:
    engine = {"code": 137, "started_at": 99.0, "finished_at": 160.0, "engine_started_at": 10.0}
    stopped = explain(json.dumps({"engine": engine, "record": None, "desired": "stop", "stop_sent": True}))
    assert (stopped["fault"], stopped["reason"], stopped["retryable"]) == ("stopped", "stop_confirmed", False)
    lost = {"code": 255, "finished_at": 160.0, "engine_started_at": 160.0}
    interrupted = explain(json.dumps({"engine": lost, "record": None}))
    assert (interrupted["reason"], interrupted["retryable"], interrupted["costs_retry"]) == ("interrupted", True, False)
    good = {"engine": {"code": 0}, "record": dataclasses.asdict(RECORD)}
    assert explain(json.dumps(good))["reason"] == "exited_zero"
    assert explain(json.dumps({"engine": {"code": 0}, "record": None}))["reason"] == "interrupted"
    assert explain(json.dumps({"exit_code": 3}))["reason"] == "exited_nonzero"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("", "standard input is empty"),
        ("[1, 2]", "no evidence"),
        ('{"exitcode": 1}', "exitcode"),
        ('{"desired": "stop"}', "says nothing of an end"),
        ('{"message": " "}', "says nothing of an end"),
        ('""', "says nothing of an end"),
        ('{"record": {"code": 1}}', "lacks its member"),
    ],
)
def test_what_is_no_evidence_is_refused_with_what_is(given: str, words: str) -> None:
    done = CliRunner().invoke(main, ["explain-exit", "--json"], input=given)
    assert done.exit_code == 2
    assert words in json.loads(done.stdout)["error"]["what"]


def test_several_files_are_explained_one_by_one_also_for_people(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.json"
    first.write_text("toomanyrequests: slow down")
    second.write_text(inspected(ExitCode=3))
    listed = json.loads(call("--json", str(first), str(second)).stdout)
    assert [(one["file"], one["fault"]) for one in listed] == [
        (str(first), "retryable_infrastructure"),
        (str(second), "user_error"),
    ]
    told = call(str(first), str(second)).stdout
    assert f"{first}:" in told
    assert "then:    the job runs again\n" in told
    missing = call(str(tmp_path / "c"))
    assert missing.exit_code == 2
    assert "cannot be read" in missing.stderr
