"""`sf job`: look at jobs, follow them, pause and stop them."""

from typing import Final

import click

from starforge.cli.lazy import LazyCommand, LazyGroup

_COMMANDS: Final = {
    "ls": LazyCommand("starforge.cli.job_views:ls", "List jobs, newest first."),
    "show": LazyCommand("starforge.cli.job_views:show", "Show everything about a job."),
    "logs": LazyCommand("starforge.cli.job_logs:logs", "Print a job's log."),
    "artifacts": LazyCommand("starforge.cli.job_files:artifacts", "List what a job left on the storage."),
    "get": LazyCommand("starforge.cli.job_files:get", "Bring files or checkpoints of a job here."),
    "metrics": LazyCommand("starforge.cli.job_metrics:metrics", "Show a job's metrics, or every point of them as CSV."),
    "samples": LazyCommand("starforge.cli.job_samples:samples", "Show the examples that a job reported."),
    "clone": LazyCommand("starforge.cli.job_clone:clone", "Make a folder with exactly the files that a job ran."),
    "pause": LazyCommand("starforge.cli.job_turns:pause", "Pause jobs; they give their GPUs back."),
    "resume": LazyCommand("starforge.cli.job_turns:resume", "Let paused jobs go on."),
    "retry": LazyCommand("starforge.cli.job_turns:retry", "Queue failed or stopped jobs again."),
    "stop": LazyCommand("starforge.cli.job_actions:stop", "End jobs; they may write a last checkpoint."),
    "delete": LazyCommand("starforge.cli.job_actions:delete", "Remove a finished job with its logs and work."),
}


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def job() -> None:
    """Look at jobs, follow them, stop them."""
