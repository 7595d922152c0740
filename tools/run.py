"""`make run`: an engine and a console that stay up, with real jobs in every state and a link that signs you in.

Everything lives in a temporary folder and is gone after Ctrl-C.
"""

import contextlib
import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.support.console import ConsoleProcess, console_process, wait_for
from e2e.support.engines import find_obstacle, private_engine
from e2e.support.images import host_image
from e2e.support.projects import make_experiment
from e2e.support.registry import StubRegistry, stub_registry
from tools.host_image import Contents, find_or_build_tar
from tools.run_fleet import sample_fleet

_TRAIN: Final = """
python3 - <<'PY'
import json, math, os, pathlib, random, time
from starforge import report
random.seed(7)
report.init(hparams={"lr": 3e-5, "batch": 32})
steps, pause = int("@STEPS@"), float("@PAUSE@")
print("\\x1b[32mloading\\x1b[0m the tokenizer", flush=True)
for step in range(1, steps + 1):
    loss = 2.2 * math.exp(-step / 120) + 0.8 + random.gauss(0, 0.05)
    report.log({"train/loss": loss, "train/grad_norm": abs(random.gauss(0.6, 0.1)) + 4 / step}, step=step)
    if step % 25 == 0:
        report.log({"eval/loss": loss + 0.08, "eval/accuracy": 1 - loss / 4}, step=step)
        print(f"UserWarning: learning rate is {3e-5 * (1 - step / steps):.2e}", flush=True)
    print(json.dumps({"step": step, "loss": round(loss, 4)}), flush=True)
    if step == 100:
        folder = pathlib.Path(os.environ["FORGE_CKPT_DIR"], "step-100"); folder.mkdir(exist_ok=True)
        (folder / "weights.json").write_text("[1, 2, 3]")
        report.commit_checkpoint(100, str(folder))
    time.sleep(pause)
out = pathlib.Path(os.environ["FORGE_OUT_DIR"])
(out / "model.json").write_text(json.dumps({"loss": loss}))
(out / "metrics.csv").write_text("step,loss")
report.finish()
PY
"""
_FAIL: Final = """
python3 - <<'PY'
from starforge import report
report.init(hparams={})
for step in range(1, 40):
    report.log({"train/loss": 2.0 / step}, step=step)
print("loading 184,000 rows", flush=True)
rows = {"prompt": "…"}
print(rows["completion"])
PY
"""
_PLAN: Final = (
    ("sft-support-baseline", _TRAIN.replace("@STEPS@", "400").replace("@PAUSE@", "0.005"), "any:1", "SUCCEEDED"),
    ("dpo-helpful-v2", _FAIL, "any:1", "FAILED"),
    ("reward-pairwise", "echo warming up\nsleep 3600", "cpu", "RUNNING"),
    ("qwen3-14b-sft-support", _TRAIN.replace("@STEPS@", "20000").replace("@PAUSE@", "0.4"), "any:1", "RUNNING"),
    # It waits for the fleet's full machine: this host would be kept for it once enough others had passed it.
    ("grpo-code-warmstart", "sleep 3600", "h200:4", "QUEUED"),
)
"""Experiments that the sample is made of: name, script, what it asks for, and the state to wait for."""
_RETRIES: Final = 8
_SETTINGS: Final = {"FORGE_LOCAL_GPU_COUNT": "4"}
_SLOW: Final = "kto-tone-zh"
_RETRYING: Final = "eval-longbench-nightly"
_STOPPED: Final = "reward-pairwise"
_SWEPT: Final = "rates-sweep"


@dataclass(frozen=True, slots=True)
class Sample:
    """The console with the sample's jobs in it, by the names of their experiments, a sweep, a machine of a fleet."""

    console: ConsoleProcess
    jobs: dict[str, str]
    node: str
    sweep: str

    def token(self) -> str:
        """A token of the administrator that may do everything."""
        return self.console.token("--scopes", "read,submit,admin")


@contextlib.contextmanager
def sample_console() -> Iterator[Sample]:
    """A console with jobs that are queued, pending, running, being retried, succeeded, failed and stopped, and a fleet.

    What asks for no fleet runs on the console's own host: the fleet's machines are full, or drain.
    """
    obstacle = find_obstacle()
    if obstacle is not None:
        sys.exit(f"run: {obstacle}. Run this as root on a machine with Docker's packages.")
    folder = Path(tempfile.mkdtemp(prefix="starforge-run-", dir="/var/tmp"))
    folder.chmod(0o755)  # the jobs' user must reach its own folder below
    try:
        with (
            private_engine(folder / "engine") as machine,
            stub_registry(machine.gateway, find_or_build_tar(Contents(python=False))) as registry,
            console_process(folder, machine.socket_path, _SETTINGS) as console,
            sample_fleet(console, folder) as fleet,
        ):
            sweep = _submit_sweep(console, host_image(machine))
            jobs = fleet.jobs | _submit_all(console, host_image(machine), registry)
            yield Sample(console, jobs, fleet.node, sweep)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Serve the sample until Ctrl-C; gives the exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with sample_console() as sample:
        link = sample.console.admin("init", "--new-link").stdout.strip()
        print(f"run: the console is up at {sample.console.url} with {len(sample.jobs)} jobs; Ctrl-C ends it\n{link}")
        print(f"run: or sign in with the token {sample.token()}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()
    return 0


def _submit_sweep(console: ConsoleProcess, image: str) -> str:
    """A sweep of two runs that have ended; they are the oldest jobs."""
    print(f"run: sweeping {_SWEPT}", flush=True)
    experiment = make_experiment(console, image, _TRAIN.replace("@STEPS@", "60").replace("@PAUSE@", "0.005"), _SWEPT)
    words = ("sweep", _SWEPT, "--profile", "cpu", "-g", "lr=0.1,0.01", "--json")
    told = json.loads(console.sf(*words, cwd=experiment.project).stdout)
    for one in told["jobs"]:
        experiment.wait_state(one["job"], "SUCCEEDED", limit_s=120)
    return str(told["sweep"])


def _submit_all(console: ConsoleProcess, image: str, registry: StubRegistry) -> dict[str, str]:
    jobs = {}
    for name, script, profile, state in _PLAN:
        print(f"run: submitting {name}, to be {state}", flush=True)
        experiment = make_experiment(console, image, script, name)
        jobs[name] = experiment.submit(profile=profile)
        experiment.wait_state(jobs[name], state, limit_s=120)
        if name == _STOPPED:
            console.sf("job", "stop", jobs[name], "--grace", "1", cwd=experiment.project)
            experiment.wait_state(jobs[name], "STOPPED")
    slow = make_experiment(console, registry.image("slow"), "echo here", _SLOW)
    jobs[_SLOW] = slow.submit(profile="any:1")
    slow.wait_state(jobs[_SLOW], "PENDING")
    failing = make_experiment(console, image, "echo trying; exit 7", _RETRYING)
    jobs[_RETRYING] = failing.submit("--retries", str(_RETRIES), profile="any:1")
    wait_for(lambda: failing.detail(jobs[_RETRYING])["job"]["retry_at"], "the first failure to be retried", 60)
    return jobs


if __name__ == "__main__":
    sys.exit(main())
