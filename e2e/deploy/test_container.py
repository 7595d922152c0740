"""The console as a container: built from a base made here, run as the pages say, with a job through a restart."""

import importlib.metadata
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.deployed import REPOSITORY
from e2e.support.engines import PrivateEngine
from e2e.support.images import HOST_IMAGE, import_tar, list_libraries
from e2e.support.projects import make_experiment
from e2e.support.steps import load_steps
from tools.host_image import find_or_build_tar, for_everybody, load_host_python

pytestmark = [
    pytest.mark.engine,
    pytest.mark.timeout(600),
    pytest.mark.allow_hosts(["127.0.0.1", "10.213.0.0/16"]),
]

BASE = "starforge-test/python-base:1"
HELD = 'touch "$FORGE_OUT_DIR/waiting"; until [ -e "$FORGE_OUT_DIR/release" ]; do sleep 0.1; done'


def list_needed(name: str, extra: str, found: dict[str, importlib.metadata.Distribution]) -> None:
    """Add to `found` what the distribution needs at run time, and what that needs."""
    for text in importlib.metadata.requires(name) or []:
        needed = Requirement(text)
        if needed.marker is not None and not needed.marker.evaluate({"extra": extra}):
            continue
        if needed.name not in found:
            found[needed.name] = importlib.metadata.distribution(needed.name)
            for wanted in ("", *needed.extras):
                list_needed(needed.name, wanted, found)


@pytest.fixture(scope="module")
def base(host: PrivateEngine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image with this machine's Python, and with the third-party packages that no index gives here."""
    major, minor = load_host_python().version
    found: dict[str, importlib.metadata.Distribution] = {}
    for name in ("starforge-console", "starforge-core", "starforge-forgelet"):
        for extra in ("", "containers", "trust"):
            list_needed(name, extra, found)
    path = Path(shutil.copy(find_or_build_tar(), tmp_path_factory.mktemp("base") / "base.tar"))
    with tarfile.open(path, "a") as tar:
        present = set(tar.getnames())  # engines refuse a name that comes twice
        for source, target in _list_files(found, f"usr/local/lib/python{major}.{minor}/dist-packages"):
            if target not in present:
                present.add(target)
                tar.add(source, target, filter=for_everybody)
    return import_tar(
        host, path, BASE, "ENV PATH=/usr/local/bin:/usr/bin:/bin", "ENV PIP_NO_INDEX=1 PIP_BREAK_SYSTEM_PACKAGES=1"
    )


def _list_files(found: Mapping[str, importlib.metadata.Distribution], folder: str) -> Iterator[tuple[Path, str]]:
    """Each file of these distributions, and each library that one of them loads, with its place in the image."""
    for name, distribution in found.items():
        for file in distribution.files or [] if not name.startswith("starforge") else []:
            place = Path(str(distribution.locate_file(file)))
            if ".." in file.parts or not place.is_file():
                continue
            yield place, f"{folder}/{file}"
            for library in list_libraries(place) if place.suffix == ".so" else []:
                yield library.resolve(), str(library).lstrip("/")


@pytest.fixture
def docker(host: PrivateEngine) -> Iterator["Docker"]:
    yield Docker(host)
    host.remove_containers()


class Docker:
    """The client, inside of the machine that the engine is on."""

    def __init__(self, host: PrivateEngine) -> None:
        self._host = host

    def shell(self, script: str, folder: Path) -> str:
        setting = f"DOCKER_HOST=unix://{self._host.socket_path} DOCKER_BUILDKIT=0"
        argv = [
            *self._host.entering(),
            "env",
            *setting.split(),
            f"DOCKER_CONFIG={folder}",
            "bash",
            "-euc",
            f"cd {folder}; {script}",
        ]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
        return done.stdout


class ContainerConsole(ConsoleProcess):
    """`sf` of this host for a console that runs in a container."""

    def __init__(self, folder: Path, storage: Path, url: str, docker: Docker) -> None:
        super().__init__(folder, "/nonexistent.sock")
        self.url, self.storage, self._docker = url, storage, docker
        wait_for(self.is_ready, "the console to answer")
        self.sf("login", "--server", url, typed=self.token())

    def token(self, *options: str) -> str:
        words = " ".join(options)
        line = f"docker exec starforge-console starforge-console token create --user ada {words}"
        return self._docker.shell(line, self.folder).strip()

    def read_log(self) -> str:
        return self._docker.shell("docker logs starforge-console 2>&1", self.folder)


def test_it_is_built_run_and_restarted_while_a_job_goes_on(
    host: PrivateEngine, docker: Docker, base: str, wheels: Path, tmp_path: Path
) -> None:
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)  # the job's user has to pass
    context = tmp_path / "clone"
    shutil.copytree(wheels, context / "dist")
    for name in ("Containerfile", ".dockerignore"):
        shutil.copy(REPOSITORY / name, context)
    docker.shell(f"docker build --build-arg BASE={base} -f Containerfile -t starforge-console:1 .", context)

    storage, state, settings = tmp_path / "storage", tmp_path / "state", tmp_path / "console.env"
    url = f"http://{host.address}:7080"
    settings.write_text(
        f"FORGE_STORAGE_ROOT={storage}\nFORGE_GPU_RUNTIME=none\nFORGE_JOB_UID=12345\nFORGE_JOB_GID=12345\n"
        f"FORGE_LISTEN=0.0.0.0:7080\nFORGE_PUBLIC_URL={url}\nFORGE_INGEST_URL=http://10.214.{host.slot}.1:7081\n"
        "FORGE_RECONCILE_S=2\n"
    )
    (step,) = load_steps("install.md", "container")
    state.mkdir(mode=0o700)
    for path, own in {
        "/etc/starforge/console.env": settings,
        "-v /var/run/docker.sock:": f"-v {host.socket_path}:",
        "-v /var/lib/starforge:": f"-v {state}:",
        "-v /srv/starforge:/srv/starforge": f"-v {storage}:{storage}",
    }.items():
        assert path in step
        step = step.replace(path, str(own))
    assert f"{url}/signin/" in docker.shell(step, tmp_path)

    console = ContainerConsole(tmp_path / "client", storage, url, docker)
    experiment = make_experiment(console, HOST_IMAGE, HELD)
    job = experiment.submit()
    experiment.wait_state(job, "RUNNING")
    out = storage / "runs" / job / "out"
    wait_for((out / "waiting").exists, "the job's script to wait")
    docker.shell("docker restart starforge-console", tmp_path)
    wait_for(console.is_ready, "the console to answer again")
    assert experiment.state(job) == "RUNNING"
    (out / "release").touch()
    ended = experiment.wait_end(job)
    assert (ended["job"]["state"], len(ended["attempts"])) == ("SUCCEEDED", 1)
    docker.shell("docker rm -f starforge-console", tmp_path)
