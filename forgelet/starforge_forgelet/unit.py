"""The systemd unit of the daemon. Pure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

PREFIX: Final = Path("/opt/starforge/forgelet")
STATE_DIR: Final = Path("/var/lib/starforge-forgelet")
SETTINGS_FILE: Final = Path("/etc/starforge/forgelet.env")

_STATE_ROOT: Final = Path("/var/lib")
_TEMPLATE: Final = """\
[Unit]
Description=forgelet, the StarForge daemon of this GPU machine
Wants=network-online.target
# Ordered after the engine and the share, and not bound to them: the daemon tells the console when they are gone.
After=network-online.target remote-fs.target docker.service containerd.service
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={prefix}/current/bin/forgelet serve --port {port}
Environment={environment}
EnvironmentFile=-{settings}
{state}UMask=0077
# Secrets of running jobs lie there, and their containers outlive the daemon.
RuntimeDirectory=starforge
RuntimeDirectoryMode=0711
RuntimeDirectoryPreserve=yes
Restart=always
RestartSec=2
# Containers are outside of this unit's cgroup; the daemon's own helpers end with it.
KillMode=mixed
TimeoutStopSec=20
OOMScoreAdjust=-500
LimitNOFILE=65536
# No PrivateTmp, PrivateDevices or ProtectHome: the engine has to see the same files and devices as the daemon.
NoNewPrivileges=yes
ProtectSystem=full
ProtectKernelTunables=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """How forgelet is installed: `current` below `prefix` is the version that runs.

    Attributes:
        ca_file: The console's private CA; None when its certificate is a public one.

    """

    prefix: Path = PREFIX
    state_dir: Path = STATE_DIR
    port: int
    ca_file: Path | None = None


def build_unit(installed: Installed) -> str:
    """The unit's text. Settings in the environment file win over those in the unit."""
    variables = [f'"FORGE_NODE_STATE_DIR={_escape(installed.state_dir)}"']
    if installed.ca_file is not None:
        variables.append(f'"SSL_CERT_FILE={_escape(installed.ca_file)}"')
    return _TEMPLATE.format(
        prefix=_escape(installed.prefix),
        port=installed.port,
        environment=" ".join(variables),
        settings=SETTINGS_FILE,
        state=_build_state(installed.state_dir),
    )


def _build_state(folder: Path) -> str:
    """Only folders below /var/lib are made by systemd; elsewhere joining has made it."""
    if folder.parent != _STATE_ROOT:
        return ""
    return f"StateDirectory={folder.name}\nStateDirectoryMode=0700\n"


def _escape(path: Path) -> str:
    """What begins with a percent sign would be expanded by systemd."""
    return str(path).replace("%", "%%")
