"""Asks backends beforehand whether they would take a job, where they can be asked."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from starforge.contract.executor import Rehearsing
from starforge.contract.jobspec import JobSpec
from starforge.contract.launch import LaunchRequest
from starforge.errors import LaunchRefused

PATIENCE_S: Final = 15.0
"""How long a submission waits for a backend, however it answers: the job may be for another fleet."""


class Rehearsals:
    """`executors` are asked where they are `Rehearsing`.

    `build_trial` gives what a fleet would be sent for a spec of an owner's; it raises LaunchRefused.
    """

    def __init__(
        self, executors: Mapping[str, object], build_trial: Callable[[JobSpec, str, str], LaunchRequest]
    ) -> None:
        self._executors = executors
        self._build_trial = build_trial

    async def ask(self, spec: JobSpec, owner: str, fleet: str) -> str:
        """Why the fleet's backend would refuse the job; empty where it would not, or cannot be asked beforehand."""
        executor = self._executors.get(fleet)
        if not isinstance(executor, Rehearsing):
            return ""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await executor.rehearse(self._build_trial(spec, owner, fleet)) or ""
        except LaunchRefused as error:
            return error.said
        except TimeoutError:
            return ""
