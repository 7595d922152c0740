"""The message of the console's API that tells a published method whole; lists of methods are in `contract.api`."""

from typing import Literal

from pydantic import Field, JsonValue

from starforge.contract.api import Answer, MethodView


class RuntimeView(Answer):
    """One version of the framework that a method runs on. `image` None: nobody publishes one."""

    version: str | None
    image: str | None
    python: str = ""
    modules: dict[str, str] = Field(default_factory=dict)


class ParameterView(Answer):
    """One hyperparameter of a method. `help` is keyed by language; a `default` of null is left to the framework."""

    name: str
    group: str
    type: str
    default: JsonValue = None
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    items: str | None = None
    help: dict[str, str]


class MetricView(Answer):
    """The curve by which runs of a method are compared."""

    key: str
    better: Literal["lower", "higher"]


class MethodDetail(Answer):
    """`GET /methods/{name}?version=`: a published method with the hyperparameters of one version of its framework."""

    method: MethodView
    framework: str
    version: str | None
    runtimes: tuple[RuntimeView, ...]
    roles: tuple[str, ...]
    needs: tuple[str, ...] = Field(default=(), description="inputs without which no job starts: model, train")
    parameters: tuple[ParameterView, ...]
    open_parameters: bool
    primary_metric: MetricView | None
