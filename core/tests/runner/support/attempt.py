"""An attempt laid out as the console does it, and its container: a process in the attempt's directory."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from starforge.contract import capsule as contract
from starforge.runner.archive import build_runner, load_bootstrap

ATTEMPT = "j0123456789-1-abcdef"
_OLDEST = (3, 8)


@cache
def find_interpreters() -> tuple[str, ...]:
    """Every Python from 3.8 on that is installed here, one of each minor version, the tests' own among them."""
    found = {sys.version_info[:2]: sys.executable}
    for program in _list_programs():
        version = _find_version(program)
        if version is not None and version >= _OLDEST:
            found.setdefault(version, program)
    return tuple(found[version] for version in sorted(found))


@cache
def find_old_interpreters() -> tuple[str, ...]:
    """Every Python before 3.8 that is installed here."""
    programs = ((program, _find_version(program)) for program in _list_programs())
    return tuple(program for program, version in programs if version is not None and version < _OLDEST)


def _list_programs() -> list[str]:
    directories = [Path(entry) for entry in os.environ.get("PATH", "").split(os.pathsep) if entry]
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    directories += sorted((root / "versions").glob("*/bin")) if root.is_dir() else []
    names = [f"python3.{minor}" for minor in range(5, 20)] + ["python2.7"]
    # A shim of pyenv is no interpreter: it answers only for the version that is switched on.
    programs = [str(d / name) for d in directories if d.name != "shims" for name in names if (d / name).is_file()]
    # Last, so that it stands in for a version only where CPython's own is missing.
    pypy = shutil.which("pypy3")
    return programs if pypy is None else [*programs, pypy]


def _find_version(program: str) -> tuple[int, int] | None:
    code = "import sys; print('%d %d' % sys.version_info[:2])"
    ran = subprocess.run([program, "-S", "-E", "-c", code], capture_output=True, text=True, check=False, timeout=20)
    if ran.returncode != 0:
        return None
    major, minor = ran.stdout.split()
    return int(major), int(minor)


def find_owner_prefix() -> tuple[str, ...]:
    """What starts a program to which the permissions of files apply, also where the tests run as root."""
    return ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


