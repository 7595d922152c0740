"""The console's settings: read from the environment once, checked, and passed in."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError

from starforge.containers.settings import GpuRuntime, find_secrets_root
from starforge.contract.launch import Network, Secret
from starforge_console.errors import SettingsError
from starforge_console.settings.database import DatabaseSettings
from starforge_console.settings.group import AbsolutePath, Group, require_absolute
from starforge_console.settings.kube import KubeSettings
from starforge_console.settings.oidc import OidcSettings
from starforge_console.settings.registries import RegistrySettings
from starforge_console.settings.retention import RetentionSettings
from starforge_console.settings.slurm import SlurmSettings
from starforge_console.settings.webhooks import WebhookSettings

LOG_MAX_BYTES: Final = 2 << 30
_OF_IMAGES: Final = frozenset(
    Path("/", name)
    for name in ("bin", "dev", "etc", "lib", "lib64", "opt", "proc", "root", "run", "sbin", "sys", "tmp", "usr", "var")
)
"""Folders that images bring along; what is mounted there hides them."""


class FleetKind(StrEnum):
    """Kinds of fleets this release can serve."""

    LOCAL = "local"
    NODE = "node"
    SLURM = "slurm"
    KUBERAY = "kuberay"

    @property
    def own_network(self) -> Network | None:
        """The network of a cluster's jobs, which is not ours to choose; None where each fleet has its own."""
        return {FleetKind.SLURM: Network.HOST, FleetKind.KUBERAY: Network.BRIDGE}.get(self)


def _absolute_paths(text: str) -> str:
    for path in text.split(":") if text else ():
        require_absolute(Path(path))
        if Path(path) == Path("/") or ".." in Path(path).parts:
            message = f"must be folders below /, without '..', and {path!r} is none"
            raise ValueError(message)
    return text


def _read_alias(kind: object) -> object:
    """`agent`, as older installs call it, is `node`."""
    return FleetKind.NODE if kind == "agent" else kind


def _default_state_dir() -> Path:
    """`/var/lib/starforge` for root, else `~/.starforge-console`."""
    return Path("/var/lib/starforge") if os.geteuid() == 0 else Path.home() / ".starforge-console"


def _default_storage_root() -> Path | None:
    """None for root, who must set it; else `~/.starforge-storage`."""
    return None if os.geteuid() == 0 else Path.home() / ".starforge-storage"


class PathSettings(DatabaseSettings):
    """Where the console keeps what it must not lose, and where jobs keep theirs."""

    console_state_dir: AbsolutePath = Field(
        default_factory=_default_state_dir,
        description="The ledger, the series and the keys; 0700, on a local disk, not under the storage root.",
    )
    storage_root: AbsolutePath | None = Field(
        default_factory=_default_storage_root,
        description="Runs, blobs and caches; on every machine at the same path.",
    )
    secrets_dir: AbsolutePath = Field(
        default_factory=find_secrets_root, description="Secrets of running jobs; must be a tmpfs."
    )
    data_roots: Annotated[str, AfterValidator(_absolute_paths)] = Field(
        default="",
        description="Folders whose files jobs may name as data or model, separated by colons, on every machine at the "
        "same path; a job may read the whole one around what it names; unset: datasets under the storage root.",
    )


def port_of(address: str) -> int:
    """The port of a HOST:PORT."""
    return int(address.rpartition(":")[2])


class HttpSettings(Group):
    """Where the console listens, and under which addresses others reach it."""

    listen: str = Field(default="127.0.0.1:7080", description="Pages and API: HOST:PORT.", pattern=r"^\S+:\d{1,5}$")
    ingest_listen: str = Field(
        default="0.0.0.0:7081",
        description="Ingest, alone: HOST:PORT.",
        pattern=r"^\S+:\d{1,5}$",
    )
    public_url: str = Field(
        default="http://127.0.0.1:7080",
        description="The one address that pages and install lines name.",
        pattern=r"^https?://\S+$",
    )
    trusted_proxies: str = Field(
        default="",
        description="Addresses or networks of proxies whose X-Forwarded-For is believed, separated by commas.",
        pattern=r"^[0-9A-Fa-f.:/]*(, ?[0-9A-Fa-f.:/]+)*$",
    )
    public_ca_file: AbsolutePath | None = Field(
        default=None,
        description="PEM file of the private CA that signed that address's certificate; install.sh carries it along, "
        "and jobs trust an ingest at https:// by it.",
    )
    ingest_url: str = Field(
        default="http://host.docker.internal:7081",
        description="Ingest as containers reach it.",
        pattern=r"^https?://\S+$",
    )


