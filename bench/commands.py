"""Benches of whole processes: what a command costs before it does anything, in units of a bare interpreter."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bench.figures import Figure, Measure, Orientation, Ratio, Skipped, compare, timed
from bench.ground import Ground, Unmeasurable
from bench.peers import free_port, open_peer, serve
from core.tests.runner.support.attempt import ATTEMPT, Attempt
from e2e.support.console import wait_for
from starforge.contract import capsule as contract

_BIN: Final = Path(sys.executable).parent
_ROUNDS: Final = 21
_PEER_ROUNDS: Final = 5
_HELP_AT_MOST: Final = 5.0
_LIST_FASTER: Final = 5.0
_RUNNER_AT_MOST: Final = 4.0
_FLAGS: Final = ("-I", "-S")
"""As the bootstrap starts it."""


def cli_help(ground: Ground) -> list[Figure]:
    """`sf --help` over `python -c pass`."""
    del ground
    pairs = compare(timed(lambda: _run([_BIN / "sf", "--help"])), timed(_run_bare), _ROUNDS)
    return [Ratio("cli_help", pairs.ratio, _HELP_AT_MOST, detail=pairs.describe())]


def cli_job_ls(ground: Ground) -> list[Figure]:
    """`sf job ls` against a local console; and `dstack ps` against a local server of its own over it."""
    with ground.console() as console:
        ours = timed(lambda: _run([_BIN / "sf", "job", "ls"], console.environment))
        pairs = compare(ours, timed(_run_bare), _ROUNDS // 2)
        figure = Orientation("cli_job_ls", pairs.ratio, "x", detail=f"over python -c pass, {pairs.describe()}")
        try:
            return [figure, _compare_dstack(ground, ours)]
        except Unmeasurable as error:
            return [figure, Skipped("cli_job_ls_over_dstack", str(error))]


def _compare_dstack(ground: Ground, ours: Measure) -> Figure:
    peer, port = open_peer("dstack", ground.folder()), free_port()
    with serve(peer, peer.command("server", "--port", str(port), "-y"), port):
        settings = peer.home / ".dstack" / "config.yml"
        wait_for(settings.exists, "dstack to write how it is reached", 30)
        theirs = timed(lambda: _run(peer.command("ps"), peer.environment))
        pairs = compare(theirs, ours, _PEER_ROUNDS)
    return Ratio("cli_job_ls_over_dstack", pairs.ratio, _LIST_FASTER, at_least=True, detail=pairs.describe())


def runner_start(ground: Ground) -> list[Figure]:
    """From the start of the runner's process to the first line of what it runs, over a whole bare interpreter."""
    direct = compare(lambda: _start(ground, bootstrap=False), timed(_run_bare), _ROUNDS)
    whole = compare(lambda: _start(ground, bootstrap=True), timed(_run_bare), _ROUNDS // 2)
    return [
        Ratio("runner_start", direct.ratio, _RUNNER_AT_MOST, detail=f"to the job's first line, {direct.describe()}"),
        Orientation("runner_start_whole", whole.ratio, "x", detail=f"with its bootstrap, {whole.describe()}"),
    ]


def _start(ground: Ground, *, bootstrap: bool) -> float:
    attempt = Attempt(ground.folder() / "attempt").prepare("bash", "-c", "echo $EPOCHREALTIME")
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(attempt.root),
        contract.ENV_PYTHON: sys.executable,
        contract.ENV_CAPSULE_DIGEST: attempt.digest,
        contract.ENV_ATTEMPT: ATTEMPT,
        contract.ENV_SECRETS_DIR: str(attempt.secrets),
        contract.ENV_OUT_DIR: str(attempt.root / "out"),
    }
    program = ["bash", f"{contract.CAPSULE_MOUNT}/{contract.BOOTSTRAP_FILE}"]
    if not bootstrap:
        program = [sys.executable, *_FLAGS, f"{contract.CAPSULE_MOUNT}/{contract.RUNNER_FILE}", "run"]
    began = time.time()
    subprocess.run(program, cwd=attempt.root, env=environment, check=True, capture_output=True)
    return float(attempt.log()) - began


def _run_bare() -> None:
    _run([sys.executable, "-c", "pass"])


def _run(command: Sequence[str | Path], environment: Mapping[str, str] | None = None) -> None:
    subprocess.run(command, env=environment, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
