"""Completes the OpenAPI document that the routes give: errors with their codes, sign-in, and an example of everything.

Built when somebody asks for it; a console that starts reads none of this.
"""

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel, SecretStr

from starforge.contract.api import PROBLEM_TYPE, Problem
from starforge.errors import LaunchError, PackError, ProjectError, SpecError, StarForgeError
from starforge_console.errors import NotTheNode, SettingsError, StreamClosed, StreamGap, status_of
from starforge_console.web.examples.console import build_console
from starforge_console.web.examples.jobs import DIGEST, JOB, KEY, build_jobs
from starforge_console.web.examples.people import build_people
from starforge_console.web.examples.places import build_places
from starforge_console.web.examples.sweeps import SWEEP, build_sweeps
from starforge_console.web.faults import FAULTS

JSON: Final = "application/json"
_UNUSED: Final = ("HTTPValidationError", "ValidationError")
_SCHEMAS: Final = "#/components/schemas/"
_ELSEWHERE: Final = (LaunchError, PackError, ProjectError, SettingsError, NotTheNode, StreamClosed, StreamGap)
"""What commands, machines and ingest are told, and no route of this document says."""
_METHOD: Final = "custom/custom"
_PLACES: Final[Mapping[str, object]] = {
    "attempt": 1,
    "digest": DIGEST,
    "fleet": "lab",
    "framework": "custom",
    "holder": "ann",
    "job_id": JOB,
    "key": KEY,
    "kind": "user",
    "method": "custom",
    "name": "HF_TOKEN",
    "node": "node-1",
    "registry": "registry.example.org",
    "step": 20,
    "sweep_id": SWEEP,
    "token_id": 3,
    "webhook_id": 1,
    "window": "lab",
    "window_kind": "fleet",
    "user": "ann",
}
"""A value for each parameter of a path."""


def complete(document: dict[str, Any]) -> None:
    """Add to `document` what the routes do not say themselves; the same document in gives the same one out."""
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in _UNUSED:
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template=_SCHEMAS + "{model}")
    schemas |= problem.pop("$defs", {})
    schemas["Problem"] = problem
    components["schemas"] = dict(sorted(schemas.items()))
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    document["security"] = [{"token": []}]
    examples, codes = _load_examples(), _find_codes()
    for operation in _operations(document):
        _exemplify(operation, examples)
        for status, answer in operation["responses"].items():
            if PROBLEM_TYPE in answer.get("content", {}):
                _describe_problem(answer, int(status), codes.get(int(status), []))


def _operations(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from path.values()


def _load_examples() -> dict[str, Any]:
    """An example of each message, by the name of its schema."""
    return {
        type(one).__name__: _dump(one)
        for one in (*build_jobs(), *build_sweeps(), *build_console(), *build_places(), *build_people())
    }


def _dump(message: BaseModel) -> dict[str, Any]:
    dumped = message.model_dump(mode="json", by_alias=True)
    # What is a secret on its way in is a made-up text here, and is to be seen.
    hidden = {name: value.get_secret_value() for name, value in message if isinstance(value, SecretStr)}
    return dumped | hidden


def _exemplify(operation: dict[str, Any], examples: Mapping[str, Any]) -> None:
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path" and parameter["name"] in _PLACES:
            parameter["example"] = _PLACES[parameter["name"]]
    contents = [answer.get("content", {}) for answer in operation["responses"].values()]
    for content in (operation.get("requestBody", {}).get("content", {}), *contents):
        name = _name_of(content.get(JSON, {}).get("schema", {}))
        if name in examples:
            content[JSON]["example"] = examples[name]


def _name_of(schema: Mapping[str, Any]) -> str:
    """The name of the message that a body holds, which may be left out where null is another choice."""
    choices = (schema, *schema.get("anyOf", ()))
    return next((one["$ref"].removeprefix(_SCHEMAS) for one in choices if "$ref" in one), "")


def _find_codes() -> dict[int, list[str]]:
    """The codes that an answer of a status may carry."""
    found: dict[int, set[str]] = {}
    for kind in _kinds(StarForgeError):
        if not issubclass(kind, _ELSEWHERE) or issubclass(kind, SpecError):
            found.setdefault(status_of(kind.__new__(kind)), set()).add(kind.code)
    for fault in FAULTS:
        for status in fault.statuses.split(", "):
            found.setdefault(int(status), set()).add(fault.code)
    return {status: sorted(codes) for status, codes in found.items()}


def _kinds(kind: type[StarForgeError]) -> Iterator[type[StarForgeError]]:
    for child in kind.__subclasses__():
        # An error of another package is not one that this document knows of.
        if child.__module__ in {"starforge.errors", "starforge_console.errors"}:
            yield child
            yield from _kinds(child)


def _describe_problem(answer: dict[str, Any], status: int, codes: list[str]) -> None:
    phrase = HTTPStatus(status).phrase
    listed = ", ".join(f"`{code}`" for code in codes)
    answer["description"] = f"{phrase}. Its `code` is one of: {listed}."
    problem = Problem(title=phrase.lower(), status=status, code=codes[0], next_step="mend what is named and repeat")
    answer["content"][PROBLEM_TYPE]["example"] = problem.model_dump(mode="json")
