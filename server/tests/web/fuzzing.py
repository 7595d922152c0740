"""Walks the whole OpenAPI document with requests that fit it and ones that do not, against a console that listens."""

from collections.abc import Mapping
from typing import Any, Final

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from starforge_console.web.api import build_document

CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SIGN_OUTS: Final = frozenset({"POST /api/v1/tokens/revoke-self", "DELETE /api/v1/tokens/{token_id}"})
"""They may end the token that the other calls need."""
ANSWER_S: Final = 20
Operation = Any
"""An operation of schemathesis, whose own types say no more."""


class Walk:
    """Calls of one console. `jobs` stand in every other call for the job that a path names."""

    def __init__(self, base_url: str, headers: Mapping[str, str], jobs: tuple[str, ...]) -> None:
        self._base_url = base_url
        self._headers = dict(headers)
        self._jobs = jobs
        self.statuses: dict[str, set[int]] = {}

    def run(self, mode: GenerationMode, examples: int) -> None:
        """Send `examples` requests of each route, the same ones in each run; raises for the first wrong answer."""
        found = schemathesis.openapi.from_dict(build_document()).get_all_operations()
        for operation in (one.ok() for one in found if isinstance(one, Ok)):
            named = f"{operation.method.upper()} {operation.path}"
            if named not in SIGN_OUTS and not _is_without_choice(operation, mode):
                self._try(operation, mode, examples)

    def _try(self, operation: Operation, mode: GenerationMode, examples: int) -> None:
        seen = self.statuses.setdefault(f"{operation.method.upper()} {operation.path}", set())
        calls = 0

        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            derandomize=True,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def call(case: "schemathesis.Case[Any]") -> None:
            nonlocal calls
            calls += 1
            if "job_id" in case.path_parameters and calls % 2:
                case.path_parameters["job_id"] = self._jobs[calls // 2 % len(self._jobs)]
            if isinstance(case.query.get("wait_s"), int | float):
                case.query["wait_s"] = min(case.query["wait_s"], 0)  # one that waits has nothing more to say
            answer = case.call(base_url=self._base_url, headers=self._headers, timeout=ANSWER_S)
            seen.add(answer.status_code)
            case.validate_response(answer, checks=CHECKS)

        call()


def _is_without_choice(operation: Operation, mode: GenerationMode) -> bool:
    """Whether nothing about a request can be wrong."""
    is_open = operation.path.endswith("/meta")
    return bool(mode is GenerationMode.NEGATIVE and is_open)
