"""The gate `max_runtime`: what has no time limit is refused where every fleet that it may go to requires one."""

import pytest

from server.tests.admission.test_gates import decide, fleet, node, spec
from starforge_console.admission.gate import FleetState


def strict(name: str) -> FleetState:
    return fleet(node("one"), name=name, requires_limit=True)


REFUSED = "max_runtime_required"
LIMITED = {"lifecycle": {"max_runtime_s": 3600}}


@pytest.mark.parametrize(
    ("members", "fleets", "code"),
    [
        ({}, [strict("local")], REFUSED),
        (LIMITED, [strict("local")], None),
        ({}, [strict("local"), fleet(node("two"), name="other")], None),
        ({}, [strict("local"), strict("other")], REFUSED),
        ({"placement": {"fleet": "local"}}, [strict("local"), fleet(node("two"), name="other")], REFUSED),
        ({"placement": {"fleet": "other"}}, [strict("local"), fleet(node("two"), name="other")], None),
        ({"placement": {"fleet": "local"}, **LIMITED}, [strict("local")], None),
    ],
)
def test_a_job_without_a_limit_needs_a_fleet_that_takes_it(
    members: dict[str, object], fleets: list[FleetState], code: str | None
) -> None:
    said = decide(spec(**members), *fleets)
    assert said.get("max_runtime", []) == ([] if code is None else [code])
