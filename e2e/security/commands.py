"""Every command of `sf`, as the program itself has them, with arguments for each."""

from collections.abc import Iterator, Mapping
from typing import Final

import click

from starforge.cli.main import root

Arguments = Mapping[tuple[str, ...], tuple[str, ...]]

JOB, PROJECT_FILE, HOOK = "{job}", "{log}", "{hook}"
_NOT_THERE: Final = "nothing-of-this-name"
ARGUMENTS: Final[Arguments] = {
    ("init",): ("{folder}",),
    ("new",): ("second",),
    ("ls",): (),
    ("methods",): (),
    ("recipe", "status"): ("--all",),
    ("recipe", "upgrade"): ("--all", "--dry-run"),
    ("validate",): ("probe",),
    ("pack",): ("probe",),
    ("submit",): ("probe", "--profile", "any:1", "--secret", "CANARY", "--dry-run"),
    ("sweep", "start"): ("probe", "-g", "lr=1,2", "--profile", "any:1", "--dry-run"),
    ("sweep", "ls"): (),
    ("sweep", "show"): (_NOT_THERE,),
    ("sweep", "stop"): (_NOT_THERE,),
    ("rerun",): (_NOT_THERE,),
    ("job", "ls"): (),
    ("job", "show"): (JOB, "--lineage", "--diff"),
    ("job", "logs"): (JOB, "--raw"),
    ("job", "artifacts"): (JOB,),
    ("job", "get"): (JOB, "--to", "{folder}"),
    ("job", "metrics"): (JOB,),
    ("job", "samples"): (JOB,),
    ("job", "clone"): (JOB, "{folder}"),
    ("job", "pause"): (_NOT_THERE,),
    ("job", "resume"): (JOB,),
    ("job", "retry"): (JOB,),
    ("job", "stop"): (_NOT_THERE,),
    ("job", "delete"): (_NOT_THERE, "--yes"),
    ("queue",): (),
    ("why",): (JOB,),
    ("quota",): (),
    ("log", "render"): (PROJECT_FILE,),
    ("secret", "set"): ("CANARY", "--from-file", "{file}"),
    ("secret", "ls"): (),
    ("secret", "rm"): ("NOTHING_THERE",),
    ("webhook", "add"): ("ftp://127.0.0.1/",),
    ("webhook", "ls"): (),
    ("webhook", "show"): (HOOK,),
    ("webhook", "test"): (HOOK,),
    ("webhook", "enable"): (HOOK,),
    ("webhook", "rm"): ("999999",),
    ("compare",): (JOB, JOB),
    ("diagnose",): (JOB,),
    ("fleet", "ls"): (),
    ("fleet", "show"): ("local",),
    ("fleet", "create"): ("farm", "--kind", "node"),
    ("fleet", "change"): (_NOT_THERE, "--require-max-runtime", "yes"),
    ("fleet", "delete"): (_NOT_THERE, "--yes"),
    ("fleet", "token", "create"): (_NOT_THERE,),
    ("fleet", "token", "ls"): ("farm",),
    ("fleet", "token", "revoke"): ("farm", "999999"),
    ("fleet", "gpus", "ls"): (),
    ("fleet", "gpus", "add"): ("NVIDIA L40S", "l40s"),
    ("fleet", "gpus", "forget"): (_NOT_THERE,),
    ("windows",): (),
    ("node", "ls"): (),
    ("node", "drain"): (_NOT_THERE,),
    ("node", "undrain"): (_NOT_THERE,),
    ("node", "remove"): (_NOT_THERE,),
    ("node", "mark-lost"): (_NOT_THERE, "--confirm", _NOT_THERE),
    ("node", "end-unknown"): (_NOT_THERE, _NOT_THERE, "--yes"),
    ("admin", "audit"): ("--limit", "500"),
    ("admin", "gc"): (),
    ("admin", "maintenance", "drain"): ("--no-such-option",),
    ("admin", "maintenance", "resume"): (),
    ("admin", "maintenance", "status"): (),
    ("admin", "queue", "first"): (_NOT_THERE,),
    ("admin", "queue", "last"): (_NOT_THERE,),
    ("admin", "queue", "release"): (_NOT_THERE,),
    ("admin", "quota", "ls"): ("--runs",),
    ("admin", "quota", "rm"): ("--team", _NOT_THERE),
    ("admin", "quota", "set"): ("--team", "vision", "--gpus", "4"),
    ("admin", "registry", "set"): ("registry.example.org", "--username", "robot"),
    ("admin", "registry", "ls"): (),
    ("admin", "registry", "rm"): ("nowhere.example.org",),
    ("admin", "team", "ls"): (),
    ("admin", "team", "set"): ("ada", "vision"),
    ("admin", "user", "add"): ("eve",),
    ("admin", "user", "ls"): (),
    ("admin", "user", "set"): ("eve", "--role", "viewer"),
    ("admin", "window", "set"): ("fleet", _NOT_THERE, "--zone", "UTC", "--open", "mon 20:00-21:00"),
    ("admin", "window", "ls"): (),
    ("admin", "window", "rm"): ("fleet", _NOT_THERE),
    ("session", "ls"): ("--all",),
    ("session", "end"): ("999999",),
    ("status",): (),
    ("version",): (),
    ("login",): ("--server", "{url}"),
    ("logout",): (),
}
"""What is named as not being there is refused in words, and these are looked through as well."""


def list_commands() -> list[tuple[str, ...]]:
    """The words of each command that does something."""
    return list(_walk(root, click.Context(root, info_name="sf"), ()))


def _walk(group: click.Group, context: click.Context, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from _walk(command, click.Context(command, parent=context, info_name=name), (*words, name))
        else:
            yield (*words, name)
