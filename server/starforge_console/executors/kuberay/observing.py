"""What became of attempts: RayJobs and pods, the folder on the storage, and what is remembered of what was deleted."""

import asyncio
import contextlib
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from starforge.containers.records import Fences
from starforge.contract.ids import AttemptId
from starforge.contract.observation import Gone, NoSignal, Observation, Phase, Seen
from starforge.errors import BackendUnreachable, NodeFault
from starforge.said.sentence import say
from starforge_console.executors.kuberay.cluster import Held, KubeCluster, Own
from starforge_console.executors.kuberay.folder import FENCED, KubeFolder, StartMark
from starforge_console.executors.kuberay.manifest import SUBMITTER
from starforge_console.executors.kuberay.records import KubeLaunches, Launch
from starforge_console.executors.kuberay.states import (
    DEPLOYMENTS,
    RAY_STATES,
    Evidence,
    Means,
    end_missing,
    end_unbegun,
    find_denied,
    has_begun_anew,
    judge,
    list_holding,
    see_ending,
)
from starforge_console.executors.kuberay.viewing import name_gpus, number_gpus

END_PATIENCE_S: Final = 60.0
"""How long KubeRay has to see that an attempt has ended, before what is left of it is taken away."""
_MAY_RUN: Final = frozenset({Means.STARTS, Means.RUNS, Means.QUEUED, Means.NEW})


