"""A small training that counts its steps, keeps a checkpoint when it is asked to end, and goes on from the newest."""

import json
from typing import Any

from e2e.support.work import Work

TRAIN = """
exec python3 - <<'PY'
import os, pathlib, signal, sys, time
from starforge import report
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(1))
kept = os.environ.get("FORGE_RESUME_FROM")
first = int(pathlib.Path(kept, "step").read_text()) if kept else 0
out = pathlib.Path(os.environ["FORGE_OUT_DIR"])
with open(out / "begun", "a") as begun:
    begun.write(f"{first}\\n")

def keep(step):
    folder = pathlib.Path(report.checkpoint_directory(step))
    (folder / "step").write_text(str(step))
    report.commit_checkpoint(step)

step = first
keep(step + 1)
step += 1
while not (out / "go").exists():
    if told:
        keep(step + 1)
        sys.exit(0)
    step += 1
    report.log({"loss": 1.0 / step}, step=step)
    time.sleep(0.05)
print("ended at", step, flush=True)
report.finish()
PY
"""


def begun_at(work: Work, job: str) -> list[int]:
    """The step from which each attempt of the job went on."""
    file = work.out(job) / "begun"
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def checkpoints(work: Work, job: str) -> list[int]:
    """The steps of the job's committed checkpoints."""
    found = work.console.get(f"/api/v1/jobs/{job}/outputs", work.fleet.token)["checkpoints"]
    return sorted(one["step"] for one in found if one["committed"])


def ask(work: Work, job: str, verb: str, **words: object) -> Any:  # noqa: ANN401 - a JSON answer
    """Pause, resume or retry it; gives the job's line."""
    answer = work.api.send("POST", f"/api/v1/jobs/{job}/{verb}", words)
    assert answer.status == 202, json.dumps(answer.body)
    return answer.body
