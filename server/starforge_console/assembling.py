"""Builds what makes attempts ready, from settings and what the console stands on."""

from collections.abc import Callable, Mapping

import structlog

from starforge.recipes.catalog import load_catalog
from starforge_console.assembly.assembler import Assembler, AssemblySettings
from starforge_console.assembly.images import AttemptImages
from starforge_console.assembly.tokens import load_or_make_key
from starforge_console.domain.inputs import HubInput
from starforge_console.fleets.readiness import ROOT_JOBS, load_job_user
from starforge_console.ground import Ground
from starforge_console.ledger.fleets import Fleet
from starforge_console.settings.console import ConsoleSettings, FleetKind
from starforge_console.settings.slurm import load_submitters
from starforge_console.wheels.script import load_private_ca

_log = structlog.get_logger("console")


def build_assembler(ground: Ground, fleets: Mapping[str, Fleet], find_refusal: Callable[[HubInput], str]) -> Assembler:
    """`fleets` are always the present ones, and `find_refusal` says why an input can never be had."""
    settings = ground.settings
    assembly = AssemblySettings(
        install=ground.install.id,
        storage=ground.storage,
        storage_id=ground.install.storage_id,
        runner=ground.runner,
        ingest_url=settings.http.ingest_url,
        job_user=_job_user(settings),
        token_key=load_token_key(ground),
        secrets=ground.secrets,
        images=AttemptImages(ground.registries),
        bare_kinds=frozenset({FleetKind.SLURM.value} if settings.slurm.is_bare else ()),
        submitters=_find_submitters(settings),
        usage_period_s=settings.policy.system_metrics_s or None,
        ingest_ca=load_private_ca(settings.http.ingest_url, settings.http.public_ca_file),
    )
    return Assembler(assembly, load_catalog(), fleets, ground.ledger, find_refusal)


def _job_user(settings: ConsoleSettings) -> tuple[int, int]:
    user = load_job_user(settings)
    if user[0] == 0:
        _log.warning(ROOT_JOBS)
    return user


def load_token_key(ground: Ground) -> bytes:
    """What the tokens of attempts are made with."""
    return load_or_make_key(ground.settings.paths.console_state_dir / "token-key")


def _find_submitters(settings: ConsoleSettings) -> dict[str, dict[str, tuple[int, int]]]:
    found = load_submitters(settings.slurm)
    return {FleetKind.SLURM.value: {account: (user.uid, user.gid) for account, user in found.items()}} if found else {}
