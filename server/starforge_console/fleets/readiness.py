"""What must hold on this machine before jobs can run: looked at when a console is set up, and again when it starts."""

import os
from collections.abc import Iterator
from typing import Final

from starforge.containers.engine import Engine
from starforge.containers.gpus import WITHOUT_GPUS, NotKnown, NvidiaSmi
from starforge.containers.secrets import check_secrets_root
from starforge.containers.settings import GpuRuntime
from starforge.errors import StarForgeError
from starforge_console.errors import SettingsError
from starforge_console.settings.console import ConsoleSettings, FleetKind, LocalSettings

ROOT_JOBS: Final = "jobs run as root in their containers: set FORGE_JOB_UID and FORGE_JOB_GID to a user of their own"

_ENGINE_TIMEOUT_S: Final = 5.0


def check_host(settings: ConsoleSettings) -> None:
    """Look at what would keep the console from starting; changes nothing.

    Raises:
        ProjectError: the secrets folder cannot be used.

    """
    check_secrets_root(settings.paths.secrets_dir)


def find_job_user(settings: ConsoleSettings) -> tuple[int, int]:
    """As `load_job_user`, whatever this process may do. Raises OSError where the storage root is not there."""
    owner, local = settings.storage_root.stat(), settings.local
    uid = owner.st_uid if local.job_uid is None else local.job_uid
    gid = owner.st_gid if local.job_gid is None else local.job_gid
    return uid, gid


def load_job_user(settings: ConsoleSettings) -> tuple[int, int]:
    """User and group of jobs: the settings', else the owner's of the storage root.

    Raises:
        SettingsError: this process could not give an attempt's folder to that user.

    """
    uid, gid = find_job_user(settings)
    if os.geteuid() not in {0, uid}:
        raise SettingsError(
            f"FORGE_JOB_UID {uid} is not this process's user {os.geteuid()}",
            why="without root the console cannot give an attempt's folder to another user",
            next_step="leave FORGE_JOB_UID unset, or run the console as root",
        )
    return uid, gid


def find_obstacles(settings: ConsoleSettings) -> list[str]:
    """What lets the console start and yet wants mending, each with what to do about it. Raises as `load_job_user`."""
    risks = [ROOT_JOBS] if load_job_user(settings)[0] == 0 else []
    if settings.local.default_fleet_kind is not FleetKind.LOCAL:
        return risks  # jobs run on machines that join; this one's engine and GPUs are not asked for anything
    return [*risks, *_ask_engine(settings.local), *_ask_driver(settings.local)]


def _ask_engine(local: LocalSettings) -> Iterator[str]:
    try:
        Engine(str(local.docker_socket), read_timeout_s=_ENGINE_TIMEOUT_S).ping()
    except StarForgeError as error:
        yield (
            f"the Docker engine at {local.docker_socket} does not answer ({error.why or error.what}): no job starts"
            " until it does; start it, or name its socket in FORGE_DOCKER_SOCKET"
        )


def _ask_driver(local: LocalSettings) -> Iterator[str]:
    if local.gpu_runtime is GpuRuntime.NONE:
        return
    survey = NvidiaSmi().survey()
    if isinstance(survey, NotKnown):
        yield (
            f"FORGE_GPU_RUNTIME is {local.gpu_runtime.value}, and the GPUs are not known ({survey.reason}): only jobs"
            f" without GPUs start; mend the driver, or {WITHOUT_GPUS}"
        )