class Observing:
    """Answers for every attempt; one that cannot be looked at spoils no other."""

    def __init__(self, cluster: KubeCluster, launches: KubeLaunches, fences: Fences) -> None:
        self._cluster = cluster
        self._launches = launches
        self._fences = fences
        self._marks: dict[AttemptId, StartMark] = {}
        self._ended_at: dict[AttemptId, float] = {}
        self._denials: dict[AttemptId, str] = {}

    async def observe(self, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        """What is known of each, by one question for all of them."""
        try:
            own = await self._cluster.list_own()
        except BackendUnreachable as error:
            return {one: self._find_end(one) or NoSignal(reason=error.said) for one in attempts}
        return await self.observe_in(own, attempts)

    async def observe_in(self, own: Own, attempts: Collection[AttemptId]) -> Mapping[AttemptId, Observation]:
        """The same of what was listed a moment ago."""
        numbers = number_gpus(own.pods)
        seen = await asyncio.gather(*(self._observe(one, own.find(one), numbers) for one in attempts))
        return dict(zip(attempts, seen, strict=True))

    def find_workdir(self, attempt: AttemptId, held: Held) -> str:
        """The attempt's directory; empty where neither a launch nor a RayJob tells it."""
        launch = self._launches.find(attempt)
        if launch is not None:
            return launch.workdir
        return held.job.workdir if held.job is not None else ""

    async def find_mark(self, attempt: AttemptId, held: Held) -> StartMark | None:
        """What began it. Raises BackendUnreachable if that is not known."""
        if attempt not in self._marks:
            workdir = self.find_workdir(attempt, held)
            mark = await asyncio.to_thread(KubeFolder(workdir).find_mark) if workdir else None
            if mark is None:
                return None
            self._marks[attempt] = mark
        return self._marks[attempt]

    async def end(self, attempt: AttemptId, held: Held, end: Seen) -> None:
        """Remember that it ended so, and take away what is left of it. Raises BackendUnreachable, NodeFault."""
        launch = self._launches.find(attempt) or self._adopt(attempt, held)
        await asyncio.to_thread(self._remember, launch, end, deletes=True)
        await self._take_away(attempt, held)

    def remove(self, attempt: AttemptId, held: Held) -> None:
        """Forget what was seen of it. As long as the cluster lists it, that it was removed is remembered instead."""
        for remembered in (self._marks, self._ended_at, self._denials):
            remembered.pop(attempt, None)
        launch = self._launches.find(attempt)
        if held.job is not None or held.pods:
            self._launches.write(replace(launch or self._adopt(attempt, held), end=None, is_removed=True))
        else:
            self._launches.forget(attempt)

    def forget_removed(self, own: Own) -> None:
        """Remember no more that something was removed which the cluster does not list any more either."""
        for attempt, launch in self._launches.all().items():
            if launch.is_removed and attempt not in own.by_attempt:
                self._launches.forget(attempt)

    async def _observe(self, attempt: AttemptId, held: Held, numbers: Mapping[str, tuple[int, ...]]) -> Observation:
        launch = self._launches.find(attempt)
        if launch is not None and launch.is_removed:
            return Gone(at=time.time())
        try:
            if launch is not None and launch.end is not None:
                return await self._finish(launch, launch.end, held)
            return await self._judge(attempt, launch, held, numbers)
        except (BackendUnreachable, NodeFault) as error:
            return NoSignal(reason=error.said)

    def _find_end(self, attempt: AttemptId) -> Seen | None:
        launch = self._launches.find(attempt)
        return launch.end if launch is not None and launch.is_freed and not launch.is_removed else None

    async def _finish(self, launch: Launch, end: Seen, held: Held) -> Seen:
        """The end, once no pod of it holds anything any more; until then that they end."""
        if launch.is_freed:
            return end
        holding = list_holding(held.pods)
        since = self._ended_at.setdefault(launch.attempt, time.monotonic())
        deletes = launch.deletes or time.monotonic() - since > END_PATIENCE_S
        if deletes and (holding or (held.job is not None and not held.job.is_deleting)):
            await self._take_away(launch.attempt, held)
        if holding:
            return see_ending(end, holding)
        await asyncio.to_thread(self._launches.change, launch, is_freed=True)
        return end

    async def _judge(
        self, attempt: AttemptId, launch: Launch | None, held: Held, numbers: Mapping[str, tuple[int, ...]]
    ) -> Observation:
        now = time.time()
        known = attempt in self._marks
        mark = (
            await self.find_mark(attempt, held) if _may_have_begun(held, launch) or self._fences.has(attempt) else None
        )
        if mark is FENCED:
            return Gone(at=now, fenced=self._fences.has(attempt))
        evidence = Evidence(job=held.job, pods=held.pods, mark=mark, is_mark_old=known)
        evidence = await self._look_for_end(attempt, evidence, held)
        if held.job is None or held.job.is_deleting:
            return await self._judge_missing(attempt, evidence, held, now)
        gpus = name_gpus(list_holding(held.pods), numbers)
        evidence = await self._look_for_denial(attempt, evidence)
        verdict = judge(held.job, evidence, gpus, now)
        seen = verdict.observation
        if not isinstance(seen, Seen) or seen.phase is not Phase.EXITED:
            return seen
        launch = launch or self._adopt(attempt, held)
        launch = await asyncio.to_thread(self._remember, launch, seen, deletes=verdict.deletes)
        return await self._finish(launch, seen, held)

    async def _judge_missing(self, attempt: AttemptId, evidence: Evidence, held: Held, now: float) -> Observation:
        """What is known of an attempt whose RayJob is not there, or is being deleted by somebody."""
        holding = list_holding(held.pods)
        end = end_missing(evidence, now)
        if end is not None:
            launch = self._launches.find(attempt) or self._adopt(attempt, held)
            launch = await asyncio.to_thread(self._remember, launch, end, deletes=True)
            return await self._finish(launch, end, held)
        if holding:
            phase = Phase.PREPARING if evidence.mark is None else Phase.RUNNING
            return replace(see_ending(end_unbegun("", now), holding), phase=phase)
        return Gone(at=now, note=say("kuberay.deleted") if evidence.mark is not None else "")

    async def _look_for_end(self, attempt: AttemptId, evidence: Evidence, held: Held) -> Evidence:
        """What the script wrote at its end, asked for only where there may be something: storage is slow."""
        job = held.job
        runs = job is not None and not job.is_deleting and DEPLOYMENTS.get(job.deployment) in _MAY_RUN
        submitters = [pod for pod in held.pods if pod.part == SUBMITTER]
        submitted = bool(submitters) and not any(pod.is_living for pod in submitters)
        plain = job is not None and runs and not RAY_STATES.get(job.status, True) and not submitted
        workdir = self.find_workdir(attempt, held)
        if not workdir or (plain and (evidence.mark is None or not has_begun_anew(evidence))):
            return evidence
        if job is None and evidence.mark is None:
            return evidence
        ended = await asyncio.to_thread(KubeFolder(workdir).find_ended)
        if ended is None:
            return evidence
        since = self._ended_at.setdefault(attempt, time.monotonic())
        return replace(evidence, ended=ended, is_overdue=time.monotonic() - since > END_PATIENCE_S)

    async def _look_for_denial(self, attempt: AttemptId, evidence: Evidence) -> Evidence:
        """What the kubelet said of the image before it only says that it waits with trying again."""
        for pod in evidence.pods:
            reason, words = pod.waits
            if reason == "ErrImagePull" and words:
                self._denials[attempt] = f"{reason}: {words}"
        denied = find_denied(evidence.pods)
        if denied is None:
            return evidence
        told = self._denials.get(attempt) or await self._cluster.find_denial(denied)
        return replace(evidence, denial=told)

    async def _take_away(self, attempt: AttemptId, held: Held) -> None:
        """Delete it; a script that may still run is asked to end first, and nodes do not wait for one that cannot."""
        if self._marks.get(attempt) not in {None, FENCED}:
            folder = KubeFolder(self.find_workdir(attempt, held))
            with contextlib.suppress(BackendUnreachable):  # its pods are ended all the same, only later
                await asyncio.to_thread(folder.ask_to_end, 0)
        await self._cluster.delete(attempt, held)

    def _remember(self, launch: Launch, end: Seen, *, deletes: bool) -> Launch:
        changed = replace(launch, end=end, deletes=deletes, is_freed=False)
        self._launches.write(changed)
        return changed

    def _adopt(self, attempt: AttemptId, held: Held) -> Launch:
        """What a RayJob itself tells of its launch, where nothing is remembered of it."""
        uid = held.job.uid if held.job is not None else ""
        return Launch(attempt=attempt, workdir=self.find_workdir(attempt, held), pools=(), uid=uid)


def _may_have_begun(held: Held, launch: Launch | None) -> bool:
    """Whether there can be a start mark: nothing begins before KubeRay has submitted it."""
    job = held.job
    if job is None:
        return launch is not None and bool(launch.uid)
    return job.deployment not in {"", "Initializing"} or job.is_deleting or bool(job.status)