class Attempt:
    """One attempt's directory. `start` and `run` are what a container would do."""

    def __init__(self, root: Path, runner: Path | None = None) -> None:
        self.root = root
        self.secrets = root.parent / f"{root.name}-secrets"
        self.capsule = root / contract.CAPSULE_MOUNT
        self.capsule.mkdir(parents=True)
        self.secrets.mkdir()
        (self.capsule / contract.BOOTSTRAP_FILE).write_text(load_bootstrap())
        target = self.capsule / contract.RUNNER_FILE
        if runner is None:
            build_runner(target)
        else:
            shutil.copyfile(runner, target)
        self.digest = ""
        self.environment: dict[str, str] = {}
        self.prefix: tuple[str, ...] = ()
        self.started: list[subprocess.Popen[bytes]] = []

    def prepare(self, *argv: str, plan: contract.Plan | None = None, **members: Any) -> "Attempt":
        """Write the capsule: the job runs `argv`; `plan` and `members` say what else differs."""
        plan = replace(plan, argv=argv) if plan is not None else contract.Plan(argv=argv)
        capsule = contract.Capsule(
            version=contract.CAPSULE_VERSION,
            job="j0123456789",
            attempt=ATTEMPT,
            number=1,
            node_count=1,
            spec={"spec": {"hyperparameters": {"lr": 0.1}}},
            plan=plan,
        )
        text = json.dumps(replace(capsule, **members).to_json())
        (self.capsule / contract.CAPSULE_FILE).write_text(text)
        names = (contract.BOOTSTRAP_FILE, contract.CAPSULE_FILE, contract.RUNNER_FILE)
        sums = "".join(f"{hash_of(self.capsule / name)}  {name}\n" for name in names)
        (self.capsule / contract.SUMS_FILE).write_text(sums)
        self.digest = hash_of(self.capsule / contract.SUMS_FILE)
        return self

    def python(self, code: str, interpreter: str = sys.executable, **members: Any) -> "Attempt":
        """Write a capsule whose job is this Python program."""
        return self.prepare(interpreter, "-c", code, **members)

    def secret(self, name: str, value: str) -> "Attempt":
        """Give the run a secret."""
        (self.secrets / name).write_text(value)
        return self

    def start(self, interpreter: str = sys.executable, stdout: int = subprocess.PIPE) -> "subprocess.Popen[bytes]":
        """Start the bootstrap as an engine does."""
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.root),
            contract.ENV_PYTHON: interpreter,
            contract.ENV_CAPSULE_DIGEST: self.digest,
            contract.ENV_ATTEMPT: ATTEMPT,
            contract.ENV_SECRETS_DIR: str(self.secrets),
            contract.ENV_OUT_DIR: str(self.root / "out"),
        }
        environment.update(self.environment)
        command = [*self.prefix, "bash", f"{contract.CAPSULE_MOUNT}/{contract.BOOTSTRAP_FILE}"]
        process = subprocess.Popen(command, cwd=self.root, env=environment, stdout=stdout, stderr=subprocess.PIPE)
        self.started.append(process)
        return process

    def run(self, interpreter: str = sys.executable, timeout_s: float = 60) -> int:
        """Run to the end; give the exit code."""
        process = self.start(interpreter)
        self.stdout, self.stderr = process.communicate(timeout=timeout_s)
        return process.returncode

    def close(self) -> None:
        """End what a failed test left."""
        if any(process.poll() is None for process in self.started):
            self.control("stop", grace_s=0, sequence=1_000_000)
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                try:
                    process.communicate(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        # Python's own removal, which pytest would use, does not get down every tree that a job makes.
        subprocess.run(["rm", "-rf", "--", str(self.root)], check=True)

    def control(self, desired: contract.Desired, grace_s: float | None = None, sequence: int = 1) -> None:
        """Wish something of the attempt, as the console does: by rename."""
        partial = self.root / "control.tmp"
        partial.write_text(json.dumps(contract.ControlFile(desired, grace_s, sequence).to_json()))
        partial.rename(self.root / contract.CONTROL_FILE)

    def record(self) -> contract.ExitRecord:
        """Read the exit record."""
        return contract.ExitRecord.from_json(json.loads((self.root / contract.EXIT_FILE).read_text()))

    def stream(self, name: str) -> bytes:
        """Read a stream of the spool; empty when it is not there yet."""
        path = self.root / contract.SPOOL_DIRECTORY / contract.SPOOL_FILES[name]
        return path.read_bytes() if path.exists() else b""

    def log(self) -> bytes:
        """Read the spooled output."""
        return self.stream(contract.STREAM_LOG)

    def metrics(self) -> list[dict[str, Any]]:
        """Read the spooled metrics of the training."""
        return [line for line in self._metrics() if not any(key.startswith("system/") for key in line["values"])]

    def samples_of_machine(self) -> list[dict[str, Any]]:
        """Read the spooled metrics of how busy the machine was."""
        return [line for line in self._metrics() if any(key.startswith("system/") for key in line["values"])]

    def _metrics(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream(contract.STREAM_METRICS).splitlines()]

    def events(self, kind: str | None = None) -> list[dict[str, Any]]:
        """Read the spooled events, all or those of one kind."""
        events = [json.loads(line) for line in self.stream(contract.STREAM_EVENTS).splitlines()]
        return [event for event in events if kind in (None, event["kind"])]

    def until_log(self, text: bytes) -> None:
        """Wait until the job has printed this."""
        until(lambda: text in self.log(), f"{text!r} in the log")


def until(condition: Callable[[], object], what: str, within_s: float = 20) -> None:
    """Wait for a condition, a bounded time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {within_s} s: {what}"
        time.sleep(0.01)


def hash_of(path: Path) -> str:
    """Give a file's sha256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def pack(target: Path, files: dict[str, str]) -> contract.Workspace:
    """Pack a plain tar of these files."""
    source = target.parent / f"{target.name}-source"
    with tarfile.open(target, "w") as archive:
        for name, text in files.items():
            path = source / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            archive.add(path, name)
    return contract.Workspace(str(target), f"sha256:{hash_of(target)}")
