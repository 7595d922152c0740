"""What the executor must know of a cluster, and as whom it speaks to it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from starforge.contract.launch import Secret
from starforge_console.settings.slurm import ClusterUser

TOKEN_LIFETIME_S: Final = 1800.0
"""How long a token of our own making is good for; it is renewed at half of that."""


class Runtime(StrEnum):
    """What runs an attempt's command on a node."""

    NONE = "none"
    APPTAINER = "apptainer"
    ENROOT = "enroot"
    DOCKER = "docker"


@dataclass(frozen=True, slots=True)
class StaticToken:
    """A token that somebody made by hand."""

    token: Secret


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file that somebody else keeps fresh; it is read for every call."""

    path: Path


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The cluster's own key (HS256): tokens are made here, for every user, and renewed well before they end."""

    path: Path
    lifetime_s: float = TOKEN_LIFETIME_S


TokenSource: TypeAlias = StaticToken | TokenFile | SigningKey | None
"""None: the daemon knows us by the user of our process, as on a unix socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """One cluster, as the executor needs it: what `settings.slurm.SlurmSettings` says, read and put together.

    Attributes:
        url: Of the REST daemon: http(s)://HOST:PORT, or unix:///PATH.
        user: The cluster's user that the console is; its jobs run as that user unless `submitters` has others.
        token: Where its tokens come from; with `submitters` it must be a SigningKey.
        submitters: The cluster's user of each account here; empty where every job runs as `user`.
        state_dir: Where this executor keeps what must outlive it; the console's own disk.
        storage_root: The folder that console and nodes see under one path.
        gres: What a series is called in the cluster, `gpu:TYPE` by series; empty: types speak for themselves.
        poll_s: How often the cluster is looked at for changes.

    """

    fleet: str
    install: str
    url: str
    user: str
    state_dir: Path
    storage_root: Path
    token: TokenSource = field(default=None, repr=False)
    submitters: Mapping[str, ClusterUser] = field(default_factory=dict)
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    runtime: Runtime = Runtime.NONE
    gres: Mapping[str, str] = field(default_factory=dict)
    request_timeout_s: float = 30.0
    poll_s: float = 5.0
