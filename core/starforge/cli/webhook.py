"""`sf webhook`: have a server of one's own told over HTTP what happens to jobs."""

import time
from collections.abc import Sequence
from typing import Final

import click
from pydantic import ValidationError

from starforge.cli.lazy import LazyCommand, LazyGroup
from starforge.cli.output import json_option, note, print_json, print_table, say, warn
from starforge.cli.session import open_console_as
from starforge.client.webhooks import WebhookConsole
from starforge.contract.jobspec import describe_faults
from starforge.contract.states import JobState
from starforge.contract.webhooks import AddWebhook, DeliveryView, WebhookView
from starforge.errors import InputError
from starforge.logtext import clean_line

_COMMANDS: Final = {
    "add": LazyCommand("starforge.cli.webhook:add", "Have an address told what happens to jobs."),
    "ls": LazyCommand("starforge.cli.webhook:ls", "List webhooks with their last delivery."),
    "show": LazyCommand("starforge.cli.webhook:show", "Show a webhook's last deliveries."),
    "test": LazyCommand("starforge.cli.webhook:test", "Send a ping to a webhook now."),
    "enable": LazyCommand("starforge.cli.webhook:enable", "Tell a webhook again that was switched off."),
    "rm": LazyCommand("starforge.cli.webhook:rm", "Remove a webhook."),
}
_STATES: Final = click.Choice([state.value for state in JobState], case_sensitive=False)


@click.group(cls=LazyGroup, lazy=_COMMANDS)
def webhook() -> None:
    """Have a server of yours told what happens to jobs.

    The console sends a signed POST for each change of a job's state, in order, and
    again until it is taken. See the page on webhooks for how to check a signature.
    """


@click.command()
@click.argument("url")
@click.option("--event", "events", multiple=True, type=_STATES, help="Only this state; may be given several times.")
@click.option("--project", help="Only jobs of this project.")
@click.option("--all-jobs", is_flag=True, help="Jobs of everybody; takes an administrator.")
@json_option
def add(url: str, events: tuple[str, ...], *, project: str | None, all_jobs: bool, as_json: bool) -> None:
    r"""Have an address told what happens to jobs.

    The secret that deliveries are signed with is shown this once.

    \b
    JSON: {webhook: {id, url, events, …}, secret}
    """
    try:
        new = AddWebhook(url=url, events=events, project=project, jobs="all" if all_jobs else "own")
    except ValidationError as error:
        raise InputError("the webhook cannot be added", why=describe_faults(error), next_step="correct it") from None
    with open_console_as(WebhookConsole) as console:
        added = console.add_webhook(new)
    if as_json:
        print_json(added.model_dump(mode="json"))
        return
    note(f"webhook {added.webhook.id} is told from now on; try it: sf webhook test {added.webhook.id}")
    note("its secret, which is not shown again:")
    click.echo(added.secret)


@click.command()
@json_option
def ls(as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""List webhooks with their last delivery.

    \b
    JSON: {items: [{id, url, events, project, jobs, user, failing_since,
           disabled_at, disabled_why, last}]}
    """
    with open_console_as(WebhookConsole) as console:
        found = console.webhooks().items
    if as_json:
        print_json({"items": [one.model_dump(mode="json") for one in found]})
        return
    if not found:
        click.echo("there is no webhook: sf webhook add URL")
        return
    print_table(("ID", "USER", "JOBS", "STANDING", "URL"), [_row(one) for one in found])


@click.command()
@click.argument("webhook_id", metavar="ID", type=click.IntRange(1))
@json_option
def show(webhook_id: int, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Show a webhook's last deliveries.

    \b
    JSON: {webhook, deliveries: [{id, job, state, at, tries, status,
           error, outcome}]}
    """
    with open_console_as(WebhookConsole) as console:
        found = console.webhook(webhook_id)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    say(f"{found.webhook.url}: {describe_standing(found.webhook)}")
    if found.deliveries:
        print_table(("AT", "JOB", "STATE", "TRIES", "OUTCOME"), [_delivery_row(one) for one in found.deliveries])


@click.command()
@click.argument("webhook_id", metavar="ID", type=click.IntRange(1))
@json_option
def test(webhook_id: int, as_json: bool) -> int:  # noqa: FBT001 - click passes flags so
    r"""Send a ping to a webhook now.

    The exit code is 0 only when it was taken.

    \b
    JSON: {id, status, error, outcome, …}
    """
    with open_console_as(WebhookConsole) as console:
        done = console.test_webhook(webhook_id)
    if as_json:
        print_json(done.model_dump(mode="json"))
    elif done.error:
        warn(f"the ping was not taken: {done.error}")
    else:
        say(f"the ping was taken with the status {done.status}")
    return 1 if done.error else 0


@click.command()
@click.argument("webhook_id", metavar="ID", type=click.IntRange(1))
@json_option
def enable(webhook_id: int, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Tell a webhook again that was switched off.

    What happened in between is not told.

    \b
    JSON: the webhook as `sf webhook ls` shows it
    """
    with open_console_as(WebhookConsole) as console:
        found = console.enable_webhook(webhook_id)
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        say(f"webhook {webhook_id} is told again from now on")


@click.command()
@click.argument("webhook_id", metavar="ID", type=click.IntRange(1))
@json_option
def rm(webhook_id: int, as_json: bool) -> None:  # noqa: FBT001 - click passes flags so
    r"""Remove a webhook.

    \b
    JSON: {id, removed: true}
    """
    with open_console_as(WebhookConsole) as console:
        console.remove_webhook(webhook_id)
    if as_json:
        print_json({"id": webhook_id, "removed": True})
    else:
        say(f"removed {webhook_id}")


def describe_standing(one: WebhookView) -> str:
    """How it stands, in a few words: by its last delivery unless something is wrong. Pure."""
    if one.disabled_at is not None:
        return clean_line(f"switched off: {one.disabled_why}")
    if one.failing_since is not None:
        return f"failing since {_show_time(one.failing_since)}"
    if one.last is None:
        return "nothing sent yet"
    return f"{'delivered' if one.last.outcome == 'delivered' else 'not delivered'} {_show_time(one.last.at)}"


def _row(one: WebhookView) -> Sequence[str]:
    wanted = " ".join((one.jobs, one.project or "", *one.events)).strip()
    return str(one.id), clean_line(one.user), clean_line(wanted), describe_standing(one), clean_line(one.url)


def _delivery_row(one: DeliveryView) -> Sequence[str]:
    outcome = one.outcome.replace("_", " ") + (f": {clean_line(one.error)}" if one.error else "")
    return _show_time(one.at), one.job or "-", one.state or "-", str(one.tries), outcome


def _show_time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
