"""What admission reads of fleets whose machines come and go."""

import asyncio

from starforge_console.executors.fake import FakeExecutor
from starforge_console.executors.scripting import FakeNode
from starforge_console.fleets.views import KnownFleets


def test_a_machine_that_joins_is_seen_without_a_job_that_waits_for_it() -> None:
    executors = {"gpu": FakeExecutor("gpu", [])}
    known = KnownFleets(executors)
    asyncio.run(known.refresh("fake"))
    before = known.last_view_of("gpu")
    assert before is not None
    assert before.nodes == ()
    executors["gpu"] = FakeExecutor("gpu", [FakeNode(name="n1")])
    asyncio.run(known.refresh("another kind"))
    assert known.last_view_of("gpu") == before
    asyncio.run(known.refresh("fake"))
    after = known.last_view_of("gpu")
    assert after is not None
    assert [node.name for node in after.nodes] == ["n1"]


def test_a_fleet_that_does_not_answer_keeps_the_view_that_it_gave() -> None:
    executor = FakeExecutor("gpu", [FakeNode(name="n1")])
    known = KnownFleets({"gpu": executor})
    asyncio.run(known.refresh("fake"))
    executor.make_unreachable("the network is down")
    asyncio.run(known.refresh("fake"))
    view = known.last_view_of("gpu")
    assert view is not None
    assert [node.name for node in view.nodes] == ["n1"]
