"""`forgelet doctor`."""

from typing import TYPE_CHECKING

import click

from starforge.cli.output import json_option, print_json, render_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starforge_forgelet.findings import Finding

_LABEL_WIDTH = 36
_TEXT_WIDTH = 120


@click.command()
@click.option("--quick", is_flag=True, help="Start no container.")
@click.option("--port", default=7070, show_default=True, type=click.IntRange(1, 65535), help="The daemon's own port.")
@click.option(
    "--wait-heartbeat",
    "wait_s",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="Only wait until the console hears the next heartbeat.",
)
@json_option
def doctor(*, quick: bool, port: int, wait_s: float | None, as_json: bool) -> int:
    r"""Check whether this machine can run jobs, and say how to mend what is wrong. Exit code 1: something failed.

    A container is started for a moment, from an image that is present, as the user that jobs run as.

    \b
    JSON: {checks: [{name, state, message, next_step}]}
          state: ok, warning, failed, not checked
    """
    from starforge_forgelet.doctor import examine, wait_for_heartbeat  # noqa: PLC0415 - a help text needs none of it
    from starforge_forgelet.findings import Outcome  # noqa: PLC0415 - the same
    from starforge_forgelet.settings import load_settings  # noqa: PLC0415 - the same
    from starforge_forgelet.state import NodeState  # noqa: PLC0415 - the same

    settings = load_settings()
    findings: Iterable[Finding]
    if wait_s is None:
        findings = examine(settings, port, quick=quick)
    else:
        findings = [wait_for_heartbeat(NodeState(settings.state_dir), wait_s)]
    shown = [_show(finding, quiet=as_json) for finding in findings]
    if as_json:
        print_json({"checks": [_build_document(finding) for finding in shown]})
    return int(any(finding.state is Outcome.FAILED for finding in shown))


def _show(finding: "Finding", *, quiet: bool) -> "Finding":
    if not quiet:
        label = f"{finding.state.value:<13}{finding.name:<22} "
        click.echo(render_row(label, finding.message, _TEXT_WIDTH))
        if finding.next_step:
            click.echo(render_row(" " * (_LABEL_WIDTH - len("next: ")) + "next: ", finding.next_step, _TEXT_WIDTH))
    return finding


def _build_document(finding: "Finding") -> dict[str, str]:
    return {
        "name": finding.name,
        "state": finding.state.value,
        "message": finding.message,
        "next_step": finding.next_step,
    }
