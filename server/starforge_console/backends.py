"""Builds the executor of each fleet: this machine's engine, or the daemons of its nodes."""

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starforge.containers.engine import Engine
from starforge.containers.gpus import GpuSource, MadeUpGpus, NvidiaSmi
from starforge.containers.host import ContainerHost
from starforge.containers.settings import GpuRuntime, HostSettings, StorageMark
from starforge.contract.executor import Executor
from starforge.contract.launch import Secret
from starforge_console.assembly.layout import StorageLayout
from starforge_console.errors import SettingsError
from starforge_console.executors.local import LocalExecutor
from starforge_console.fleets.console_key import KEY_FILE
from starforge_console.fleets.directory import Directory
from starforge_console.fleets.hardware import HardwareRegistry
from starforge_console.fleets.install import Install
from starforge_console.ledger.fleets import Fleet
from starforge_console.settings.console import ConsoleSettings, FleetKind
from starforge_console.settings.kube import Selection, load_pod_file
from starforge_console.settings.slurm import SlurmSettings, load_submitters

if TYPE_CHECKING:
    from starforge_console.executors.kuberay.settings import KubeSettings as Namespace
    from starforge_console.executors.kuberay.settings import Toleration
    from starforge_console.executors.slurm.settings import ClusterSettings, TokenSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Backends:
    """What executors are built from."""

    settings: ConsoleSettings
    install: Install
    storage: StorageLayout
    directory: Directory
    hardware: HardwareRegistry

    def build(self, fleet: Fleet) -> Executor:
        """The executor that serves `fleet`. Raises SettingsError for a kind that this release does not serve."""
        if fleet.kind == FleetKind.LOCAL:
            return self._build_local(fleet)
        if fleet.kind == FleetKind.NODE:
            return self._build_node(fleet)
        if fleet.kind == FleetKind.SLURM:
            return self._build_slurm(fleet)
        if fleet.kind == FleetKind.KUBERAY:
            return self._build_kube(fleet)
        raise SettingsError(
            f"fleet {fleet.name!r} is of kind {fleet.kind!r}, which this release does not serve",
            next_step="run a release that serves it",
        )

    def _build_node(self, fleet: Fleet) -> Executor:
        from starforge_console.executors.node.fleet import NodeExecutor  # noqa: PLC0415 - brings in a client of HTTP
        from starforge_console.executors.node.link import LinkSettings  # noqa: PLC0415 - the same

        node = self.settings.node
        token = node.node_token.get_secret_value()
        self.directory.serve_legacy(fleet.name, node.node_addresses.split())
        settings = LinkSettings(
            install=self.install.id,
            storage_id=self.install.storage_id,
            key_file=self.settings.paths.console_state_dir / KEY_FILE,
            request_timeout_s=node.node_request_timeout_s,
            launch_timeout_s=node.node_launch_timeout_s,
            legacy_token=Secret(token) if token else None,
        )
        return NodeExecutor(fleet.name, self.directory, settings, self.hardware.find)

    def _build_slurm(self, fleet: Fleet) -> Executor:
        from starforge_console.executors.slurm.executor import SlurmExecutor  # noqa: PLC0415 - brings in a client of HTTP

        return SlurmExecutor(build_cluster_settings(self.settings, self.install.id, fleet.name), self.hardware.find)

    def _build_kube(self, fleet: Fleet) -> Executor:
        from starforge_console.executors.kuberay.executor import KubeRayExecutor  # noqa: PLC0415 - brings in a client of HTTP

        return KubeRayExecutor(build_namespace_settings(self.settings, self.install.id, fleet.name), self.hardware.find)

    def _build_local(self, fleet: Fleet) -> Executor:
        local, paths = self.settings.local, self.settings.paths
        host_settings = HostSettings(
            install=self.install.id,
            node=socket.gethostname(),
            state_dir=paths.console_state_dir / "host",
            secrets_root=paths.secrets_dir / self.install.id,  # a daemon of another install may share it
            gpu_runtime=local.gpu_runtime,
            storage=StorageMark(root=self.storage.root, content=self.install.storage_id),
        )
        gpus: GpuSource = NvidiaSmi(local.local_gpu_count)
        if local.gpu_runtime is GpuRuntime.NONE:
            gpus = MadeUpGpus(local.local_gpu_count, local.local_gpu_name or "made-up GPU", socket.gethostname())
        host = ContainerHost(Engine(str(local.docker_socket)), gpus, host_settings)
        return LocalExecutor(host, fleet.name, self.hardware.find)