class LocalSettings(Group):
    """The `local` fleet: the containers of this host."""

    docker_socket: AbsolutePath = Field(
        default=Path("/var/run/docker.sock"), description="The socket of this host's Docker engine."
    )
    gpu_runtime: GpuRuntime = Field(default=GpuRuntime.NVIDIA, description="How GPUs are attached; never guessed.")
    local_gpu_count: int = Field(default=0, ge=0, le=64, description="Offer at most so many GPUs; 0 offers all.")
    local_gpu_name: str = Field(default="", description="Name of the made-up GPUs of FORGE_GPU_RUNTIME=none.")
    default_fleet_kind: Annotated[FleetKind | None, BeforeValidator(_read_alias)] = Field(
        default=FleetKind.LOCAL, description="Kind of the fleet that the first start creates."
    )
    job_uid: int | None = Field(default=None, ge=0, description="User of jobs; default: the storage root's owner.")
    job_gid: int | None = Field(default=None, ge=0, description="Group of jobs; default: the storage root's.")


class NodeSettings(Group):
    """Machines that joined a fleet of kind `node`."""

    node_heartbeat_s: float = Field(
        default=10.0, ge=1, le=10, description="How often a node tells how it is; after 30 s of silence it is away."
    )
    node_request_timeout_s: float = Field(
        default=15.0, gt=0, le=300, description="Longest wait for the answer of a node."
    )
    node_launch_timeout_s: float = Field(
        default=120.0, gt=0, le=3600, description="The same for a launch, of an image that is there already."
    )
    node_addresses: str = Field(
        default="",
        description="Machines without a registration: HOST:PORT, separated by spaces; unread once a node has joined.",
    )
    node_token: SecretStr = Field(default=SecretStr(""), description="What those machines ask for.")


def _default_hf_endpoint() -> str:
    """`HF_ENDPOINT`, else `https://huggingface.co`."""
    return os.environ.get("HF_ENDPOINT") or "https://huggingface.co"


def _default_hf_token() -> SecretStr:
    """`HF_TOKEN`, else none."""
    return SecretStr(os.environ.get("HF_TOKEN", ""))


class HubSettings(Group):
    """The hub that `hf://` names: asked at admission, and fetched from by the console alone."""

    hf_endpoint: str = Field(
        default_factory=_default_hf_endpoint, description="Where the hub answers.", pattern=r"^https?://[^\s@]+$"
    )
    hf_token: SecretStr = Field(
        default_factory=_default_hf_token, description="What the console signs in with there; no job ever gets it."
    )
    hf_timeout_s: float = Field(default=10.0, gt=0, le=60, description="Longest wait of a submission for the hub.")
    hf_unanswered: Literal["refuse", "warn"] = Field(
        default="refuse",
        description="A submission while the hub cannot be asked: refused, or admitted with a warning.",
    )
    hf_stall_s: float = Field(
        default=60.0, ge=1, le=3600, description="A fetch in which so long nothing arrives is begun again."
    )
    hf_fetches: int = Field(default=2, ge=1, le=16, description="So many repositories are fetched at once.")
    hf_cache_max_bytes: int | None = Field(
        default=None,
        ge=0,
        description="More than this of fetched models and datasets is not kept: what no job needs goes, the least "
        "recently used first; unset: everything stays.",
    )

    @property
    def token(self) -> Secret | None:
        """What the console signs in with at the hub, if anything."""
        text = self.hf_token.get_secret_value()
        return Secret(text) if text else None


class LogFormat(StrEnum):
    """How the console's own log is written."""

    JSON = "json"
    CONSOLE = "console"


class LogSettings(Group):
    """The console's own log, on standard error."""

    log_format: LogFormat = Field(default=LogFormat.CONSOLE, description="One line of text or of JSON an entry.")
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="The least important entries that are written."
    )


