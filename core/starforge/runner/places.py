"""Where things are for one node of one attempt: paths below the attempt's directory, read from the environment once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Mapping

from starforge.contract import capsule as contract


@dataclass(frozen=True)
class Places:
    """Absolute paths of one node. The leader is node 0; it alone writes the attempt's record."""

    attempt: str
    node_rank: int
    runner: str
    out: str
    secrets: str

    @property
    def is_leader(self) -> bool:
        """Whether this node reports the attempt's lifecycle."""
        return self.node_rank == 0

    @property
    def capsule(self) -> str:
        """The read-only capsule."""
        return os.path.join(self.attempt, *contract.CAPSULE_MOUNT.split("/"))

    @property
    def work(self) -> str:
        """The training process's directory."""
        return os.path.join(self.attempt, contract.WORK_DIRECTORY)

    @property
    def ckpt(self) -> str:
        """This attempt's checkpoints."""
        return os.path.join(self.attempt, contract.CKPT_DIRECTORY)

    @property
    def spool(self) -> str:
        """Where this node's streams are: the attempt's spool for the leader, else the node's own directory."""
        own = contract.SPOOL_DIRECTORY if self.is_leader else contract.node_directory(self.node_rank)
        return os.path.join(self.attempt, own)

    @property
    def control(self) -> str:
        """The desired state, written by the console."""
        return os.path.join(self.attempt, contract.CONTROL_FILE)

    @property
    def exit_record(self) -> str:
        """Where this node's exit record is to be written."""
        directory = self.attempt if self.is_leader else self.spool
        return os.path.join(directory, contract.EXIT_FILE)


def build_places(environment: Mapping[str, str], attempt: str, runner: str) -> Places:
    """Read the node's rank and the directories from the container's environment. Raises ValueError for a bad rank."""
    rank = environment.get(contract.ENV_NODE_RANK) or "0"
    if not rank.isdigit():
        raise ValueError(f"{contract.ENV_NODE_RANK} is {rank!r}: it must be the node's number, 0 for the leader")
    return Places(
        attempt=attempt,
        node_rank=int(rank),
        runner=runner,
        out=environment.get(contract.ENV_OUT_DIR) or os.path.join(attempt, "out"),
        secrets=environment.get(contract.ENV_SECRETS_DIR) or contract.SECRETS_DIR,
    )
