"""Images of a registry: refused before any machine is asked, pinned, and pulled with the login of the console."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.support.console import ConsoleProcess, console_process
from e2e.support.engines import PrivateEngine
from e2e.support.projects import Experiment, make_experiment
from e2e.support.registry import StubRegistry, stub_registry
from starforge.containers.engine import EngineError
from tools.host_image import find_or_build_tar

pytestmark = pytest.mark.engine

FAIL_ONCE = 'test "$FORGE_ATTEMPT_NUMBER" = 1 && exit 3; exit 0'


@pytest.fixture
def registry(machine: PrivateEngine) -> Iterator[StubRegistry]:
    with stub_registry(machine.gateway, find_or_build_tar()) as running:
        yield running


@pytest.fixture
def start(machine: PrivateEngine, folder: Path) -> Iterator[Callable[..., ConsoleProcess]]:
    with ExitStack() as consoles:
        yield lambda **settings: consoles.enter_context(console_process(folder, machine.socket_path, settings))


@pytest.fixture
def console(start: Callable[..., ConsoleProcess], registry: StubRegistry) -> ConsoleProcess:
    return start(FORGE_IMAGE_PLAIN_HTTP=registry.address)


def _make(console: ConsoleProcess, registry: StubRegistry, script: str) -> Experiment:
    return make_experiment(console, registry.image("ok"), script)


@pytest.mark.parametrize(
    ("repository", "code", "words"),
    [
        ("missing", "image_not_found", "NAME_UNKNOWN"),
        ("denied", "image_denied", "DENIED"),
        ("secret", "image_denied", ""),
    ],
)
def test_an_image_that_cannot_be_had_is_refused_before_any_machine_is_asked(
    console: ConsoleProcess, registry: StubRegistry, repository: str, code: str, words: str
) -> None:
    said = _make(console, registry, "exit 0").refused("--image", registry.image(repository))
    assert registry.image(repository) in said
    assert words in said
    assert ("sf admin registry set" in said) == (code == "image_denied")


def test_a_private_image_is_pulled_with_the_consoles_login_and_nobody_sees_it(
    console: ConsoleProcess, registry: StubRegistry, machine: PrivateEngine
) -> None:
    experiment = _make(console, registry, "env; sleep 1")
    console.sf("login", "--server", console.url, typed=console.token("--scopes", "read,submit,admin"))
    console.sf("admin", "registry", "set", registry.address, "--username", "user", typed="pw\n")
    listed = console.sf("admin", "registry", "ls", "--json").stdout
    assert ('"username": "user"' in listed, '"pw"' in listed) == (True, False)
    job = experiment.submit("--image", registry.image("secret"))
    detail = experiment.wait_end(job)
    assert detail["job"]["state"] == "SUCCEEDED"
    digest = detail["image_digest"]
    assert digest.startswith("sha256:")
    assert detail["attempts"][0]["image_digest"] == digest
    assert registry.asked["secret", "manifests"] > 2
    seen = machine.engine.inspect_image(registry.image("secret").rpartition(":")[0] + f"@{digest}")
    assert seen["Id"] == detail["attempts"][0]["image_id"]
    for text in (str(detail), experiment.log(job), console.read_log()):
        assert "dXNlcjpwdw" not in text  # user:pw
        assert "pw" not in text.replace("pwd", "").replace("PWD", "").split()
    console.sf("admin", "registry", "rm", registry.address)
    assert "image_denied" not in experiment.refused("--image", registry.image("secret"))


def test_a_tag_that_moves_changes_no_later_attempt_and_the_next_job_gets_it(
    console: ConsoleProcess, registry: StubRegistry, machine: PrivateEngine
) -> None:
    experiment = _make(console, registry, FAIL_ONCE)
    first = experiment.submit("--retries", "1")
    detail = experiment.wait_end(first)
    assert (detail["job"]["state"], len(detail["attempts"])) == ("SUCCEEDED", 2)
    assert {attempt["image_digest"] for attempt in detail["attempts"]} == {detail["image_digest"]}
    with pytest.raises(EngineError):
        machine.engine.inspect_image(registry.image("ok"))  # what the tag means was never asked of the engine
    registry.manifests["ok"] = registry.manifests["ok"].replace(b": ", b":  ", 1)
    console.restart()  # nothing is remembered
    later = experiment.wait_end(experiment.submit("--retries", "1"))
    assert later["image_digest"] != detail["image_digest"]
    assert {attempt["image_digest"] for attempt in later["attempts"]} == {later["image_digest"]}


def test_without_an_answer_of_its_registry_a_job_runs_by_its_tag_and_then_stays_with_what_ran(
    start: Callable[..., ConsoleProcess], registry: StubRegistry
) -> None:
    console = start(FORGE_IMAGE_TIMEOUT_S="0.2")  # without leave to speak plain HTTP nobody answers
    experiment = _make(console, registry, FAIL_ONCE)
    job = experiment.submit("--retries", "1")
    detail = experiment.wait_end(job)
    assert detail["image_digest"] is None
    assert "could not be asked" in str(detail["admission"]["warnings"])
    assert (detail["job"]["state"], len(detail["attempts"])) == ("SUCCEEDED", 2)
    (digest,) = {attempt["image_digest"] for attempt in detail["attempts"]}
    assert digest is not None
