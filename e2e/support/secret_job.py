"""A job that is given secrets of its owner's and tells them, and every place where their values must not be found."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from e2e.support.console import ConsoleProcess, wait_for
from e2e.support.engines import PrivateEngine
from e2e.support.projects import Experiment, write_script
from starforge.containers.labels import name_container
from starforge.contract.ids import AttemptId

TOKEN: Final = "hf_Zq8vYw3kPm2LrX7dTn5B"  # noqa: S105 - made up, to be looked for
KEY_LINES: Final = ("-----BEGIN MADE UP KEY-----", "bm90IGEga2V5IGF0IGFsbA", "-----END MADE UP KEY-----")
KEY: Final = "\n".join(KEY_LINES) + "\n"
SCRIPT: Final = """
echo "$FORGE_ATTEMPT" >> "$FORGE_OUT_DIR/starts"
printf '%s' "$HF_TOKEN" | sha256sum
printf '%s' "$MADE_UP_KEY" | sha256sum
echo "it is $HF_TOKEN!"
printf '%s\\n' "$MADE_UP_KEY"
echo told
while [ ! -e "$FORGE_OUT_DIR/go" ]; do sleep 0.1; done
"""


@dataclass(frozen=True, slots=True)
class SecretJob:
    """A job that has told its secrets and waits; `engine` is that of its machine."""

    probe: Experiment
    id: str
    engine: PrivateEngine

    @property
    def attempt(self) -> AttemptId:
        return AttemptId(self.probe.detail(self.id)["attempts"][-1]["id"])

    def list_faults(self) -> list[str]:
        """What is wrong with what its log, its container and its console tell of it while it runs."""
        log, container = self.probe.log(self.id), self.engine.engine.inspect(name_container(self.attempt))
        shown = self.probe.console.sf("job", "show", self.id).stdout
        visible = (
            json.dumps([container, self.engine.engine.list_containers(), self.probe.detail(self.id)]) + log + shown
        )
        checks = {
            "the job's environment does not hold the token": hashlib.sha256(TOKEN.encode()).hexdigest() in log,
            "the job's environment does not hold the key": hashlib.sha256(KEY.encode()).hexdigest() in log,
            "the log shows no mask": f"it is {'*' * len(TOKEN)}!" in log,
            "a value can be seen": not any(value in visible for value in (TOKEN, *KEY_LINES)),
            "sf does not say what it was given": "HF_TOKEN (set 20" in shown and "MADE_UP_KEY (set 20" in shown,
            "the timeline does not tell": "passed 2 secrets: HF_TOKEN (set 20" in shown,
        }
        return [fault for fault, holds in checks.items() if not holds]

    def end(self, out: Path) -> None:
        """Let it end, and wait until nothing of it is left at its machine."""
        (out / "go").touch()
        assert self.probe.wait_end(self.id)["job"]["state"] == "SUCCEEDED"
        wait_for(lambda: self.attempt not in json.dumps(self.engine.engine.list_containers()), "the cleanup")


def begin_secret_job(probe: Experiment, engine: PrivateEngine, *options: str) -> SecretJob:
    """Set two secrets, submit a job that is given them, and wait until it has told them."""
    file = probe.console.folder / "made-up-key"
    file.write_text(KEY)
    probe.console.sf("secret", "set", "HF_TOKEN", typed=f"{TOKEN}\n")
    probe.console.sf("secret", "set", "MADE_UP_KEY", "--from-file", str(file))
    file.unlink()
    write_script(probe, SCRIPT)
    job = probe.submit("--secret", "MADE_UP_KEY", "--secret", "HF_TOKEN", *options)
    wait_for(lambda: "told" in probe.log(job).splitlines(), "the job to tell")
    return SecretJob(probe, job, engine)


def find_values(console: ConsoleProcess, *folders: Path) -> list[str]:
    """Files of the console (its ledger, its storage, its log, its memory) that hold a value as it is."""
    roots = (console.folder, Path(console.environment["FORGE_SECRETS_DIR"]), *folders)
    return [str(file) for root in roots for file in root.rglob("*") if file.is_file() and _holds(file, KEY_LINES[1])]


def find_values_inside(engine: PrivateEngine, folders: Iterable[str]) -> list[str]:
    """The same inside a machine."""
    words = f"grep -rlF -e '{TOKEN}' -e '{KEY_LINES[1]}' {' '.join(folders)} 2>/dev/null || true"
    return engine.run("sh", "-c", words).split()


def _holds(file: Path, word: str) -> bool:
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return False
    return word.encode() in content or TOKEN.encode() in content
