"""Settings of a Slurm cluster, which one fleet of kind `slurm` stands for."""

import re
from collections.abc import Sequence
from typing import Annotated, Final, Literal, NamedTuple, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from starforge_console.errors import SettingsError
from starforge_console.settings.group import AbsolutePath, Group

_PAIR: Final = re.compile(r"[^=\s]+=gpu(:[^=:,()\s]+)?")
_USER: Final = re.compile(r"\S+\s+[A-Za-z0-9._-]+\s+[0-9]{1,10}\s+[0-9]{1,10}")
_MOST_ID: Final = 2**32 - 2
_SCHEMES: Final = ("http://", "https://", "unix:///")


def _address(text: str) -> str:
    if text and not text.startswith(_SCHEMES):
        message = f"must begin with {', '.join(_SCHEMES)}"
        raise ValueError(message)
    if "@" in text:
        message = "must hold no user and no password: FORGE_SLURM_USER names the user"
        raise ValueError(message)
    if text.startswith("http") and not _has_host(text):
        message = "must name a host and a port that there can be, as in http://slurm-head:6820"
        raise ValueError(message)
    return text.rstrip("/")


def _has_host(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return bool(parts.hostname) and parts.port != 0 and text.isascii() and not any(map(str.isspace, text))
    except ValueError:  # a bracket that is not closed, a port that is none
        return False


def _token(value: SecretStr) -> SecretStr:
    text = value.get_secret_value()
    if not text.isascii() or any(map(str.isspace, text)):
        message = "must be a token alone: letters, digits, dots, dashes and underscores"
        raise ValueError(message)
    return value


def _pairs(text: str) -> str:
    """The pairs, each series in small letters, as jobs ask for it; Slurm's types are left to the letter."""
    seen = set[str]()
    pairs = [_lower_series(pair) for pair in text.split()]
    for pair in pairs:
        if not _PAIR.fullmatch(pair):
            message = f"must be pairs such as h200=gpu:h200, or h200=gpu, separated by spaces, and {pair!r} is none"
            raise ValueError(message)
        twice = seen & {*pair.split("=")}
        if twice:
            message = f"must name each series and each type of GPU once, and {min(twice)!r} stands there twice"
            raise ValueError(message)
        seen |= {*pair.split("=")}
    return " ".join(pairs)


def _lower_series(pair: str) -> str:
    series, equals, gres = pair.partition("=")
    return f"{series.lower()}{equals}{gres}"


class SlurmSettings(Group):
    """A Slurm cluster that jobs are sent to through slurmrestd; unset: none."""

    slurm_url: Annotated[str, AfterValidator(_address)] = Field(
        default="",
        description="Where slurmrestd answers: http://HOST:PORT or unix:///PATH; unset: there is no Slurm.",
    )
    slurm_user: str = Field(
        default="", pattern=r"^[A-Za-z0-9._-]*$", description="The Slurm user that the console signs in as."
    )
    slurm_token: Annotated[SecretStr, AfterValidator(_token)] = Field(
        default=SecretStr(""), description="A JSON Web Token of that user."
    )
    slurm_token_file: AbsolutePath | None = Field(
        default=None, description="A file with such a token, which something else keeps fresh; read for every call."
    )
    slurm_key_file: AbsolutePath | None = Field(
        default=None, description="The cluster's own key (jwt_hs256.key): the console signs tokens with it by itself."
    )
    slurm_partition: str = Field(
        default="",
        description="Partition of every job; unset: the only one, or the default, which REST v0.0.40 and later hide.",
    )
    slurm_account: str = Field(default="", description="Account that jobs are charged to.")
    slurm_qos: str = Field(default="", description="Quality of service of every job.")
    slurm_constraint: str = Field(default="", description="Features that the machines of every job must have.")
    slurm_runtime: Literal["none", "apptainer", "enroot", "docker"] | None = Field(
        default=None, description="How a job's image runs on the machines; none: no image, on the machine itself."
    )
    slurm_gres: Annotated[str, AfterValidator(_pairs)] = Field(
        default="",
        description="What asks for GPUs of a series, as in 'h200=gpu:h200 l40s=gpu:l40s'; unset: the cluster's types.",
    )
    slurm_job_user: Literal["service", "submitter"] = Field(
        default="service", description="Who jobs run as: FORGE_SLURM_USER, or the Unix user of whoever submitted."
    )
    slurm_user_map: AbsolutePath | None = Field(
        default=None,
        description="For FORGE_SLURM_JOB_USER=submitter: a file with a line 'ACCOUNT USER UID GID' for each account.",
    )
    slurm_timeout_s: float = Field(
        default=15.0, gt=0, le=300, description="Longest wait for a whole answer of slurmrestd."
    )

    slurm_poll_s: float = Field(default=5.0, ge=0.2, le=60, description="How often the cluster is asked what changed.")

    @property
    def gres(self) -> dict[str, str]:
        """What asks for GPUs of each series; empty where the cluster's types speak for themselves."""
        pairs = (pair.partition("=") for pair in self.slurm_gres.split())
        return {series: gres for series, _, gres in pairs}

    @property
    def is_bare(self) -> bool:
        """Whether jobs run on the machines themselves, without a container."""
        return self.slurm_runtime == "none"

    @property
    def is_set(self) -> bool:
        """Whether there is a cluster."""
        return bool(self.slurm_url)

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if not self.is_set:
            return self
        sources = [bool(self.slurm_token.get_secret_value()), self.slurm_token_file, self.slurm_key_file]
        if sum(map(bool, sources)) != 1 and (any(sources) or not self.slurm_url.startswith("unix:")):
            message = "set exactly one of FORGE_SLURM_TOKEN, FORGE_SLURM_TOKEN_FILE and FORGE_SLURM_KEY_FILE"
            raise ValueError(message)
        if not self.slurm_user:
            message = "FORGE_SLURM_USER must be set with FORGE_SLURM_URL"
            raise ValueError(message)
        if self.slurm_job_user == "submitter" and not (self.slurm_key_file and self.slurm_user_map):
            message = "FORGE_SLURM_JOB_USER=submitter needs FORGE_SLURM_KEY_FILE and FORGE_SLURM_USER_MAP"
            raise ValueError(message)
        if self.slurm_runtime is None:
            message = "FORGE_SLURM_RUNTIME must say how images run: none, apptainer, enroot or docker"
            raise ValueError(message)
        return self


class ClusterUser(NamedTuple):
    """A user of a cluster's machines, by name and by numbers."""

    name: str
    uid: int
    gid: int


def load_submitters(settings: SlurmSettings) -> dict[str, ClusterUser]:
    """The cluster's user of each account here; empty where every job runs as the console's.

    Raises:
        SettingsError: the file cannot be read, or a line of it, or it names nobody.

    """
    if settings.slurm_job_user != "submitter" or settings.slurm_user_map is None:
        return {}
    path, found = settings.slurm_user_map, dict[str, ClusterUser]()
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"FORGE_SLURM_USER_MAP {path} cannot be read", why=str(error)) from error
    for place, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if not _is_user(words) or words[0] in found:
            raise SettingsError(
                f"FORGE_SLURM_USER_MAP {path}, line {place}: {line[:80]!r} is no user of an account",
                why="a line is ACCOUNT USER UID GID, each account has one, and nobody's jobs run as root",
                next_step="correct the line and start again",
            )
        found[words[0]] = ClusterUser(words[1], int(words[2]), int(words[3]))
    if not found:
        raise SettingsError(
            f"FORGE_SLURM_USER_MAP {path} names no account",
            why="FORGE_SLURM_JOB_USER=submitter runs each job as its submitter's own user, and nobody has one",
            next_step="write a line ACCOUNT USER UID GID for each account, or unset FORGE_SLURM_JOB_USER",
        )
    return found


def _is_user(words: Sequence[str]) -> bool:
    return bool(_USER.fullmatch(" ".join(words))) and 0 < int(words[2]) <= _MOST_ID and int(words[3]) <= _MOST_ID