class PolicySettings(Group):
    """What is admitted, and how long things are kept."""

    image_allow: str = Field(
        default="*",
        description="Images that jobs may use: patterns such as 'registry.corp/train/*:v*', separated by spaces.",
    )
    methods: str = Field(
        default="*",
        description="Methods that are published here: patterns such as 'trl/* custom/custom', separated by spaces; "
        "'trl/sft@1.16.0' publishes that version of the framework alone.",
    )
    workspace_max_bytes: int = Field(
        default=2 << 30, ge=1 << 10, description="The largest packed workspace that is kept, as a plain tar."
    )
    log_max_bytes: int = Field(
        default=LOG_MAX_BYTES,
        ge=1 << 20,
        description="So much of one attempt's log is kept, half of it from its beginning and half from its end; what "
        "lies between shows as missing, and the job goes on.",
    )
    state_reserve_bytes: int | None = Field(
        default=None,
        ge=0,
        description="What logs and curves leave free on the state directory's disk; unset: 256 MiB, or 5 % if smaller.",
    )
    container_retention_s: float = Field(
        default=3600.0, ge=0, description="How long an ended container is kept once its spool was read to the end."
    )
    system_metrics_s: float = Field(
        default=15.0,
        ge=0,
        le=3600,
        description="How often a job's use of GPUs, processor, memory, disk and network is measured; 0: never.",
    )
    reconcile_s: float = Field(default=15.0, gt=0, le=600, description="Longest time between two looks at a backend.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleSettings:
    """All settings, one frozen group per concern."""

    paths: PathSettings
    http: HttpSettings
    local: LocalSettings
    node: NodeSettings = field(default_factory=NodeSettings)
    slurm: SlurmSettings = field(default_factory=SlurmSettings)
    kube: KubeSettings = field(default_factory=KubeSettings)
    hub: HubSettings = field(default_factory=HubSettings)
    registry: RegistrySettings = field(default_factory=RegistrySettings)
    policy: PolicySettings
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    webhooks: WebhookSettings = field(default_factory=WebhookSettings)
    oidc: OidcSettings = field(default_factory=OidcSettings)
    log: LogSettings = field(default_factory=LogSettings)

    @property
    def data_roots(self) -> tuple[Path, ...]:
        """The folders below which jobs may name data and models."""
        text = self.paths.data_roots
        return tuple(map(Path, text.split(":"))) if text else (self.storage_root / "datasets",)

    @property
    def storage_root(self) -> Path:
        """The storage root; settings without one cannot be loaded."""
        if self.paths.storage_root is None:
            raise _no_storage_root()
        return self.paths.storage_root


_GROUPS: Final[Mapping[str, type[Group]]] = {one.name: cast("type[Group]", one.type) for one in fields(ConsoleSettings)}
GROUPS: Final = tuple(_GROUPS.values())


def load_settings() -> ConsoleSettings:
    """The settings of this process's environment.

    Raises:
        SettingsError: with every fault at once, each with the name of its variable.

    """
    faults: list[str] = []
    loaded = {name: _load_group(group, faults) for name, group in _GROUPS.items()}
    if faults:
        raise SettingsError(
            f"{len(faults)} settings cannot be used" if len(faults) != 1 else "a setting cannot be used",
            why="; ".join(faults),
            next_step="correct what is listed and start again",
        )
    settings = ConsoleSettings(**cast("Any", loaded))
    if settings.paths.storage_root is None:
        raise _no_storage_root()
    state, storage = settings.paths.console_state_dir, settings.paths.storage_root
    if state == storage or storage in state.parents:
        raise SettingsError(
            f"FORGE_CONSOLE_STATE_DIR {state} lies under FORGE_STORAGE_ROOT {storage}",
            why="every machine could read the ledger and the keys there",
            next_step="put the state directory on a local disk outside of the storage root",
        )
    _refuse_roots_around(settings)
    return settings


def _refuse_roots_around(settings: ConsoleSettings) -> None:
    """Jobs that read below a data root see the whole of it, in place of what their image holds there."""
    paths = settings.paths
    for root in settings.data_roots:
        real = root.resolve()  # the folder itself is mounted, whatever link leads to it
        owned = (settings.storage_root, paths.console_state_dir, paths.secrets_dir)
        inside = [own for own in owned if own.is_relative_to(root) or own.resolve().is_relative_to(real)]
        if inside:
            raise SettingsError(
                f"FORGE_DATA_ROOTS names {root}, and {inside[0]} lies there",
                why="every job that reads below a data root is given the whole of it: it would see what is the "
                "console's and other jobs'",
                next_step="name a folder that holds nothing but models and data",
            )
        if root in _OF_IMAGES or real in _OF_IMAGES:
            raise SettingsError(
                f"FORGE_DATA_ROOTS names {root}",
                why="it would be mounted in jobs in place of the image's own folder of that name",
                next_step="name the folders below it that hold models and data",
            )


def unknown_names(environment: dict[str, str]) -> list[str]:
    """FORGE_ variables that no setting reads: most often a typing error."""
    known = {f"FORGE_{name}".upper() for group in GROUPS for name in group.model_fields}
    return sorted(name for name in environment if name.startswith("FORGE_") and name not in known)


def _load_group(group: type[Group], faults: list[str]) -> Group | None:
    try:
        return group()
    except ValidationError as error:
        faults += [
            ": ".join([*(f"FORGE_{one}".upper() for one in fault["loc"][:1]), fault["msg"]]) for fault in error.errors()
        ]
        return None


def _no_storage_root() -> SettingsError:
    return SettingsError(
        "FORGE_STORAGE_ROOT is not set",
        why="it is the folder that holds runs and blobs, and root has no default for it",
        next_step="set it to a folder that console and machines see at the same path",
    )
