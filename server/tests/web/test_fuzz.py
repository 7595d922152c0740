from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from server.tests.web.serving import serving
from server.tests.web.support import ConsoleUnderTest, submit
from starforge_console.web.api import build_document

EXAMPLES = 12
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
LEFT_OUT = {
    "/api/v1/jobs/{job_id}/log": "it waits, and its bytes have no schema",
    "/api/v1/jobs/{job_id}/events": "it waits",
    "/api/v1/tokens/revoke-self": "it ends the token of the test",
}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_no_request_that_fits_the_document_meets_a_fault_or_an_undescribed_answer(console: ConsoleUnderTest) -> None:
    headers = console.add_user("ann")
    submit(console, headers)
    operations = [
        found.ok()
        for found in schemathesis.openapi.from_dict(build_document()).get_all_operations()
        if isinstance(found, Ok) and found.ok().path not in LEFT_OUT
    ]
    assert len(operations) > 10
    with serving(console) as served:
        base_url = f"http://127.0.0.1:{served.ports.api_port}"
        for operation in operations:

            @settings(
                max_examples=EXAMPLES,
                database=None,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def call(case: "schemathesis.Case[Any]") -> None:
                answer = case.call(base_url=base_url, headers=headers, timeout=20)
                case.validate_response(answer, checks=CHECKS)

            call()
