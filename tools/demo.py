"""`make demo`: an engine, a console and one real training, from an empty folder to a checked result.

`FLEET=node` trains on a machine that joins a fleet instead. Everything lives in a temporary folder and is gone at the
end; `KEEP=1` keeps the console up until Ctrl-C.
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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from e2e.support.console import ConsoleProcess
from tools.demo_check import check_run
from tools.demo_stage import PUBLIC_IMAGE, STAGES, Stage, find_image, run_sf
from tools.host_image import make_image

ROOT: Final = Path(__file__).resolve().parent.parent
HOST_IMAGE: Final = "starforge-demo:1"
PARENT: Final = "/var/tmp"  # noqa: S108 - the folder made below it has a name that nobody can guess
"""An engine's files are large, and /tmp may be memory."""
PREFIX: Final = "starforge-demo-"
OWNER_FILE: Final = "owner"


def main() -> int:
    """Run the demo; gives the exit code."""
    began, wanted = time.monotonic(), os.environ.get("FLEET") or "local"
    stage = STAGES.get(wanted)
    if stage is None:
        sys.exit(f"demo: there is no FLEET={wanted}; choose {' or '.join(STAGES)}")
    signal.signal(signal.SIGTERM, _leave)
    try:
        with _folder() as folder:
            failed = _run(folder, stage)
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


def _run(folder: Path, stage: Callable[[Path], AbstractContextManager[Stage]]) -> int:
    """Train, check, and keep the console up where that is asked for; gives how many checks do not hold."""
    with stage(folder) as there:
        image = find_image(there.socket_path, _make_image)
        job = _train(there.console, there.fleet, image)
        checked = check_run(there.console, job, there.socket_path)
        for line in checked:
            print(line.text)
        _keep(there.console)
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


def _make_image(socket_path: str) -> str:
    make_image(socket_path, HOST_IMAGE)
    return HOST_IMAGE


def _train(console: ConsoleProcess, fleet: str, image: str) -> str:
    """Make a project and the iris experiment with `sf`, submit it and follow it; gives the job's id."""
    run_sf(console, "init", "flowers")
    project = console.projects / "flowers"
    run_sf(console, "new", "iris", "--image", image, cwd=project)
    experiment = project / "experiments" / "iris"
    for file in sorted((ROOT / "examples" / "iris").iterdir()):
        shutil.copy(file, experiment / file.name)
    config = experiment / "config.yaml"
    config.write_text(config.read_text().replace(PUBLIC_IMAGE, image))
    _git(console, project, "add", "-A")
    _git(console, project, "commit", "-q", "-m", "Train on the iris table")
    run_sf(console, "validate", "iris", cwd=project)
    run_sf(console, "submit", "iris", "--fleet", fleet, "--profile", "any:1", "--follow", cwd=project)
    listing = console.get("/api/v1/jobs", console.token())
    job = str(listing["items"][0]["id"])
    if not sys.stdout.isatty():  # on a terminal, following has drawn the curve already
        run_sf(console, "job", "show", job, cwd=project)
    return job


def _git(console: ConsoleProcess, project: Path, *arguments: str) -> None:
    who = ["-c", "user.name=demo", "-c", "user.email=demo@localhost"]
    subprocess.run(["git", *who, *arguments], cwd=project, env=console.environment, check=True)


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


def _leave(_number: int, _frame: object) -> None:
    sys.exit(143)  # through the same clean-up as any other end


if __name__ == "__main__":
    sys.exit(main())
