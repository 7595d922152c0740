"""A job that runs until a test lets it go on, so that something can be done around it."""

from e2e.support.console import wait_for
from e2e.support.installing import Site
from e2e.support.projects import Experiment, make_experiment, write_script

_SCRIPT = 'touch "$FORGE_OUT_DIR/waiting"; until [ -e "$FORGE_OUT_DIR/release" ]; do sleep 0.1; done'


class HeldJob:
    """One such job on the site's fleet; running when this is made."""

    def __init__(self, site: Site, image: str) -> None:
        self._experiment: Experiment = make_experiment(site.console, image, "exit 0", site.fleet)
        write_script(self._experiment, _SCRIPT)
        self._job = self._experiment.submit("--fleet", site.fleet, profile="h200:1")
        self._experiment.wait_state(self._job, "RUNNING", limit_s=180)
        self._out = site.console.storage / "runs" / self._job / "out"
        wait_for((self._out / "waiting").exists, "the job's script to wait")

    def finish(self) -> str:
        """Let it end; gives the state that it ended in."""
        (self._out / "release").touch()
        return str(self._experiment.wait_end(self._job)["job"]["state"])
