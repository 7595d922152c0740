"""The messages about users, teams and their limits (`/api/v1/admin/users`, `/api/v1/admin/quotas`)."""

from typing import Annotated, Final, Literal

from pydantic import Field

from starforge.contract.api import Answer
from starforge.contract.jobspec import Frozen
from starforge.contract.quotas import Held

MOST: Final = 1_000_000
"""The largest limit that can be set."""

RoleName = Literal["admin", "operator", "member", "viewer"]
ROLES: Final[tuple[RoleName, ...]] = ("admin", "operator", "member", "viewer")

Count = Annotated[int, Field(ge=0, le=MOST)]
Name = Annotated[str, Field(min_length=1, max_length=100)]


class UserView(Answer):
    """Somebody who may sign in, and what jobs of theirs hold a place."""

    name: str
    role: str = Field(description="admin, operator, member or viewer")
    active: bool = Field(description="whether their tokens are taken")
    team: str | None
    held: Held


class UserList(Answer):
    """`GET /admin/users`, in the order in which they came."""

    items: tuple[UserView, ...]


class AddUser(Frozen):
    """`POST /admin/users`. Whoever is added signs in with a link that an administrator makes."""

    name: Name
    role: RoleName = "member"


class SetRole(Frozen):
    """`PUT /admin/users/{user}/role`."""

    role: RoleName


class SetActive(Frozen):
    """`PUT /admin/users/{user}/active`. False ends all their tokens and sessions at once."""

    active: bool


class SetTeam(Frozen):
    """`PUT /admin/users/{user}/team`. Null takes the user out of the team."""

    team: Name | None


class SetQuota(Frozen):
    """`PUT /admin/quotas/{kind}/{name}`, in place of the limit before. Null is no limit."""

    gpus: Count | None = Field(default=None, description="GPUs at once")
    jobs: Count | None = Field(default=None, description="jobs at once")
    series: tuple[Name, ...] | None = Field(
        default=None, max_length=100, description="which series and families of GPUs may be asked for"
    )
    gpu_hours: Count | None = Field(default=None, description="GPU-hours in any 24 hours")
    storage_gib: Count | None = Field(default=None, description="GiB on the storage, of all jobs together")
    profiles: tuple[Name, ...] | None = Field(
        default=None, max_length=100, description="which profiles may be asked for, such as cpu, any or h200"
    )
