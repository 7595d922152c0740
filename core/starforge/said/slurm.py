"""What is said of a Slurm cluster, and of a job that it holds."""

from typing import Final

SLURM: Final = {
    "slurm.no_answer": "Slurm gives no usable answer: {why}",
    "slurm.unreachable": "Slurm's REST daemon does not answer at {url}: {why}",
    "slurm.token_refused": "Slurm refuses the console's token: {why}",
    "slurm.token_unreadable": "the console's token for Slurm cannot be had: {path} cannot be read ({why})",
    "slurm.version_gone": "Slurm's REST daemon does not serve the version that was agreed on any more: {why}",
    "slurm.other_state": "Slurm says of it {state}, which this console does not know",
    "slurm.waits": "waits in Slurm's queue",
    "slurm.waits_why": "waits in Slurm's queue ({reason})",
    "slurm.requeued": "Slurm queued it again by itself",
    "slurm.starts": "Slurm prepares its nodes",
    "slurm.runs": "runs as Slurm job {job} on {nodes}",
    "slurm.ends": "Slurm gives its nodes back",
    "slurm.no_folder": (
        "{nodes} cannot use the attempt's directory: is the storage mounted there under the same path, and is the job's"
        " user known there by the same number?"
    ),
    "slurm.suspended": "suspended by Slurm",
    "slurm.unseen_end": "Slurm has forgotten job {job}",
    "slurm.no_partition": "the cluster has no partition {partition}",
    "slurm.no_room": "the cluster has no room now: {reasons}",
    "slurm.few_idle": "{idle} of the {nodes} machines that pool {pool} asks for have enough idle CPUs and memory",
    "slurm.partition_down": "partition {partition} is not up",
    "slurm.node_state": "Slurm says of it {state}",
    "slurm.node_state_why": "Slurm says of it {state} ({why})",
    "slurm.gpu_foreign": "held by other jobs of the cluster",
}
"""By code."""
