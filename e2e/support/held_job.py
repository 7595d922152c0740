"""A job that runs until a test lets it go on, so that something can be done around it."""

from pathlib import Path

from e2e.support.console import wait_for
from e2e.support.installing import Site
from e2e.support.projects import Experiment, make_experiment, write_script

_SCRIPT = 'touch "$FORGE_OUT_DIR/waiting"; until [ -e "$FORGE_OUT_DIR/release" ]; do sleep 0.1; done'


class HeldJob:
    """One such job on `fleet`; running when this is made."""

    def __init__(self, site: Site, image: str, fleet: str) -> None:
        self._before = set(site.console.storage.rglob("waiting"))
        self.experiment: Experiment = make_experiment(site.console, image, "exit 0")
        write_script(self.experiment, _SCRIPT)
        self.job = self.experiment.submit("--fleet", fleet, profile="h200:1")
        self.experiment.wait_state(self.job, "RUNNING")
        self._mark: Path = wait_for(lambda: self._find_mark(site), "the job's script to wait")

    def finish(self) -> str:
        """Let it end; gives the state that it ended in."""
        self._mark.with_name("release").touch()
        return str(self.experiment.wait_end(self.job)["job"]["state"])

    def _find_mark(self, site: Site) -> Path | None:
        return next(iter(set(site.console.storage.rglob("waiting")) - self._before), None)
