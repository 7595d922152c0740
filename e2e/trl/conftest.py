"""One engine with the frameworks' image, one console and one project for the leg."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.support.console import ConsoleProcess, console_process
from e2e.support.engines import PrivateEngine, find_obstacle, private_engine
from e2e.support.images import framework_image
from e2e.trl.lab import Lab
from tools.framework_image import OLD_TRL, TRL, NotFetched, find_or_build_framework_tar


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateEngine]:
    obstacle = find_obstacle()
    if obstacle is not None:
        pytest.skip(obstacle)
    try:
        find_or_build_framework_tar(TRL)
    except NotFetched as error:
        pytest.skip(str(error))
    with private_engine(tmp_path_factory.mktemp("engine")) as engine:
        yield engine


@pytest.fixture(scope="session")
def image(machine: PrivateEngine) -> str:
    return framework_image(machine, TRL)


@pytest.fixture(scope="session")
def image_with_old_trl(machine: PrivateEngine) -> str:
    return framework_image(machine, OLD_TRL)


@pytest.fixture(scope="session")
def console(machine: PrivateEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    folder = tmp_path_factory.mktemp("console")
    for parent in (folder, *folder.parents[:3]):  # the jobs' user must pass
        parent.chmod(parent.stat().st_mode | 0o055)
    with console_process(folder, machine.socket_path) as running:
        yield running


@pytest.fixture(scope="session")
def material(machine: PrivateEngine, image: str, console: ConsoleProcess) -> Path:
    """The model and the data sets, made by the frameworks of the image, below the console's data root."""
    folder = console.storage / "datasets"
    folder.mkdir(exist_ok=True)
    script = Path(__file__).with_name("make_material.py")
    docker = ["docker", "-H", f"unix://{machine.socket_path}", "run", "--rm", "--network", "none"]
    mounts = ["-v", f"{folder}:/material", "-v", f"{script}:/make_material.py:ro"]
    done = subprocess.run(
        [*docker, *mounts, image, "python3", "/make_material.py", "/material"],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    subprocess.run(["chmod", "-R", "a+rX", folder], check=True)  # weights are written for their owner alone
    return folder


@pytest.fixture(scope="session")
def lab(console: ConsoleProcess, material: Path, image: str) -> Lab:
    console.sf("init", "lab")
    return Lab(console, console.projects / "lab", material, image, console.token())
