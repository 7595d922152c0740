"""What a node tells of itself is kept, counted with and shown: what no machine has is refused, and changes nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from server.tests.fleets.machines import build_gpu, build_view
from server.tests.fleets.test_registration import run
from server.tests.fleets.yard import Yard
from starforge.contract.executor import NodeView
from starforge.contract.wire import Disk, NodeReport, decode, encode
from starforge.errors import InputError
from starforge_console.fleets.reports import check_report

ATTEMPT = "jabcdefghi-1-abcdef"
VIEW = build_view(build_gpu(0))


def told(view: NodeView | None = VIEW, **changes: object) -> NodeReport:
    sane = NodeReport(node="n1", install="i", version="0.1.0", view=view, boot="b", epoch=1, fence=0, at=1.0)
    return replace(sane, **changes)  # type: ignore[arg-type]  # a test's own values


ODD: dict[str, Callable[[], NodeReport]] = {
    "ten thousand GPUs": lambda: told(build_view(*(build_gpu(index) for index in range(10_000)))),
    "a GPU with a long name": lambda: told(build_view(build_gpu(0, "H" * 10_240))),
    "a GPU whose name breaks the line": lambda: told(build_view(build_gpu(0, "H200\nfree: 8"))),
    "a GPU whose UUID turns the text around": lambda: told(build_view(replace(build_gpu(0), uuid="GPU-\u202e0"))),
    "a GPU with less than no memory": lambda: told(build_view(replace(build_gpu(0), memory_bytes=-1))),
    "memory beyond all numbers": lambda: told(replace(VIEW, memory_bytes=10**400)),
    "CPUs below nothing": lambda: told(replace(VIEW, cpus=-1.0)),
    "an attempt that holds less than nothing": lambda: told(build_view(held={ATTEMPT: (-64.0, 0)})),  # type: ignore[dict-item]
    "an attempt without a form": lambda: told(attempts={"../../etc": "running"}),
    "a disk of nonsense": lambda: told(disk=Disk(free_bytes=-1, total_bytes=1)),
    "a fence number beyond all": lambda: told(fence=1 << 53),
    "a release of a megabyte": lambda: told(version="1" * (1 << 20)),
    "a book": lambda: told(None, view_unknown="x" * (1 << 20)),
}


@pytest.mark.parametrize("odd", ODD)
def test_what_no_machine_has_is_refused(odd: str) -> None:
    report = decode(encode(ODD[odd]()), NodeReport)  # it may well come over the wire
    with pytest.raises(InputError):
        check_report(report)


def test_markup_in_a_name_is_a_name() -> None:
    check_report(told(build_view(build_gpu(0, "<script>alert(1)</script>")), attempts={ATTEMPT: "running"}))


def test_a_refused_report_leaves_what_was_told_before(tmp_path: Path) -> None:
    async def test(yard: Yard) -> None:
        machine = await yard.add_machine()
        before = yard.directory.find_report(machine.name)
        machine.view = replace(VIEW, memory_bytes=10**400)
        with pytest.raises(InputError, match="no amount"):
            await machine.beat(yard.registration)
        assert yard.directory.find_report(machine.name) == before

    run(tmp_path, test)