def build_cluster_settings(settings: ConsoleSettings, install: str, fleet: str) -> "ClusterSettings":
    """The Slurm cluster of the settings, which `fleet` stands for. Raises SettingsError where none is set."""
    from starforge_console.executors.slurm import settings as slurm  # noqa: PLC0415 - with its kind

    given = settings.slurm
    if not given.is_set or given.slurm_runtime is None:
        raise SettingsError(
            f"fleet {fleet!r} stands for a Slurm cluster, and FORGE_SLURM_URL is not set",
            next_step="set the cluster's settings, or delete the fleet: sf fleet delete",
        )
    return slurm.ClusterSettings(
        fleet=fleet,
        install=install,
        url=given.slurm_url,
        user=given.slurm_user,
        state_dir=settings.paths.console_state_dir / "slurm" / fleet,
        storage_root=settings.storage_root,
        token=_find_token(given),
        submitters=load_submitters(given),
        partition=given.slurm_partition,
        account=given.slurm_account,
        qos=given.slurm_qos,
        constraint=given.slurm_constraint,
        runtime=slurm.Runtime(given.slurm_runtime),
        gres=given.gres,
        request_timeout_s=given.slurm_timeout_s,
        poll_s=given.slurm_poll_s,
    )


def build_namespace_settings(settings: ConsoleSettings, install: str, fleet: str) -> "Namespace":
    """The cluster and the namespace of the settings, which `fleet` stands for.

    Raises:
        SettingsError: none is set, or FORGE_KUBE_POD_FILE cannot be used.

    """
    from starforge_console.executors.kuberay import settings as kube  # noqa: PLC0415 - with its kind

    given = settings.kube
    if not given.is_set:
        raise SettingsError(
            f"fleet {fleet!r} stands for a Kubernetes cluster, and FORGE_KUBE_CONFIG is not set",
            next_step="set the cluster's settings, or delete the fleet: sf fleet delete",
        )
    pods = load_pod_file(given)
    claims = {folder: kube.Claim(name=one.claim, path=one.path) for folder, one in pods.claims.items()}
    own = kube.Claim(name=given.kube_claim, path=given.kube_claim_path)
    return kube.KubeSettings(
        fleet=fleet,
        install=install,
        namespace=given.kube_namespace,
        state_dir=settings.paths.console_state_dir / "kuberay" / fleet,
        claims={**claims, str(settings.storage_root): own},
        kubeconfig=given.kube_config,
        context=given.kube_context,
        image_pull_secrets=tuple(given.kube_pull_secrets.split()),
        service_account=given.kube_service_account,
        queue=given.kube_queue,
        gpu_resource=given.kube_gpu_resource,
        node_selector=pods.node_selector,
        tolerations=_build_tolerations(pods),
        series={
            name: kube.SeriesRules(node_selector=one.node_selector, tolerations=_build_tolerations(one))
            for name, one in pods.series.items()
        },
        labels=pods.labels,
        annotations=pods.annotations,
        request_timeout_s=given.kube_timeout_s,
    )


def _build_tolerations(given: Selection) -> "tuple[Toleration, ...]":
    from starforge_console.executors.kuberay.settings import Toleration  # noqa: PLC0415 - with its kind

    return tuple(
        Toleration(key=one.key or "", operator=one.operator, value=one.value or "", effect=one.effect or "")
        for one in given.tolerations
    )


def _find_token(given: SlurmSettings) -> "TokenSource":
    from starforge_console.executors.slurm.settings import SigningKey, StaticToken, TokenFile  # noqa: PLC0415 - with its kind

    if given.slurm_key_file is not None:
        return SigningKey(given.slurm_key_file)
    if given.slurm_token_file is not None:
        return TokenFile(given.slurm_token_file)
    token = given.slurm_token.get_secret_value()
    return StaticToken(Secret(token)) if token else None
