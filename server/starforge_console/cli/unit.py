"""`starforge-console unit`: the systemd unit that fits this machine's settings."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from starforge_console.cli.opening import read_settings

SETTINGS_FILE: Final = Path("/etc/starforge/console.env")

_STATE_ROOT: Final = Path("/var/lib")
_RUN: Final = Path("/run")
_HOMES: Final = (Path("/home"), Path("/root"), Path("/run/user"))
_SIGNS: Final = "\"'\\:$"
"""What systemd would read as something else, in one place of the unit or another."""
_FIRST_FREE_PORT: Final = 1024
_CAPABILITIES: Final = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_KILL")
_LOW_PORTS: Final = "CAP_NET_BIND_SERVICE"
_TEMPLATE: Final = """\
[Unit]
Description=StarForge console
Wants=network-online.target
# Ordered after the engine and not bound to it: while it is away the console waits, and jobs run on.
After=network-online.target remote-fs.target docker.service containerd.service
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={program} serve
EnvironmentFile={settings}
{folders}UMask=0077
# Containers are outside of this unit's cgroup: a stop ends the console alone.
KillMode=mixed
TimeoutStopSec=30
Restart=always
RestartSec=2
OOMScoreAdjust=-500
LimitNOFILE=65536

# The console may write where it keeps its own, and read the rest of the machine.
ProtectSystem=strict
{writable}# Starts on one engine wait for each other at a lock there.
ReadWritePaths=-/run/lock
ProtectHome={homes}
PrivateTmp=yes
{devices}
# Files of jobs belong to other users: it gives them away, and reads and removes what they left.
CapabilityBoundingSet={bounding}
AmbientCapabilities={ambient}
NoNewPrivileges=yes
RestrictSUIDSGID=yes
# The engine's socket, and addresses of people, machines, registries and hubs.
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallFilter=@chown
SystemCallErrorNumber=EPERM
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectProc=invisible

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What the unit must know: the program, and where the console keeps what is its own.

    Attributes:
        has_gpus: The console itself asks the driver of this machine's GPUs.
        ports: Those that it listens on.

    """

    program: Path
    settings: Path = SETTINGS_FILE
    state: Path
    storage: Path
    secrets: Path
    has_gpus: bool
    ports: Sequence[int] = ()


@click.command()
@click.option(
    "--settings-file",
    type=click.Path(path_type=Path),
    default=str(SETTINGS_FILE),
    show_default=True,
    help="The file with the console's FORGE_* variables.",
)
def unit(settings_file: Path) -> None:
    """Print a systemd unit that serves the console and lets it do nothing else.

    It is made for the settings in the environment: set what that file says before you call this, and print it anew when
    a folder or FORGE_GPU_RUNTIME changes.
    """
    from starforge.containers.settings import GpuRuntime  # noqa: PLC0415 - a help text needs none of it
    from starforge.errors import InputError  # noqa: PLC0415 - the same
    from starforge_console.settings.console import FleetKind, port_of  # noqa: PLC0415 - the same

    settings = read_settings()
    is_local = settings.local.default_fleet_kind is FleetKind.LOCAL
    served = Served(
        program=Path(sys.executable).with_name("starforge-console"),
        settings=settings_file,
        state=settings.paths.console_state_dir,
        storage=settings.storage_root,
        secrets=settings.paths.secrets_dir,
        has_gpus=is_local and settings.local.gpu_runtime is not GpuRuntime.NONE,
        ports=[port_of(address) for address in (settings.http.listen, settings.http.ingest_listen)],
    )
    for path in (served.program, served.settings, served.state, served.storage, served.secrets):
        text = str(path)
        if not path.is_absolute() or not text.isprintable() or any(one.isspace() or one in _SIGNS for one in text):
            raise InputError(
                f"{text!r} cannot stand in a unit",
                why="systemd would read it as something else",
                next_step="name an absolute path without blanks, quotes, colons, backslashes, dollar and control signs",
            )
    click.echo(build_unit(served), nl=False)


def build_unit(served: Served) -> str:
    """The unit's text."""
    folders, writable = "", [served.storage]
    if served.state.parent == _STATE_ROOT:
        folders += f"StateDirectory={_escape(served.state.name)}\nStateDirectoryMode=0700\n"
    else:
        writable.append(served.state)
    if served.secrets.parent == _RUN:
        folders += (
            "# Secrets of running jobs lie there, and their containers outlive the console.\n"
            f"RuntimeDirectory={_escape(served.secrets.name)}\nRuntimeDirectoryMode=0711\nRuntimeDirectoryPreserve=yes\n"
        )
    else:
        writable.append(served.secrets)
    low = [_LOW_PORTS] if any(0 < port < _FIRST_FREE_PORT for port in served.ports) else []
    at_home = any(path.is_relative_to(home) for path in (served.program, *writable) for home in _HOMES)
    return _TEMPLATE.format(
        program=_escape(served.program),
        settings=_escape(served.settings),
        folders=folders,
        writable="".join(f"ReadWritePaths={_escape(path)}\n" for path in writable),
        homes="read-only" if at_home else "yes",
        bounding=" ".join([*_CAPABILITIES, *low]),
        ambient=" ".join(low),
        devices=(
            "# No PrivateDevices: nvidia-smi asks the driver through its devices."
            if served.has_gpus
            else "PrivateDevices=yes"
        ),
    )


def _escape(path: Path | str) -> str:
    """What begins with a percent sign would be expanded by systemd."""
    return str(path).replace("%", "%%")
