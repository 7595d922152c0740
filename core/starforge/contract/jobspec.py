"""JobSpec (`forge/v2`, `TrainingJob`): everything a submission says, and nothing that the server adds."""

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, StringConstraints, ValidationError
from pydantic import model_validator as check_whole

from starforge.contract.canonical import digest_json
from starforge.contract.ids import Digest
from starforge.contract.secrets import NAME_PATTERN, SECRETS_OF_A_JOB, explain_refused_name
from starforge.errors import SpecError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

API_VERSION = "forge/v2"
KIND = "TrainingJob"

_SLUG: Final = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"
_DIGEST: Final = r"^sha256:[0-9a-f]{64}$"
_RECIPE_NAME: Final = r"^[a-z0-9-]{1,40}/[a-z0-9-]{1,40}$"
_CHECKPOINT: Final = r"^run/j[a-z2-7]{9}/checkpoint(@step=[0-9]{1,18})?$"
_HALF: Final = re.compile("[\ud800-\udfff]")
_OBSERVABILITY: Final = r"^(platform|https?://\S{1,500})$"

Slug = Annotated[str, StringConstraints(pattern=_SLUG)]
"""A name for paths, labels and URLs: lower case, digits, dot, dash, underscore; 63 characters at most."""

DigestText = Annotated[str, StringConstraints(pattern=_DIGEST)]
RecipeName = Annotated[str, StringConstraints(pattern=_RECIPE_NAME)]


def without_nul(value: str) -> str:
    """`value` as it is. Raises ValueError where it holds a NUL."""
    if "\0" in value:
        message = "holds a NUL character, which no command line and no path can"
        raise ValueError(message)
    return value


Text = Annotated[str, StringConstraints(max_length=1000), AfterValidator(without_nul)]
ShortText = Annotated[str, StringConstraints(min_length=1, max_length=300), AfterValidator(without_nul)]


def _inside_the_tree(value: str) -> str:
    path = PurePosixPath(value)
    if path.is_absolute() or ".." in path.parts or "\0" in value or not path.parts:
        message = "must be a path inside the workspace, without '..'"
        raise ValueError(message)
    return value


def _whole_texts(value: JsonValue) -> JsonValue:
    """Refuses in any name or text a NUL, and half of a surrogate pair: JSON can write one, and UTF-8 cannot."""
    if isinstance(value, str):
        without_nul(value)
        if not value.isascii() and _HALF.search(value):
            message = "holds half of a surrogate pair"
            raise ValueError(message)
    if isinstance(value, dict):
        for name, member in value.items():
            _whole_texts(name)
            _whole_texts(member)
    elif isinstance(value, list):
        for member in value:
            _whole_texts(member)
    return value


WholeValues = Annotated[dict[str, JsonValue], AfterValidator(_whole_texts)]
"""Names and JSON values."""

SETTINGS_AT_MOST: Final = 10_000
"""So many values hyperparameters have together, each item of a list counted: everybody who reads the job reads them."""


def count_settings(values: dict[str, JsonValue]) -> int:
    """How many values there are, however deep, each item of a list counted."""
    waiting: list[JsonValue] = [values]
    count = -1  # the whole is none of them
    while waiting:
        value = waiting.pop()
        count += 1
        if isinstance(value, dict):
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
    return count


def _not_too_many(values: dict[str, JsonValue]) -> dict[str, JsonValue]:
    count = count_settings(values)
    if count > SETTINGS_AT_MOST:
        message = f"holds {count} values, the most is {SETTINGS_AT_MOST}; put what is more into a file of the project"
        raise ValueError(message)
    return values


SettingValues = Annotated[WholeValues, AfterValidator(_not_too_many)]
"""Hyperparameters by name."""

TreePath = Annotated[str, StringConstraints(min_length=1, max_length=1000), AfterValidator(_inside_the_tree)]


def _no_reserved_name(name: str) -> str:
    why = explain_refused_name(name)
    if why:
        message = f"no secret can be named {name}: {why}"
        raise ValueError(message)
    return name


def _in_order(names: tuple[str, ...]) -> tuple[str, ...]:
    """Sorted, so that the digest does not depend on the order in which they were written."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = f"names {', '.join(twice)} twice"
        raise ValueError(message)
    return tuple(sorted(names))


SecretName = Annotated[str, StringConstraints(pattern=NAME_PATTERN), AfterValidator(_no_reserved_name)]
"""A secret of the submitter's, named as the variable that the training process gets."""

SecretNames = Annotated[tuple[SecretName, ...], AfterValidator(_in_order)]


class Frozen(BaseModel):
    """A part of the contract: never changed after it was read, and strict about unknown members."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Metadata(Frozen):
    """Whose experiment it is."""

    name: Slug
    project: Slug
    labels: dict[Annotated[str, StringConstraints(min_length=1, max_length=100)], Text] = Field(
        default_factory=dict, max_length=64
    )
    note: Text | None = None


class Recipe(Frozen):
    """The published method that the experiment's lock names."""

    name: RecipeName
    version: ShortText
    digest: DigestText


class Framework(Frozen):
    """The training framework and the image that holds it."""

    kind: Slug
    version: ShortText | None = None
    image: ShortText


class Pool(Frozen):
    """Machines of one shape; all pools of a job run together or not at all."""

    name: Slug = "main"
    series: Slug | None = Field(default=None, description="a GPU series of the hardware registry; null takes any GPU")
    nodes: int = Field(default=1, ge=1, le=4096)
    gpus_per_node: int = Field(ge=0, le=64)
    cpus: float | None = Field(default=None, gt=0, le=4096, description="per node; null takes the default share")
    memory_bytes: int | None = Field(default=None, ge=64 << 20, description="per node; null takes the default share")


