"""The configuration of a private Slurm: what makes it start in a second without systemd, accounting or real GPUs."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

GPU_MAJOR: Final = 195
_PLUGINS: Final = ("/usr/lib/*/slurm-wlm", "/usr/lib/*/slurm", "/usr/lib64/slurm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conf:
    """A cluster of as many nodes as there are ports.

    Attributes:
        slot: A number that no other cluster of this host has; its nodes and cgroups are named after it.
        gpus: How many each node has.
        min_job_age_s: How long an ended job is remembered.
        requeues: Whether a job is queued again by itself when its node fails.
        api: The versions that the REST daemon serves.
        limits_memory: Whether a job is killed that uses more memory than it asked for.

    """

    slot: int
    controller_port: int
    rest_port: int
    node_ports: tuple[int, ...]
    gpus: int = 4
    min_job_age_s: int = 300
    requeues: bool = False
    limits_memory: bool = False
    kill_wait_s: int = 3
    node_timeout_s: int = 30
    api: str = "openapi/v0.0.38,openapi/v0.0.37"

    @property
    def host(self) -> str:
        """What the host calls itself inside."""
        return f"lab{self.slot}"

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes' names."""
        return tuple(f"s{self.slot}n{number}" for number in range(1, len(self.node_ports) + 1))


def write_conf(root: Path, conf: Conf) -> None:
    """Write slurm.conf, gres.conf and cgroup.conf below `root`."""
    etc = root / "etc"
    for number in range(conf.gpus):
        # Only the number of a real device file reaches a job; nothing ever opens it.
        os.mknod(root / "dev" / f"nvidia{number}", stat.S_IFCHR | 0o600, os.makedev(GPU_MAJOR, number))
    (etc / "slurm.conf").write_text(_build_slurm_conf(root, conf))
    (etc / "gres.conf").write_text(f"AutoDetect=off\nName=gpu Type=h200 File={root}/dev/nvidia[0-{conf.gpus - 1}]\n")
    limits = "ConstrainRAMSpace=yes\nConstrainSwapSpace=yes\nAllowedSwapSpace=0\n" if conf.limits_memory else ""
    (etc / "cgroup.conf").write_text(f"CgroupPlugin=cgroup/v1\n{limits}")
    for path in etc.glob("*.conf"):
        path.chmod(0o644)


def find_folder_of_plugins() -> Path | None:
    """Where Slurm's plugins lie, the one for tokens among them."""
    found = [path.parent for form in _PLUGINS for path in Path("/").glob(f"{form[1:]}/auth_jwt.so")]
    return found[0] if found else None


def _build_slurm_conf(root: Path, conf: Conf) -> str:
    values = {
        "ClusterName": "lab",
        "SlurmctldHost": f"{conf.host}(127.0.0.1)",
        "SlurmctldPort": conf.controller_port,
        "SlurmUser": "slurm",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={root}/run/munge.sock",
        "CredType": "cred/munge",
        "AuthAltTypes": "auth/jwt",
        "AuthAltParameters": f"jwt_key={root}/etc/jwt_hs256.key",
        "StateSaveLocation": f"{root}/ctld",
        "SlurmdSpoolDir": f"{root}/spool/%n",
        "SlurmctldPidFile": f"{root}/run/slurmctld.pid",
        "SlurmdPidFile": f"{root}/run/slurmd.%n.pid",
        "SlurmctldLogFile": f"{root}/log/slurmctld.log",
        "SlurmdLogFile": f"{root}/log/slurmd.%n.log",
        "ProctrackType": "proctrack/cgroup",
        "TaskPlugin": "task/cgroup" if conf.limits_memory else "task/none",
        "JobAcctGatherType": "jobacct_gather/none",
        "AccountingStorageType": "accounting_storage/none",
        "MpiDefault": "none",
        "SwitchType": "switch/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU_Memory",
        "SchedulerType": "sched/backfill",
        "SchedulerParameters": "sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0",
        "GresTypes": "gpu",
        "SlurmdParameters": "config_overrides",
        "ReturnToService": 1,
        "JobRequeue": int(conf.requeues),
        "SlurmctldTimeout": 30,
        "SlurmdTimeout": conf.node_timeout_s,
        "InactiveLimit": 0,
        "MinJobAge": conf.min_job_age_s,
        "KillWait": conf.kill_wait_s,
        "Waittime": 0,
        "PluginDir": find_folder_of_plugins(),
    }
    return (
        "\n".join([*(f"{name}={value}" for name, value in values.items()), *_list_nodes(conf), *_list_partitions(conf)])
        + "\n"
    )


def _list_nodes(conf: Conf) -> list[str]:
    size = "CPUs=32 Boards=1 SocketsPerBoard=1 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=200000"
    return [
        f"NodeName={node} NodeHostname={conf.host} NodeAddr=127.0.0.1 Port={port} {size}"
        f" Gres=gpu:h200:{conf.gpus} State=UNKNOWN"
        for node, port in zip(conf.nodes, conf.node_ports, strict=True)
    ]


def _list_partitions(conf: Conf) -> list[str]:
    first, always = conf.nodes[0], "MaxTime=INFINITE DefaultTime=60 DefMemPerCPU=100"
    return [
        f"PartitionName=main Nodes={','.join(conf.nodes)} Default=YES State=UP {always}",
        f"PartitionName=solo Nodes={first} State=UP {always}",
        f"PartitionName=closed Nodes={first} State=DOWN {always}",
        f"PartitionName=theirs Nodes={first} State=UP AllowAccounts=physics {always}",
        f"PartitionName=short Nodes={first} State=UP MaxTime=1 DefaultTime=1 DefMemPerCPU=100",
    ]
