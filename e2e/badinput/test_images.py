"""Images in which nothing of ours can start, or that bring their own ideas of how: each fails in words, or runs."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.badinput.yard import Yard
from e2e.support.engines import PrivateEngine
from e2e.support.images import image_with, image_with_python, image_without_bash, image_without_python
from e2e.support.registry import stub_registry
from tools.host_image import Contents, find_or_build_tar

pytestmark = pytest.mark.engine

PYENV: Final = Path.home() / ".pyenv" / "versions"
OLD_PYTHONS: Final = {
    version: path for version in ("2.7", "3.6", "3.7") for path in PYENV.glob(f"{version}.*/bin/python{version}")
}
"""Those of this machine, if any: no distribution has them any more."""


@pytest.fixture(scope="module")
def settings() -> dict[str, str]:
    return {"FORGE_IMAGE_ALLOW": "starforge-test/host:1 starforge-test/*:* */arm:1"}


def fail(yard: Yard, image: str) -> tuple[Any, str]:
    """Run a job in `image`, which must fail to start; gives what is said of it, by the console and by `sf`."""
    job, detail = yard.run("exit 0", "--image", image)
    assert detail["job"]["state"] == "FAILED"
    assert len(detail["attempts"]) == 1
    return detail, yard.console.sf("job", "show", job, cwd=yard.probe.project).stdout


@contextmanager
def jobs_run_as(yard: Yard, user: str | None) -> Iterator[None]:
    """The console while its fleet's jobs run as `user`."""
    _set_user(yard, user)
    try:
        yield
    finally:
        _set_user(yard, None)


def _set_user(yard: Yard, user: str | None) -> None:
    yard.console.stop()
    with closing(sqlite3.connect(yard.console.folder / "state" / "ledger.db")) as ledger, ledger:
        assert ledger.execute("UPDATE fleets SET user = ?", (user,)).rowcount == 1
    yard.console.start()


def test_an_image_without_bash_is_named_as_that(yard: Yard, machine: PrivateEngine) -> None:
    detail, shown = fail(yard, image_without_bash(machine))
    assert detail["job"]["reason"] == "start_failed"
    assert "no bash" in detail["job"]["note"]
    assert "no bash" in shown


@pytest.mark.parametrize("version", ["none", *OLD_PYTHONS])
def test_an_image_without_a_python_that_fits_is_named_as_that(
    yard: Yard, machine: PrivateEngine, tmp_path: Path, version: str
) -> None:
    if version == "none":
        image = image_without_python(machine)
    else:
        image = image_with_python(machine, OLD_PYTHONS[version], tmp_path)
    detail, shown = fail(yard, image)
    assert detail["job"]["reason"] == "start_failed"
    assert detail["attempts"][0]["exit_code"] == 98
    assert "Python" in detail["job"]["note"]
    assert "3.8" in shown
    log = yard.probe.log(detail["job"]["id"])
    assert log.startswith("starforge: the runner needs Python 3.8 or newer; this image has ")
    assert log.count("\n") == 1
    assert log.strip() in shown


def test_what_an_image_says_of_how_to_start_it_is_not_asked(yard: Yard, machine: PrivateEngine) -> None:
    stubborn = image_with(
        machine,
        "starforge-test/stubborn:1",
        'ENTRYPOINT ["/bin/false"]',
        'CMD ["--nonsense"]',
        "HEALTHCHECK --interval=1s --retries=1 CMD false",
        "WORKDIR /nowhere",
        "USER nobody",
        "VOLUME /tmp",
        "ENV PYTHONHOME=/nowhere",
    )
    script = "echo here; id -u; sleep 3; echo there"
    job, detail = yard.run(script, "--image", stubborn)
    assert detail["job"]["state"] == "SUCCEEDED"
    assert yard.probe.log(job) == "here\n12345\nthere\n"


def test_an_image_whose_user_nobody_knows_is_named_as_that_where_jobs_run_as_the_images_user(
    yard: Yard, machine: PrivateEngine
) -> None:
    unknown = image_with(machine, "starforge-test/unknown-user:1", "USER ghost")
    with jobs_run_as(yard, "image"):
        detail, shown = fail(yard, unknown)
        job, sound = yard.run("id -u", "--image", "starforge-test/host:1")
        assert sound["job"]["state"] == "SUCCEEDED"
        assert yard.probe.log(job) == "0\n"
    for words in ("'ghost'", "FORGE_JOB_UID", "USER as a number"):
        assert words in detail["job"]["note"]
    assert "'ghost'" in shown


def test_an_image_for_another_processor_is_named_as_that(yard: Yard, machine: PrivateEngine) -> None:
    with stub_registry(machine.gateway, find_or_build_tar(Contents(python=False))) as registry:
        detail, _ = fail(yard, registry.image("arm"))
    assert "arm" in detail["job"]["note"]


@pytest.mark.parametrize(
    ("reference", "nearest"),
    [
        ("starforge-tests/host:1", "starforge-test/host:1"),
        ("evil.example/starforge-test/host:1", "starforge-test/host:1"),
    ],
)
def test_an_image_that_is_not_allowed_is_refused_with_the_nearest_that_is(
    unharmed: Yard, reference: str, nearest: str
) -> None:
    said = unharmed.probe.refused("--image", reference)
    assert reference in said
    assert nearest in said


@pytest.mark.parametrize(
    "reference",
    ["UPPER/case:1", "two words:1", "a:b:c", "../x", "http://host/x", "x@sha256:zz", "x:", "x/", "\N{PILE OF POO}"],
)
def test_a_reference_that_names_no_image_is_refused_where_it_was_written(unharmed: Yard, reference: str) -> None:
    said = unharmed.probe.refused("--image", reference)
    assert "image" in said
    assert reference in said
