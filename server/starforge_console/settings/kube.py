"""Settings of a Kubernetes cluster with KubeRay, which one fleet of kind `kuberay` stands for."""

from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from starforge.recipes.yaml12 import read_yaml
from starforge_console.errors import SettingsError
from starforge_console.settings.group import AbsolutePath, Group

_NAME: Final = r"^([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?)?$"
_NAMES: Final = r"^([a-z0-9]([a-z0-9.-]*[a-z0-9])?( +|$))*$"


def _within(text: str) -> str:
    if text and (Path(text).is_absolute() or {"..", "."} & set(text.split("/")) or "" in text.split("/")):
        message = "must be a folder inside of the volume, such as team/storage"
        raise ValueError(message)
    return text


_Within = Annotated[str, AfterValidator(_within)]


class KubeSettings(Group):
    """A Kubernetes cluster whose KubeRay operator runs jobs; unset: none."""

    kube_config: AbsolutePath | None = Field(
        default=None, description="A kubeconfig file: where the API server is, and as whom the console speaks to it."
    )
    kube_context: str = Field(default="", description="The context of that file; unset: its current one.")
    kube_in_cluster: bool = Field(
        default=False, description="In place of a kubeconfig: the console runs in the cluster, as its service account."
    )
    kube_namespace: str = Field(default="", pattern=_NAME, description="The namespace that holds all jobs.")
    kube_claim: str = Field(
        default="", pattern=_NAME, description="The volume claim of that namespace that holds the storage root."
    )
    kube_claim_path: _Within = Field(
        default="", description="The folder of that volume that is the storage root; unset: all of it."
    )
    kube_gpu_resource: str = Field(
        default="nvidia.com/gpu", pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", description="What a GPU is called there."
    )
    kube_pull_secrets: str = Field(
        default="", pattern=_NAMES, description="Image pull secrets of that namespace, separated by spaces."
    )
    kube_service_account: str = Field(
        default="", pattern=_NAME, description="The service account of jobs; unset: the namespace's default."
    )
    kube_queue: str = Field(
        default="", pattern=_NAME, description="The local queue of Kueue that jobs wait in; unset: no Kueue."
    )
    kube_pod_file: AbsolutePath | None = Field(
        default=None,
        description="A YAML file: node_selector, tolerations, labels, annotations, claims, and series with their own.",
    )
    kube_timeout_s: float = Field(
        default=15.0, gt=0, le=300, description="Longest wait for an answer of the API server."
    )

    @property
    def is_set(self) -> bool:
        """Whether there is a cluster."""
        return self.kube_config is not None or self.kube_in_cluster

    @model_validator(mode="after")
    def _check_whole(self) -> Self:
        if not self.is_set:
            return self
        if self.kube_config is not None and self.kube_in_cluster:
            message = "set one of FORGE_KUBE_CONFIG and FORGE_KUBE_IN_CLUSTER, not both"
            raise ValueError(message)
        for name, value in (("FORGE_KUBE_NAMESPACE", self.kube_namespace), ("FORGE_KUBE_CLAIM", self.kube_claim)):
            if not value:
                message = f"{name} must be set with FORGE_KUBE_CONFIG or FORGE_KUBE_IN_CLUSTER"
                raise ValueError(message)
        return self


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Toleration(_Part):
    """A taint that is tolerated, as Kubernetes writes it."""

    key: str | None = None
    operator: str = Field(default="Equal", pattern=r"^(Equal|Exists)$")
    value: str | None = None
    effect: str | None = Field(default=None, pattern=r"^(NoSchedule|PreferNoSchedule|NoExecute)$")

    @model_validator(mode="after")
    def _as_kubernetes_has_it(self) -> Self:
        # No trial of a RayJob finds it: only its pods would be refused, and nobody be told.
        if self.operator == "Exists" and self.value:
            message = f"operator Exists takes no value, and {self.value!r} is given: leave it out, or say Equal"
            raise ValueError(message)
        if self.operator == "Equal" and not self.key:
            message = "operator Equal needs a key: name it, or say Exists to tolerate every taint"
            raise ValueError(message)
        return self


class ClaimPart(_Part):
    """A volume claim that holds a folder of the console, and the folder inside of it."""

    claim: Annotated[str, Field(pattern=_NAME, min_length=1)]
    path: _Within = ""


class Selection(_Part):
    """Which nodes: labels that they must have, and taints of theirs that are tolerated."""

    node_selector: dict[str, str] = Field(default_factory=dict)
    tolerations: list[Toleration] = Field(default_factory=list)


class PodFile(Selection):
    """What FORGE_KUBE_POD_FILE may say: of every pod, and of those of a series."""

    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    claims: dict[str, ClaimPart] = Field(default_factory=dict)
    series: dict[str, Selection] = Field(default_factory=dict)

    @field_validator("claims")
    @classmethod
    def _absolute(cls, claims: dict[str, ClaimPart]) -> dict[str, ClaimPart]:
        for folder in claims:
            if not Path(folder).is_absolute() or ".." in Path(folder).parts:
                message = f"{folder!r} must be an absolute folder of the console, without '..'"
                raise ValueError(message)
        return claims


def load_pod_file(settings: KubeSettings) -> PodFile:
    """What the file says; nothing where none is set.

    Raises:
        SettingsError: it cannot be read, is no YAML, or says what it may not; with every fault at once.

    """
    path = settings.kube_pod_file
    if path is None:
        return PodFile()
    try:
        document = read_yaml(path.read_bytes(), path.name)
        faults = [f"{fault.place}: {fault.message}" for fault in document.faults]
        if not faults:
            return PodFile.model_validate({} if document.value is None else document.value)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, one['loc'])) or path.name}: {one['msg']}" for one in error.errors()]
    except OSError as error:
        faults = [str(error.strerror)]
    raise SettingsError(
        f"FORGE_KUBE_POD_FILE {path} cannot be used",
        why="; ".join(faults),
        next_step="correct what is listed and start again",
    )
