"""`starforge-console check`: whether a backend can be used as it is set."""

import asyncio
import json
from dataclasses import asdict

import click

from starforge_console.cli.group import Commands
from starforge_console.cli.opening import read_settings, say


@click.group(cls=Commands)
def check() -> None:
    """Backends, before jobs are sent to them."""


@check.command("slurm")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")
def check_slurm(*, as_json: bool) -> None:
    """Ask the Slurm cluster of the settings what the console would ask it; nothing is submitted.

    Lines that begin with 'warning' say what lets jobs wait or fail. The JSON holds version, accounting, partition,
    max_time_s, nodes, accepting, gpus (how many of each series; unknown types under an empty name) and warnings.
    """
    from starforge.hardware.series import find_series  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.backends import build_cluster_settings  # noqa: PLC0415 - the same
    from starforge_console.executors.slurm.checking import check_cluster  # noqa: PLC0415 - the same

    report = asyncio.run(check_cluster(build_cluster_settings(read_settings(), "check", "slurm"), find_series))
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
        return
    click.echo(f"REST API    {report.version}, accounting {report.accounting or 'none'}")
    click.echo(f"partition   {report.partition}, {report.nodes} nodes, {report.accepting} of them take jobs now")
    gpus = ", ".join(f"{count} {series or 'of unknown series'}" for series, count in report.gpus.items())
    click.echo(f"GPUs        {gpus or 'none'}")
    for warning in report.warnings:
        say(f"warning: {warning}")
