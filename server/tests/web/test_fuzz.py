import re
from typing import Any

import jsonschema_rs
import pytest
from schemathesis import GenerationMode

from server.tests.web.fuzzing import SIGN_OUTS, Walk
from server.tests.web.lives import begin, run_to_end
from server.tests.web.serving import serving
from server.tests.web.support import ConsoleUnderTest, submit
from starforge_console.web.api import build_document

FITTING = 8
UNFIT = 5
UNSATISFIABLE = "416"
"""An answer of the web framework's own, without a document."""
BYTES = ("application/octet-stream", "application/x-tar", "text/csv")


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return build_document()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("mode", "examples"),
    [(GenerationMode.POSITIVE, FITTING), (GenerationMode.NEGATIVE, UNFIT)],
    ids=["that-fit", "that-do-not"],
)
def test_no_request_meets_a_fault_or_an_answer_that_the_document_does_not_have(
    console: ConsoleUnderTest, mode: GenerationMode, examples: int
) -> None:
    headers = console.add_user("root", "admin")
    ended, running = submit(console, headers), submit(console, headers)
    run_to_end(console, ended)
    begin(console, running)
    with serving(console) as served:
        walk = Walk(f"http://127.0.0.1:{served.ports.api_port}", headers, (ended, running))
        walk.run(mode, examples)
    if mode is GenerationMode.POSITIVE:
        described = sum(len(operations) for operations in build_document()["paths"].values())
        assert len(walk.statuses) == described - len(SIGN_OUTS), f"all but {SIGN_OUTS} were called"
        found = [name for name, statuses in walk.statuses.items() if min(statuses) < 300]
        assert len(found) > described // 2, "most of the calls found something"


def test_every_body_has_an_example_that_fits_its_schema(document: dict[str, Any]) -> None:
    for name, media, content in _contents(document):
        if media in BYTES:
            continue
        assert "example" in content, f"{name} has no example: add one of its message to starforge_console.web.examples"
        schema = {**content["schema"], "components": document["components"]}
        jsonschema_rs.validate(schema, content["example"])


def test_every_route_says_what_it_does_and_shows_a_value_of_each_part_of_its_path(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"], f"{method} {path}"
            assert operation["description"], f"{method} {path}"
            shown = {one["name"] for one in operation.get("parameters", ()) if "example" in one and one["in"] == "path"}
            assert shown == set(re.findall(r"{(\w+)}", path)), f"{method} {path}"


def test_every_problem_names_the_codes_that_it_may_carry(document: dict[str, Any]) -> None:
    responses = [
        (status, answer)
        for operations in document["paths"].values()
        for operation in operations.values()
        for status, answer in operation["responses"].items()
        if int(status) >= 400 and status != UNSATISFIABLE
    ]
    assert responses
    for status, answer in responses:
        problem = answer["content"]["application/problem+json"]["example"]
        assert problem["status"] == int(status)
        assert f"`{problem['code']}`" in answer["description"]


def _contents(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    found = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for body in bodies:
                found += [(f"{method} {path}", media, one) for media, one in body.get("content", {}).items()]
    return found
