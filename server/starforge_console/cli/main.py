"""The command `starforge-console`: sets a console up, serves it, and makes users and tokens on its machine."""

import sys
import time
from pathlib import Path

import click

from starforge import __version__
from starforge_console.cli.checks import check
from starforge_console.cli.group import Commands
from starforge_console.cli.opening import link_of, open_ledger, read_settings, say
from starforge_console.cli.quotas import quota
from starforge_console.cli.stores import vault, wheelhouse
from starforge_console.cli.unit import unit
from starforge_console.cli.users import token, user


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="starforge-console", message="%(prog)s %(version)s")
def main() -> None:
    """The control plane of StarForge.

    Settings come from the environment, as FORGE_* variables. Answers go to standard output, everything else to standard
    error. The exit code is 0 when it was done, 1 when it was not, 2 when what was given cannot be used.
    """


@main.command()
def version() -> None:
    """Print the installed version and nothing else."""
    click.echo(__version__)


@main.command()
@click.option("--admin", help="Name of the first administrator, otherwise admin; or of the one whom a new link is for.")
@click.option("--new-link", is_flag=True, help="Print a new sign-in link for the administrator.")
def init(admin: str | None, *, new_link: bool) -> None:
    """Set the console up, once, and print a sign-in link for the first administrator.

    The link works once, within an hour. Everything that is there already stays as it is; the console may be running.
    """
    from starforge_console.accounts.acts import build_link, build_user  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.accounts.users import find_first_admin, load_admin  # noqa: PLC0415 - the same
    from starforge_console.domain.roles import Role  # noqa: PLC0415 - the same
    from starforge_console.fleets.install import prepare_install, prepare_state  # noqa: PLC0415 - the same
    from starforge_console.fleets.readiness import check_host, find_obstacles  # noqa: PLC0415 - the same

    settings = read_settings()
    check_host(settings)
    prepare_state(settings)
    with open_ledger(settings) as ledger:
        install = prepare_install(ledger, settings, time.time())
        say(f"install {install.id}: state in {settings.paths.console_state_dir}, storage in {settings.storage_root}")
        for obstacle in find_obstacles(settings):
            say(f"warning: {obstacle}")
        first = find_first_admin(ledger)
        if first is not None and not new_link:
            say(f"it was set up before, with {first.name} as its administrator; --new-link prints a new sign-in link")
            return
        if first is None:
            user = ledger.write_now(build_user(admin or Role.ADMIN.value, Role.ADMIN, time.time())).user
        else:
            user = first if admin is None else load_admin(ledger, admin)
        made = ledger.write_now(build_link(user.name, time.time()))
    say("next: starforge-console serve")
    say(f"then sign in as {user.name} with this link, which works once, within an hour:")
    click.echo(link_of(settings, made.text))


@main.command()
def serve() -> None:
    """Serve pages, API and ingest, and run jobs, until SIGTERM or SIGINT."""
    from starforge_console.telemetry.lean import load_structlog  # noqa: PLC0415 - a help text needs none of it

    load_structlog()
    from starforge_console import app  # noqa: PLC0415 - brings in everything
    from starforge_console.telemetry.log import set_up_log  # noqa: PLC0415 - a help text needs none of it

    settings = read_settings()
    set_up_log(settings.log.log_format, settings.log.log_level)
    sys.exit(app.run(settings))


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")
def backup(folder: Path, *, as_json: bool) -> None:
    """Write the ledger, curves, logs and keys to the new FOLDER, whole or not at all. The console may be running.

    Workspaces and outputs of jobs lie in the storage root: copy that afterwards. The JSON holds folder, bytes, version,
    made_at, install, storage, database and gaps: a list of attempt, stream, from_byte, to_byte and why.
    """
    from starforge_console.backup.command import back_up  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.fleets.install import require_ledger  # noqa: PLC0415 - the same

    settings = read_settings()
    require_ledger(settings)
    back_up(settings, folder.absolute(), as_json=as_json)


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")
def restore(folder: Path, *, as_json: bool) -> None:
    """Bring the backup in FOLDER back, to a state directory or a database that holds no console yet.

    Whatever machines hold that is newer is neither ended nor doubled: its jobs are held, and shown. A backup from
    SQLite can be restored to PostgreSQL, and the other way. The JSON holds what the backup says of itself, counts,
    gaps, blobs that the storage does not hold, newer (job, number, place) and unknown: jobs without a record.
    """
    from starforge_console.backup.command import bring_back  # noqa: PLC0415 - a help text needs none of it

    bring_back(read_settings(), folder.absolute(), as_json=as_json)


@main.command("explain-exit")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")
def explain_exit(files: tuple[str, ...], *, as_json: bool) -> None:
    """Say why an attempt ended or never began, from evidence alone.

    A FILE holds what docker inspect printed, the words of an engine or a registry, or evidence of ours; without one, or
    for -, it is standard input. Evidence of ours is an object with any of: engine (code, out_of_memory, started_at,
    finished_at, engine_started_at, error), record (the runner's exit.json), desired, stop_sent, message, exit_code.

    The JSON holds category, reason, fault, cause, summary, advice, evidence, retryable, costs_retry and confidence; for
    several files it is a list of these, each with its file.
    """
    from starforge_console.diagnosis.command import show_exits  # noqa: PLC0415 - a help text needs none of it

    show_exits(files or ("-",), as_json=as_json)


for _command in (check, token, user, quota, vault, wheelhouse, unit):
    main.add_command(_command)
