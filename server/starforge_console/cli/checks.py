"""`starforge-console check`: whether a backend can be used as it is set."""

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from starforge_console.cli.group import Commands
from starforge_console.cli.opening import read_settings, say

if TYPE_CHECKING:
    from starforge_console.settings.console import ConsoleSettings


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

    settings = read_settings()
    cluster = build_cluster_settings(settings, "check", "slurm")
    report = asyncio.run(check_cluster(cluster, find_series, _find_job_uid(settings)))
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
        return
    click.echo(f"REST API    {report.version}, accounting {report.accounting or 'none'}")
    click.echo(f"partition   {report.partition}, {report.nodes} nodes, {report.accepting} of them take jobs now")
    click.echo(f"GPUs        {describe_gpus(report.gpus)}")
    for warning in report.warnings:
        say(f"warning: {warning}")


def _find_job_uid(settings: "ConsoleSettings") -> int:
    from starforge_console.fleets.readiness import find_job_user  # noqa: PLC0415 - a help text needs none of it

    try:
        return find_job_user(settings)[0]
    except OSError:
        own = os.geteuid()  # the first start makes the storage root
        return own if settings.local.job_uid is None else settings.local.job_uid


@check.command("kuberay")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")
def check_kuberay(*, as_json: bool) -> None:
    """Ask the Kubernetes cluster of the settings what the console would ask it; nothing is made.

    Lines that begin with 'warning' say what lets jobs wait or fail. The JSON holds version, namespace, is_installed
    (whether KubeRay's resources are there), missing (rights without which nothing runs), claims (each volume claim's
    phase), nodes, accepting, gpus (how many of each series; unknown ones under an empty name) and warnings.
    """
    from starforge.hardware.series import find_series  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.backends import build_namespace_settings  # noqa: PLC0415 - the same
    from starforge_console.executors.kuberay.checking import check_kube  # noqa: PLC0415 - the same

    report = asyncio.run(check_kube(build_namespace_settings(read_settings(), "check", "kuberay"), find_series))
    if as_json:
        click.echo(json.dumps(asdict(report), indent=2))
        return
    click.echo(f"API server  {report.version}, KubeRay {'is' if report.is_installed else 'is not'} installed")
    click.echo(f"namespace   {report.namespace}, claims {describe_claims(report.claims)}")
    click.echo(f"nodes       {report.nodes}, {report.accepting} of them take jobs now")
    click.echo(f"GPUs        {describe_gpus(report.gpus)}")
    for warning in report.warnings:
        say(f"warning: {warning}")


def describe_claims(claims: Mapping[str, str]) -> str:
    """Each claim and how it is, in one line."""
    return ", ".join(f"{name} {phase or 'missing'}" for name, phase in claims.items())


def describe_gpus(gpus: Mapping[str, int]) -> str:
    """How many of each series, in one line."""
    return ", ".join(f"{count} {series or 'of unknown series'}" for series, count in gpus.items()) or "none"
