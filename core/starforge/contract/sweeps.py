"""The messages about sweeps (`/api/v1/sweeps`): one experiment as many jobs, one for each combination of values."""

from typing import Annotated, Self

from pydantic import AfterValidator, Field, JsonValue, StringConstraints, model_validator

from starforge.contract.api import Answer, CheckView, JobView, RefusalView, SubmitRequest
from starforge.contract.canonical import canonical_json, digest_json
from starforge.contract.combinations import COMBINATIONS_AT_MOST, KEYS_AT_MOST, SweptKey, find_inside, put_values
from starforge.contract.comparing import PrimaryView
from starforge.contract.jobspec import DigestText, Frozen, WholeValues, without_nul

SweepName = Annotated[
    str, StringConstraints(min_length=1, max_length=100, pattern=r"^\S(.*\S)?$"), AfterValidator(without_nul)
]


class SweepRequest(SubmitRequest):
    """`POST /sweeps` (with an Idempotency-Key), and `POST /sweeps/admission`, which decides the same and keeps nothing.

    Each combination makes one job: its spec is `spec` with the values of the combination among the hyperparameters.
    """

    name: SweepName | None = Field(default=None, description="null takes the experiment's")
    combinations: tuple[WholeValues, ...] = Field(
        min_length=1,
        max_length=COMBINATIONS_AT_MOST,
        description="the same keys in each; `a.b` is `b` in the map `a`",
    )

    @model_validator(mode="after")
    def _check_combinations(self) -> Self:
        keys = list(self.combinations[0])
        if not 1 <= len(keys) <= KEYS_AT_MOST:
            message = f"a combination has 1 to {KEYS_AT_MOST} keys"
            raise ValueError(message)
        _Keys(keys=tuple(keys))
        if find_inside(keys) is not None:
            message = "a key lies inside another one"
            raise ValueError(message)
        if any(set(one) != set(keys) for one in self.combinations):
            message = "every combination must have the same keys"
            raise ValueError(message)
        if len({canonical_json([one[key] for key in keys]) for one in self.combinations}) < len(self.combinations):
            message = "a combination is there twice"
            raise ValueError(message)
        for one in self.combinations:
            if any(value is None for value in one.values()):
                message = "a value is null, which is no value"
                raise ValueError(message)
            put_values(self.spec.spec.hyperparameters, one)
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """What differs between the jobs."""
        return tuple(self.combinations[0])


class _Keys(Frozen):
    keys: tuple[SweptKey, ...]


def build_submission(request: SweepRequest, combination: dict[str, JsonValue]) -> SubmitRequest:
    """The submission of one combination, to the digest the one of the experiment with these values set. Pure."""
    whole = request.spec
    hyperparameters = put_values(whole.spec.hyperparameters, combination)
    config = None if request.config is None else {**request.config, "hyperparameters": hyperparameters}
    # What is not sent has no digest that could be known.
    origin = {"config_digest": None if config is None else digest_json(config)}
    provenance = whole.spec.provenance.model_copy(update=origin)
    spec = whole.spec.model_copy(update={"hyperparameters": hyperparameters, "provenance": provenance})
    return SubmitRequest.model_construct(
        spec=whole.model_copy(update={"spec": spec}),
        allow_dirty=request.allow_dirty,
        difference=request.difference,
        config=config,
    )


class SweptJob(Answer):
    """A job of a sweep that was just admitted, or would be; `job` is null then."""

    job: str | None
    combination: dict[str, JsonValue]
    spec_digest: DigestText


class SweepRecord(Answer):
    """What was decided on a sweep: all of it is admitted, or nothing.

    What the gates say of every combination alike is here once; elsewhere the combinations are named.
    """

    sweep: str | None
    name: str
    jobs: tuple[SweptJob, ...]
    checks: tuple[CheckView, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[RefusalView, ...] = ()
    repeated: bool = Field(default=False, description="it was admitted before, under the same key")


class SweepView(Answer):
    """One sweep as a line. Jobs that were deleted are no longer counted in `states`."""

    id: str
    name: str
    experiment: str
    project: str
    user: str
    keys: tuple[str, ...]
    size: int = Field(description="how many jobs it was begun with")
    submitted_at: float
    states: dict[str, int]
    active: int = Field(description="how many have not ended for good")


class SweepList(Answer):
    """`GET /sweeps?limit=&cursor=&user=&project=`, newest first. `next` continues; null at the end."""

    items: tuple[SweepView, ...]
    next: str | None = None


class SweepRun(Answer):
    """A job of a sweep with its best value of the primary metric; `best` is null where there is none."""

    job: JobView
    best: float | None = None
    best_step: int | None = None


class SweepDetail(Answer):
    """`GET /sweeps/{id}`: the best run first, those without a value last, in the order of the combinations."""

    sweep: SweepView
    primary: PrimaryView | None = Field(default=None, description="the metric by which the method's runs are compared")
    runs: tuple[SweepRun, ...]


class SweepStopped(Answer):
    """The answer to `POST /sweeps/{id}/stop`: what was asked, and which jobs could not be asked, and why."""

    sweep: str
    asked: int = Field(description="jobs whose end was asked for")
    ended: int = Field(description="jobs that had ended before")
    refusals: tuple[RefusalView, ...] = ()
