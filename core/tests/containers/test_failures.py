"""The engine's own sentences, as versions 20.10 and 26.1 say them, and what they mean."""

import pytest

from starforge.containers.engine import EngineError
from starforge.containers.failures import (
    PullTrouble,
    StartTrouble,
    classify_pull,
    classify_start,
    find_init_refusal,
)
from starforge.contract.observation import Failure

OCI = "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "


@pytest.mark.parametrize(
    ("status", "message", "trouble"),
    [
        (400, OCI + 'exec: "bash": executable file not found in $PATH: unknown', StartTrouble.JOB),
        (400, OCI + 'exec: "bash": permission denied: unknown', StartTrouble.JOB),
        (400, "failed to start shim: fork/exec /x/runc: no such file or directory: unknown", StartTrouble.NODE),
        (500, 'could not select device driver "nvidia" with capabilities: [[gpu]]', StartTrouble.NODE),
        (500, OCI + "error running hook #0: exit status 1, stdout: , stderr: unknown device", StartTrouble.NODE),
        (500, "CDI device injection failed: unresolvable CDI devices nvidia.com/gpu=GPU-a", StartTrouble.NODE),
        (500, OCI + "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.4", StartTrouble.JOB),
        (500, OCI + "initialization error: nvml error: driver/library version mismatch", StartTrouble.NODE),
        (400, OCI + 'exec: "nvidia-container-runtime": executable file not found in $PATH', StartTrouble.NODE),
        (400, "unknown or invalid runtime name: nvidia", StartTrouble.NODE),
        (500, "unable to find user nosuch: no matching entries in passwd file", StartTrouble.JOB),
        (500, "mkdir /data/x: no space left on device", StartTrouble.NODE),
        (500, "connection error: desc = ... containerd.sock: connect: connection refused", StartTrouble.NODE),
        (400, 'invalid mount config for type "bind": bind source path does not exist: /p', StartTrouble.NODE),
        (400, "failed to initialize logging driver: open /d/c-json.log: no such file or directory", StartTrouble.NODE),
        (400, "Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available", StartTrouble.REFUSED),
        (400, "invalid reference format", StartTrouble.REFUSED),
        (403, "authorization denied by plugin: no host network", StartTrouble.REFUSED),
        (422, "a sentence that nobody has seen before", StartTrouble.REFUSED),
        (429, "a sentence that nobody has seen before", StartTrouble.NODE),
        (404, "No such image: train:1", StartTrouble.NO_IMAGE),
        (404, "No such container: abc", StartTrouble.GONE),
        (500, "a sentence that nobody has seen before", StartTrouble.NODE),
    ],
)
def test_a_failed_start_is_told_apart_by_its_text(status: int, message: str, trouble: StartTrouble) -> None:
    assert classify_start(EngineError(status, message)).trouble is trouble


@pytest.mark.parametrize(("number", "name"), [(7, "nofile"), (8, "memlock"), (1, "")])
def test_a_refused_limit_is_named(number: int, name: str) -> None:
    fault = classify_start(EngineError(500, OCI + f"error setting rlimit type {number}: operation not permitted"))
    assert (fault.trouble, fault.limit) == (StartTrouble.LIMIT, name)


def test_the_same_code_of_a_missing_bash_and_a_missing_runc_means_two_things() -> None:
    bash = classify_start(EngineError(400, 'exec: "bash": executable file not found in $PATH'))
    runc = classify_start(EngineError(400, "fork/exec /usr/sbin/runc: no such file or directory"))
    assert (bash.failure, runc.failure) == (Failure.START_FAILED, Failure.NODE_FAULT)


@pytest.mark.parametrize(
    ("message", "trouble"),
    [
        ("manifest for r:t not found: manifest unknown: manifest unknown", PullTrouble.DENIED),
        ("unauthorized: authentication required", PullTrouble.DENIED),
        ('Head "https://r/v2/x/manifests/1": no basic auth credentials', PullTrouble.DENIED),
        (
            "pull access denied for r, repository does not exist or may require 'docker login': denied",
            PullTrouble.DENIED,
        ),
        ("denied", PullTrouble.DENIED),
        ("unauthorized", PullTrouble.DENIED),
        ("name unknown", PullTrouble.DENIED),
        ("pull access denied for r: denied: 10.0.0.1 request exceeded pull rate limit", PullTrouble.PASSING),
        ('Get "https://r/v2/": x509: certificate signed by unknown authority', PullTrouble.NODE),
        ('Get "https://r/v2/": http: server gave HTTP response to HTTPS client', PullTrouble.NODE),
        ("no matching manifest for linux/amd64 in the manifest list entries", PullTrouble.DENIED),
        ("invalid reference format", PullTrouble.DENIED),
        ("toomanyrequests: you have reached your pull rate limit", PullTrouble.PASSING),
        ("received unexpected HTTP status: 503 Service Unavailable", PullTrouble.PASSING),
        ('Get "http://r/v2/": dial tcp 10.0.0.1:5000: connect: connection refused', PullTrouble.PASSING),
        ("write /data/tmp/GetImageBlob1: no space left on device", PullTrouble.NODE),
        ("a sentence that nobody has seen before", PullTrouble.PASSING),
    ],
)
def test_a_failed_pull_is_told_apart_by_its_text(message: str, trouble: PullTrouble) -> None:
    assert classify_pull(EngineError(500, message)) is trouble


@pytest.mark.parametrize(
    ("status", "trouble"),
    [(400, PullTrouble.DENIED), (403, PullTrouble.DENIED), (408, PullTrouble.PASSING), (503, PullTrouble.PASSING)],
)
def test_a_pull_that_the_engine_itself_refuses_is_not_tried_again(status: int, trouble: PullTrouble) -> None:
    assert classify_pull(EngineError(status, "a sentence that nobody has seen before")) is trouble


def test_only_an_init_that_said_nothing_else_is_a_failed_start() -> None:
    line = b"[FATAL tini (7)] exec bash failed: No such file or directory\n"
    assert find_init_refusal(line) == "the image has no bash: No such file or directory"
    assert find_init_refusal(b"[FATAL tini (7)] exec bash failed: Permission denied\n").endswith("Permission denied")
    assert find_init_refusal(b"step 1\n" + line) == ""
    assert find_init_refusal(b"") == ""


def test_the_engines_words_are_kept_in_a_length_that_can_be_shown() -> None:
    error = EngineError(500, "toomanyrequests: " + "x" * 1_000_000 + " the end")
    assert len(error.message) <= 8192
    assert error.message.endswith(" the end")
    assert classify_pull(error) is PullTrouble.PASSING
    assert len(str(error)) < 8300
