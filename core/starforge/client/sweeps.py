"""Sweeps: the calls of the console's API about them, and the way from an experiment on disk to one."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from starforge.client.console import Console, render
from starforge.client.http import Request
from starforge.client.submitting import Asked, FindProfiles, Prepared, Voice, prepare
from starforge.client.upload import send_blob
from starforge.contract.api import HEADER_IDEMPOTENCY_KEY, StopRequest
from starforge.contract.canonical import canonical_json
from starforge.contract.combinations import list_combinations
from starforge.contract.ids import Digest
from starforge.contract.jobspec import digest_of
from starforge.contract.sweeps import (
    SweepDetail,
    SweepList,
    SweepRecord,
    SweepRequest,
    SweepStopped,
    SweepView,
    build_submission,
)
from starforge.errors import InputError, Unavailable
from starforge.hardware.profiles import Profile, build_resources
from starforge.workspace.config import Setting
from starforge.workspace.experiment import Experiment, apply_resources, check_experiment, read_experiment
from starforge.workspace.grid import Grid, build_settings, check_combinations, check_grid
from starforge.workspace.project import load_project, resolve_experiment
from starforge.workspace.submission import build_share

_PAGE: Final = 100
_PATIENT_TRIES: Final = 8
_WAIT_S: Final = 120
_NAME_CHARACTERS: Final = 100


class SweepConsole(Console):
    """The console as its API shows sweeps."""

    def check_sweep(self, request: SweepRequest) -> SweepRecord:
        """What every gate says of every combination; keeps nothing."""
        return self._send(SweepRecord, Request(method="POST", path="/sweeps/admission", json=render(request)))

    def submit_sweep(self, request: SweepRequest, key: str) -> SweepRecord:
        """Admit all of it or nothing. The same `key` with the same request gives the same sweep."""
        headers = {HEADER_IDEMPOTENCY_KEY: key}
        body = render(request)
        return self._send(
            SweepRecord,
            Request(method="POST", path="/sweeps", json=body, headers=headers, tries=_PATIENT_TRIES, wait_s=_WAIT_S),
        )

    def sweeps(self, filters: Mapping[str, str], limit: int) -> list[SweepView]:
        """The newest sweeps that fit `filters` (user, project), at most `limit`."""
        found: list[SweepView] = []
        cursor: str | None = None
        while len(found) < limit:
            query: dict[str, str | int] = {**filters, "limit": min(_PAGE, limit - len(found))}
            page = self._get(SweepList, "/sweeps", query | ({"cursor": cursor} if cursor else {}))
            found += page.items
            cursor = page.next
            if cursor is None:
                break
        return found

    def sweep(self, sweep: str) -> SweepDetail:
        """One sweep, its best run first."""
        return self._get(SweepDetail, f"/sweeps/{quote(sweep, safe='')}")

    def stop_sweep(self, sweep: str, request: StopRequest) -> SweepStopped:
        """Ask for the end of all its jobs that have not ended; they are not over yet when this returns."""
        body = request.model_dump(mode="json", exclude_none=True)
        path = f"/sweeps/{quote(sweep, safe='')}/stop"
        return self._send(SweepStopped, Request(method="POST", path=path, json=body, wait_s=_WAIT_S))


@dataclass(frozen=True, slots=True)
class PreparedSweep:
    """A sweep that can be sent: its first combination as a submission, with the workspace that all have."""

    first: Prepared
    request: SweepRequest

    @property
    def digests(self) -> list[Digest]:
        """The digest of each job's spec, in the order of the combinations."""
        return [digest_of(build_submission(self.request, one).spec) for one in self.request.combinations]

    @property
    def key(self) -> str:
        """What names this sweep wherever it is sent from: sent again after a cut, it is the same one."""
        whole = canonical_json([self.request.name, self.request.allow_dirty, [str(one) for one in self.digests]])
        return f"sf-sweep-{hashlib.sha256(whole).hexdigest()}"


@dataclass(frozen=True, slots=True)
class SentSweep:
    """An admitted sweep. `uploaded`: the console did not have its workspace yet."""

    record: SweepRecord
    sweep: str
    uploaded: bool


@dataclass(frozen=True, slots=True)
class SweepAsked:
    """What is wanted of a sweep: as of each of its jobs, the values, and a name (None takes the experiment's)."""

    each: Asked
    grid: Grid
    name: str | None = None


def prepare_sweep(
    start: Path, name: str, asked: SweepAsked, find_profiles: FindProfiles, voice: Voice
) -> PreparedSweep:
    """Read and check the experiment `name` with every combination, and pack it once. Sends nothing.

    Raises:
        InputError: what has to be mended, of all combinations at once.
        Refused: the project differs from its commit, and that was not allowed.

    """
    _check_name(asked.name)
    combinations = list(list_combinations(check_grid(asked.grid)))
    profiles = find_profiles(asked.each.profiles)
    _check_all(start, name, asked, profiles)
    settings = [*asked.each.settings, *build_settings(combinations[0])]
    first = prepare(start, name, asked.each._replace(settings=settings), lambda _: profiles, voice)
    one = first.request
    request = SweepRequest(
        spec=one.spec,
        allow_dirty=one.allow_dirty,
        difference=one.difference,
        config=one.config,
        name=asked.name,
        combinations=tuple(combinations),
    )
    return PreparedSweep(first, request)


def send_sweep(console: SweepConsole, prepared: PreparedSweep, voice: Voice) -> SentSweep:
    """Upload the workspace where it is not there yet, and submit. Raises StarForgeError as any call does."""
    packed = prepared.first.contents.packed
    with voice.watch("sending", packed.bytes) as progress:
        uploaded = send_blob(console, packed.digest, prepared.first.write, progress)
    record = console.submit_sweep(prepared.request, prepared.key)
    if record.sweep is None:
        raise Unavailable("the console admitted the sweep and named none", next_step="look at `sf sweep ls`")
    for warning in record.warnings:
        voice.warn(warning)
    return SentSweep(record, record.sweep, uploaded)


def _check_name(name: str | None) -> None:
    if name is not None and not (0 < len(name) <= _NAME_CHARACTERS and name == name.strip() and name.isprintable()):
        why = f"a sweep's name is 1 to {_NAME_CHARACTERS} characters in one line, without spaces around it"
        raise InputError(f"--name {name[:_NAME_CHARACTERS]!r} names no sweep", why=why, next_step="choose another one")


def _check_all(start: Path, name: str, asked: SweepAsked, profiles: Mapping[str, Profile]) -> None:
    project = load_project(start)
    found = resolve_experiment(project, name)

    def read(settings: Sequence[Setting]) -> Experiment:
        experiment = read_experiment(project, found, [*asked.each.settings, *settings])
        roles = experiment.recipe.roles if experiment.recipe else ()
        try:
            resources = build_resources(asked.each.profiles, profiles, roles, build_share(experiment))
        except InputError:
            check_experiment(experiment)  # its own faults come first
            raise
        apply_resources(experiment, resources)
        return experiment

    check_combinations(found, asked.grid, read)
