"""The command `starforge-console`: sets a console up, serves it, and makes users and tokens on its machine."""

import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from starforge import __version__
from starforge.cli.run import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from starforge.contract.launch import Secret
    from starforge_console.ledger.database import Database
    from starforge_console.settings.console import ConsoleSettings

ROLES = ("member", "admin")


class _Commands(click.Group):
    """A group that shows errors as `sf` does, and the whole line of every command in its help."""

    def main(
        self,
        args: "Sequence[str] | None" = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - the same
        **extra: Any,  # noqa: ANN401 - the same
    ) -> Any:  # noqa: ANN401 - the same
        """Run the command that was named and, unless the caller wants to, end the process."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        sys.exit(run(self, sys.argv[1:] if args is None else args, prog_name or "starforge-console"))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands, each with its first line uncut."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, (command.help or "").partition("\n")[0]) for name, command in found if command])


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
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
@click.option("--admin", default="admin", show_default=True, help="Name of the first administrator.")
@click.option("--new-link", is_flag=True, help="Print a new sign-in link for the administrator.")
def init(admin: str, *, new_link: bool) -> None:
    """Set the console up, once, and print a sign-in link for the first administrator.

    The link works once, within an hour. Everything that is there already stays as it is; the console may be running.
    """
    from starforge_console.accounts.users import ADMIN, create_user, find_first_admin, issue_sign_in_code  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.fleets.install import prepare_install, prepare_state  # noqa: PLC0415 - the same
    from starforge_console.fleets.readiness import check_host, find_obstacles  # noqa: PLC0415 - the same

    settings = _load_settings()
    check_host(settings)
    prepare_state(settings)
    with _open_ledger(settings) as ledger:
        install = prepare_install(ledger, settings, time.time())
        _say(f"install {install.id}: state in {settings.paths.console_state_dir}, storage in {settings.storage_root}")
        for obstacle in find_obstacles(settings):
            _say(f"warning: {obstacle}")
        first = find_first_admin(ledger)
        if first is not None and not new_link:
            _say(f"it was set up before, with {first.name} as its administrator; --new-link prints a new sign-in link")
            return
        user = first or create_user(ledger, admin, ADMIN, time.time())
        code = issue_sign_in_code(ledger, user, time.time())
    _say("next: starforge-console serve")
    _say(f"then sign in as {user.name} with this link, which works once, within an hour:")
    click.echo(_link(settings, code))


@main.command()
def serve() -> None:
    """Serve pages, API and ingest, and run jobs, until SIGTERM or SIGINT."""
    from starforge_console import app  # noqa: PLC0415 - brings in everything
    from starforge_console.telemetry.log import set_up_log  # noqa: PLC0415 - a help text needs none of it

    settings = _load_settings()
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

    settings = _load_settings()
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

    bring_back(_load_settings(), folder.absolute(), as_json=as_json)


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


@main.group(cls=_Commands)
def token() -> None:
    """Personal tokens."""


@token.command("create")
@click.option("--user", "name", required=True, help="Whose token it is.")
@click.option("--scopes", default="read,submit", show_default=True, help="What it may do: read, submit, admin.")
@click.option("--days", default=90.0, show_default=True, help="How long it is valid.")
def create_token(name: str, scopes: str, days: float) -> None:
    """Print a new token and nothing else, to be piped into 'sf login'. The console may be running."""
    from starforge_console.accounts.users import issue_token, load_named  # noqa: PLC0415 - a help text needs none of it

    with _open_ledger(_load_settings()) as ledger:
        made = issue_token(ledger, load_named(ledger, name), scopes.split(","), days, time.time())
    click.echo(made.reveal())


@main.group(cls=_Commands)
def user() -> None:
    """Users."""


@user.command("add")
@click.argument("name")
@click.option("--role", type=click.Choice(ROLES), default="member", show_default=True)
def add_user(name: str, role: str) -> None:
    """Add a user and print a sign-in link, which works once, within an hour."""
    from starforge_console.accounts.users import create_user, issue_sign_in_code  # noqa: PLC0415 - as above

    settings = _load_settings()
    with _open_ledger(settings) as ledger:
        code = issue_sign_in_code(ledger, create_user(ledger, name, role, time.time()), time.time())
    click.echo(_link(settings, code))


@user.command("team")
@click.argument("name")
@click.argument("team", required=False)
@click.option("--none", "leave", is_flag=True, help="Let the user belong to no team.")
def set_team(name: str, team: str | None, *, leave: bool) -> None:
    """Let a user belong to a team, whose quota then binds the user's jobs beside the user's own.

    A user belongs to one team at most. The console may be running.
    """
    from starforge_console.accounts.quota_command import put_in_team  # noqa: PLC0415 - a help text needs none of it

    if leave == (team is not None):
        raise click.UsageError("name a team, or give --none")
    with _open_ledger(_load_settings()) as ledger:
        put_in_team(ledger, name, team)


@main.group(cls=_Commands)
def quota() -> None:
    """What users and teams may hold and use."""


def _holder_options(command: "Callable[..., None]") -> "Callable[..., None]":
    options = (
        click.option("--user", metavar="NAME", help="The user whose limit it is."),
        click.option("--team", metavar="NAME", help="The team whose limit it is."),
    )
    for option in reversed(options):
        command = option(command)
    return command


@quota.command("set")
@_holder_options
@click.option("--gpus", metavar="N", help="So many GPUs at once.")
@click.option("--jobs", metavar="N", help="So many running jobs at once.")
@click.option("--gpu-hours", metavar="N", help="So many GPU-hours in any 24 hours.")
@click.option("--storage-gib", metavar="N", help="So many GiB on the storage, of all jobs together.")
@click.option("--series", metavar="NAMES", help="Only GPUs of these series, such as h200,l40s.")
@click.option("--profiles", metavar="NAMES", help="Only these profiles, such as cpu,h200.")
def set_quota(user: str | None, team: str | None, **limits: str | None) -> None:
    """Limit a user or a team; what is not named stays as it is, and `none` takes a limit away.

    A job that could never start under a limit is refused; one that is only over it now waits in the queue. What runs
    already goes on, also when its hours are used up or its storage is full. Series bind GPUs alone, profiles also jobs
    without any (cpu). The console may be running: it minds a change within seconds.
    """
    from starforge_console.accounts.quota_command import set_quota  # noqa: PLC0415 - a help text needs none of it

    with _open_ledger(_load_settings()) as ledger:
        set_quota(ledger, user, team, {name: text for name, text in limits.items() if text is not None})


@quota.command("ls")
@click.option("--runs", is_flag=True, help="Show the runs that add up to it, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")
def list_quotas(*, runs: bool, as_json: bool) -> None:
    """Show every limit and what counts against it now.

    The JSON holds items: a list of kind (user or team), name, gpus, jobs, series, gpu_hours, storage_gib and profiles
    (null: no limit), held with gpus and jobs, gpu_seconds of the last 24 hours, stored_bytes, and runs: job, user,
    gpus, jobs, gpu_s, is_silent and bytes of each run that these numbers are the sums of.
    """
    from starforge_console.accounts.quota_command import show_quotas  # noqa: PLC0415 - a help text needs none of it

    with _open_ledger(_load_settings()) as ledger:
        show_quotas(ledger, time.time(), as_json=as_json, runs=runs)


@quota.command("rm")
@_holder_options
def remove_quota(user: str | None, team: str | None) -> None:
    """Take every limit of a user or a team away."""
    from starforge_console.accounts.quota_command import remove_quota  # noqa: PLC0415 - a help text needs none of it

    with _open_ledger(_load_settings()) as ledger:
        remove_quota(ledger, user, team)


@main.group(cls=_Commands)
def vault() -> None:
    """What users and administrators trust the console with, sealed."""


@vault.command("forget-unreadable")
@click.option("--apply", "is_applied", is_flag=True, help="Give it up; without this nothing is changed.")
def forget_unreadable(*, is_applied: bool) -> None:
    """List every secret, login and webhook that the key in vault-key does not open, and give it up.

    While there is any, nothing new is sealed: put back, the old key opens it again. This is for a key that is lost for
    good. Secrets and logins go, webhooks are switched off. The console may be running.
    """
    from starforge_console.accounts.vault import KEY_FILE, open_vault  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.accounts.vault_command import forget_unreadable  # noqa: PLC0415 - the same

    settings = _load_settings()
    with _open_ledger(settings) as ledger:
        key_file = settings.paths.console_state_dir / KEY_FILE
        forget_unreadable(ledger, open_vault(key_file, ledger), time.time(), is_applied=is_applied)


@main.group(cls=_Commands)
def wheelhouse() -> None:
    """Wheels that machines install forgelet from."""


@wheelhouse.command("add")
@click.option("--python", "pythons", multiple=True, help="Python of the machines, such as 3.11; may be repeated.")
@click.option("--arch", "arches", multiple=True, help="Architecture: x86_64 or aarch64; may be repeated.")
@click.option("--own", type=click.Path(file_okay=False, path_type=Path), help="Folder with this release's own wheels.")
def add_wheels(pythons: tuple[str, ...], arches: tuple[str, ...], own: Path | None) -> None:
    """Supply the wheels for machines with that Python and architecture, and print the names of what is new.

    Without options it is this machine's. Third-party wheels are downloaded with pip and its settings, exactly those
    that the release's lock names. Our own come from --own, or are built from the source tree that the console runs
    from. The console may be running.
    """
    from starforge_console.wheels.command import add_wheels  # noqa: PLC0415 - a help text needs none of it

    add_wheels(_find_wheelhouse(), pythons, arches, own)


@wheelhouse.command("ls")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a stable schema.")
def list_wheels(*, as_json: bool) -> None:
    """Show which machines could install forgelet now.

    The JSON holds folder and targets: a list of python, arch and missing.
    """
    from starforge_console.wheels.command import list_targets  # noqa: PLC0415 - a help text needs none of it

    list_targets(_find_wheelhouse(), as_json=as_json)


def _find_wheelhouse() -> Path:
    from starforge_console.fleets.install import require_ledger  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.wheels.index import FOLDER  # noqa: PLC0415 - the same

    settings = _load_settings()
    require_ledger(settings)
    return settings.paths.console_state_dir / FOLDER


def _load_settings() -> "ConsoleSettings":
    from starforge_console.settings.console import load_settings, unknown_names  # noqa: PLC0415 - a help text needs none

    settings = load_settings()
    for name in unknown_names(dict(os.environ)):
        _say(f"warning: {name} is set, and nothing reads it: is it a typing error?")
    return settings


@contextmanager
def _open_ledger(settings: "ConsoleSettings") -> "Iterator[Database]":
    from starforge_console.fleets.install import locate, require_ledger  # noqa: PLC0415 - a help text needs none of it
    from starforge_console.ledger.database import Database  # noqa: PLC0415 - the same

    require_ledger(settings)
    ledger = Database(locate(settings, "ledger"), "ledger")
    try:
        yield ledger
    finally:
        ledger.close()


def _link(settings: "ConsoleSettings", code: "Secret") -> str:
    return f"{settings.http.public_url.rstrip('/')}/signin/{code.reveal()}"


def _say(text: str) -> None:
    click.echo(text, err=True)
