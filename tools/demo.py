"""`make demo`: an engine, a console and one real training, from an empty folder to a checked result.

Everything lives in a temporary folder and is gone at the end; `KEEP=1` keeps the console up until Ctrl-C.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from e2e.support.console import ConsoleProcess, console_process
from e2e.support.engines import find_obstacle, private_engine
from starforge.containers.engine import Engine
from starforge.errors import StarForgeError
from tools.demo_check import check_run
from tools.host_image import make_image

ROOT: Final = Path(__file__).resolve().parent.parent
PUBLIC_IMAGE: Final = "python:3.12-slim"
HOST_IMAGE: Final = "starforge-demo:1"
HOST_SOCKET: Final = "/var/run/docker.sock"
PULL_S: Final = 60.0
PARENT: Final = "/var/tmp"  # noqa: S108 - the folder made below it has a name that nobody can guess
"""An engine's files are large, and /tmp may be memory."""
PREFIX: Final = "starforge-demo-"
OWNER_FILE: Final = "owner"


def main() -> int:
    """Run the demo; gives the exit code."""
    began = time.monotonic()
    signal.signal(signal.SIGTERM, _leave)
    try:
        with _folder() as folder:
            failed = _run(folder)
    except KeyboardInterrupt:
        print("\ndemo: interrupted; nothing is left running")
        return 130
    except RuntimeError as error:  # an engine or a console that did not start says why
        print(f"demo: FAILED: {error}", file=sys.stderr)
        return 1
    if failed:
        print(f"demo: FAILED: {failed} checks do not hold")
        return 1
    print(f"demo: SUCCEEDED in {time.monotonic() - began:.0f} s")
    return 0


def _run(folder: Path) -> int:
    """Train, check, and keep the console up where that is asked for; gives how many checks do not hold."""
    with _engine(folder) as socket_path:
        image = _find_image(socket_path)
        with console_process(folder, socket_path) as console:
            checked = check_run(console, _train(console, image), socket_path)
            for line in checked:
                print(line.text)
            _keep(console)
    return sum(not line.holds for line in checked)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    """The demo's folder. It is locked while the demo lives; those of demos that were killed are removed."""
    for stale in Path(PARENT).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError), (stale / OWNER_FILE).open("w") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(stale, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=PARENT))
    folder.chmod(0o755)  # the job's user must reach its own folder below
    with (folder / OWNER_FILE).open("w") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _engine(folder: Path) -> Iterator[str]:
    """The socket of this host's engine, or of a private one that ends with the demo."""
    if _answers(HOST_SOCKET):
        _say("using this host's Docker engine")
        yield HOST_SOCKET
        return
    obstacle = find_obstacle()
    if obstacle is not None:
        sys.exit(f"demo: no Docker engine answers on {HOST_SOCKET}, and {obstacle}. Start Docker, or run this as root.")
    _say("starting a private Docker engine")
    with private_engine(folder / "engine") as machine:
        yield machine.socket_path


def _find_image(socket_path: str) -> str:
    """The public image where a registry gives it in time, else one made from this host's own Python."""
    _say(f"asking for {PUBLIC_IMAGE}, for {PULL_S:.0f} s at most")
    if _pull(socket_path):
        return PUBLIC_IMAGE
    _say("no registry gave it: making an image from this host's own Python")
    make_image(socket_path, HOST_IMAGE)
    return HOST_IMAGE


def _train(console: ConsoleProcess, image: str) -> str:
    """Make a project and the iris experiment with `sf`, submit it and follow it; gives the job's id."""
    _sf(console, "init", "flowers")
    project = console.projects / "flowers"
    _sf(console, "new", "iris", "--image", image, cwd=project)
    experiment = project / "experiments" / "iris"
    for file in sorted((ROOT / "examples" / "iris").iterdir()):
        shutil.copy(file, experiment / file.name)
    config = experiment / "config.yaml"
    config.write_text(config.read_text().replace(PUBLIC_IMAGE, image))
    _git(console, project, "add", "-A")
    _git(console, project, "commit", "-q", "-m", "Train on the iris table")
    _sf(console, "validate", "iris", cwd=project)
    _sf(console, "submit", "iris", "--profile", "any:1", "--follow", cwd=project)
    listing = console.get("/api/v1/jobs", console.token())
    job = str(listing["items"][0]["id"])
    if not sys.stdout.isatty():  # on a terminal, following has drawn the curve already
        _sf(console, "job", "show", job, cwd=project)
    return job


def _sf(console: ConsoleProcess, *arguments: str, cwd: Path | None = None) -> None:
    """Show the command and run it, its output going where ours goes."""
    print(f"$ sf {' '.join(arguments)}", flush=True)
    done = subprocess.run(
        ["setpriv", "--pdeathsig", "TERM", "sf", *arguments],  # it ends with the demo, however that ends
        cwd=cwd or console.projects,
        env=console.environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode != 0:
        print(console.read_log()[-2000:], file=sys.stderr)
        sys.exit(f"demo: FAILED: `sf {arguments[0]}` ended with {done.returncode}")


def _git(console: ConsoleProcess, project: Path, *arguments: str) -> None:
    who = ["-c", "user.name=demo", "-c", "user.email=demo@localhost"]
    subprocess.run(["git", *who, *arguments], cwd=project, env=console.environment, check=True)


def _answers(socket_path: str) -> bool:
    try:
        Engine(socket_path).ping()
    except StarForgeError:
        return False
    return True


def _pull(socket_path: str) -> bool:
    command = ["docker", "-H", f"unix://{socket_path}", "pull", "-q", PUBLIC_IMAGE]
    with contextlib.suppress(subprocess.TimeoutExpired, FileNotFoundError):
        return subprocess.run(command, capture_output=True, timeout=PULL_S, check=False).returncode == 0
    return False


def _keep(console: ConsoleProcess) -> None:
    if os.environ.get("KEEP") != "1":
        return
    link = console.admin("init", "--new-link").stdout.strip()
    settings = console.environment["SF_CONFIG_DIR"]
    print(f"the console stays up at {console.url} until Ctrl-C")
    print(f"sign in with this link, once, within an hour: {link}")
    print(f"use it from another shell: export PATH={ROOT}/.venv/bin:$PATH SF_CONFIG_DIR={settings}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        signal.pause()


def _say(text: str) -> None:
    print(f"demo: {text}", flush=True)


def _leave(_number: int, _frame: object) -> None:
    sys.exit(143)  # through the same clean-up as any other end


if __name__ == "__main__":
    sys.exit(main())
