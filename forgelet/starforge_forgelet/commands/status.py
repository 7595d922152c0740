"""`forgelet status`."""

import time
from typing import TYPE_CHECKING, Any

import click

from starforge.cli.output import json_option, print_json

if TYPE_CHECKING:
    from starforge_forgelet.state import NodeIdentity, Pulse


@click.command()
@json_option
def status(*, as_json: bool) -> None:
    r"""Say who this machine is, and how its heartbeats fare.

    \b
    JSON: {node, fleet, install, server, advertise, epoch, heard_s, reachable,
          trouble, skew_s}; heard_s is null before the first heartbeat
    """
    from starforge_forgelet.settings import load_settings  # noqa: PLC0415 - a help text needs none of it
    from starforge_forgelet.state import NodeState, Pulse  # noqa: PLC0415 - the same

    state = NodeState(load_settings().state_dir)
    identity, pulse = state.load_identity(), state.find_pulse() or Pulse(trouble="no daemon has served here yet")
    if as_json:
        print_json(_show(identity, pulse))
        return
    click.echo(f"node {identity.node} of fleet {identity.fleet}, console {identity.server}")
    click.echo(f"called at {identity.advertise}, storage {identity.storage_root}")
    click.echo(f"epoch {pulse.epoch}, {_tell_heard(pulse)}")
    if pulse.trouble:
        click.echo(pulse.trouble)


def _show(identity: "NodeIdentity", pulse: "Pulse") -> dict[str, Any]:
    return {
        "node": identity.node,
        "fleet": identity.fleet,
        "install": identity.install,
        "server": identity.server,
        "advertise": identity.advertise,
        "epoch": pulse.epoch,
        "heard_s": None if pulse.heard_at is None else round(time.time() - pulse.heard_at, 1),
        "reachable": pulse.reachable,
        "trouble": pulse.trouble,
        "skew_s": None if pulse.skew_s is None else round(pulse.skew_s, 3),
    }


def _tell_heard(pulse: "Pulse") -> str:
    if pulse.heard_at is None:
        return "no heartbeat was heard yet"
    skew = "" if pulse.skew_s is None else f", clock {pulse.skew_s:+.1f} s against the console's"
    return f"last heartbeat heard {max(0.0, time.time() - pulse.heard_at):.0f} s ago{skew}"
