"""Builds the executor of each fleet: this machine's engine, or the daemons of its nodes."""

import socket
from dataclasses import dataclass

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