class Resources(Frozen):
    """What the job needs to run."""

    pools: tuple[Pool, ...] = Field(min_length=1, max_length=16)
    roles: dict[Slug, Slug] = Field(default_factory=dict, description="role of the recipe -> name of a pool")

    @check_whole(mode="after")
    def _names_agree(self) -> Self:
        names = [pool.name for pool in self.pools]
        if len(set(names)) != len(names):
            message = f"two pools share a name: {', '.join(names)}"
            raise ValueError(message)
        for role, pool in self.roles.items():
            if pool not in names:
                message = f"role {role!r} names pool {pool!r}, which is not among {', '.join(names)}"
                raise ValueError(message)
        return self


class Data(Frozen):
    """A path in the workspace, a path under an allowed data root, or `hf://owner/name@revision`."""

    train: ShortText | None = None
    validation: ShortText | None = None


class Entry(Frozen):
    """What kind of thing the recipe's adapter starts, and the folder of the workspace in which it starts it."""

    kind: Literal["file", "module", "experiment"]
    value: TreePath


class Workspace(Frozen):
    """The packed workspace: `digest` is that of the uncompressed tar."""

    digest: DigestText
    bytes: int = Field(ge=0)
    files: int = Field(ge=0)


class Submodule(Frozen):
    """A git submodule of the workspace and the commit it stands at."""

    path: TreePath
    commit: ShortText


class Provenance(Frozen):
    """Where the workspace came from; every member is null where git had no answer."""

    commit: ShortText | None = None
    branch: ShortText | None = None
    remote: ShortText | None = Field(default=None, description="without credentials")
    dirty: bool = False
    dirty_files: tuple[Text, ...] = Field(default=(), max_length=1000)
    config_digest: DigestText | None = None
    submodules: tuple[Submodule, ...] = ()


class Placement(Frozen):
    """Where, and how urgent."""

    fleet: Slug | None = None
    priority: Literal["low", "normal", "high"] = "normal"


class Lifecycle(Frozen):
    """How long, and how often."""

    retries: int = Field(default=0, ge=0, le=100)
    max_runtime_s: float | None = Field(default=None, ge=1)
    grace_s: float = Field(default=30.0, ge=0, le=3600)
    resume: Literal["auto", "never"] = "auto"


class Spec(Frozen):
    """What to run."""

    recipe: Recipe
    framework: Framework
    resources: Resources
    model: ShortText | None = None
    data: Data = Data()
    hyperparameters: SettingValues = Field(default_factory=dict)
    entry: Entry
    workspace: Workspace
    provenance: Provenance = Provenance()
    placement: Placement = Placement()
    lifecycle: Lifecycle = Lifecycle()
    init_from: Annotated[str, StringConstraints(pattern=_CHECKPOINT)] | None = None
    observability: Annotated[str, StringConstraints(pattern=_OBSERVABILITY)] = "platform"
    secrets: SecretNames = Field(
        default=(), max_length=SECRETS_OF_A_JOB, description="names of secrets that the submitter has set"
    )

    @property
    def init_from_job(self) -> str | None:
        """The id of the job whose checkpoint this one starts from."""
        return None if self.init_from is None else self.init_from.split("/")[1]


class JobSpec(Frozen):
    """One submission."""

    api_version: Literal["forge/v2"] = Field(default="forge/v2", alias="apiVersion")
    kind: Literal["TrainingJob"] = "TrainingJob"
    metadata: Metadata
    spec: Spec

    model_config = ConfigDict(serialize_by_alias=True, validate_by_name=True, validate_by_alias=True)

    @property
    def gpus(self) -> int:
        """How many GPUs the job holds while it runs."""
        return sum(pool.nodes * pool.gpus_per_node for pool in self.spec.resources.pools)


def digest_of(spec: JobSpec) -> Digest:
    """The spec's digest: the same on every machine; a field added later changes it only when it is set."""
    return digest_json(spec.model_dump(mode="json", exclude_defaults=True) | {"apiVersion": API_VERSION, "kind": KIND})


def parse_jobspec(value: JsonValue) -> JobSpec:
    """`value` (decoded JSON) as a JobSpec.

    Raises:
        SpecError: with every fault at once, each with the path of the field.

    """
    try:
        return JobSpec.model_validate(value)
    except ValidationError as error:
        count = error.error_count()
        raise SpecError(
            f"the JobSpec has {count} fault{'s' * (count != 1)}",
            why=describe_faults(error),
            next_step="mend the fields that are named",
        ) from error


def describe_faults(error: ValidationError) -> str:
    """One line a fault: the path of the field and what is wrong with it, never its value."""
    faults = error.errors(include_input=False, include_url=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'value'}: {describe_message(fault)}" for fault in faults)


def describe_message(fault: "ErrorDetails") -> str:
    """What is wrong, as a person would say it: the form that was wanted instead of a regular expression."""
    pattern = fault.get("ctx", {}).get("pattern")
    if pattern is None:
        return fault["msg"].removeprefix("Value error, ")
    return f"must be {_FORMS.get(pattern, 'of another form')}"


_FORMS: Final = {
    _SLUG: "lower-case letters, digits, '.', '-', '_', 63 at most, the first and last a letter or digit",
    _DIGEST: "sha256: and 64 hexadecimal digits in lower case",
    _RECIPE_NAME: "FRAMEWORK/METHOD in lower case",
    _CHECKPOINT: "run/JOB/checkpoint or run/JOB/checkpoint@step=N, with the id of a job such as jabcdefgh2",
    NAME_PATTERN: "the name of an environment variable: A-Z, digits and '_', 64 at most, a letter first",
    _OBSERVABILITY: "platform, or an address that begins with http:// or https://",
}
"""What each pattern of the contract asks for, in words."""
