"""What `starforge-console explain-exit` reads and prints."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from starforge.cli.output import print_json, render_row
from starforge.errors import InputError
from starforge_console.diagnosis.evidence import parse_evidence
from starforge_console.diagnosis.exits import ExplainedExit, explain

_STDIN = "-"
_WIDTH = 100


def show_exits(files: Sequence[str], *, as_json: bool) -> None:
    """Print the explanation of the evidence in each of `files` ("-": standard input).

    Raises:
        InputError: a file cannot be read, or what it holds is no evidence.

    """
    explained = [(file, explain(parse_evidence(_load(file), _name(file)))) for file in files]
    if as_json:
        documents = [answer.to_json() for _, answer in explained]
        named = [{"file": file, **document} for (file, _), document in zip(explained, documents, strict=True)]
        print_json(documents[0] if len(documents) == 1 else named)
        return
    for file, answer in explained:
        if len(explained) > 1:
            click.echo(f"{file}:")
        _print(answer)


def _load(file: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if file == _STDIN else Path(file).read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read", why=str(error), next_step="name a file that you may read") from None


def _name(file: str) -> str:
    return "standard input" if file == _STDIN else file


def _print(answer: ExplainedExit) -> None:
    reason = answer.reason.value if answer.reason else "none"
    click.echo(render_row("what:    ", answer.summary, _WIDTH))
    click.echo(f"kind:    {answer.fault}, {answer.category.value}, reason {reason} ({answer.confidence.value})")
    if answer.retryable is not None:
        again = "runs again" if answer.retryable else "does not run again by itself"
        click.echo(
            f"then:    the job {again}{', which costs a retry' if answer.retryable and answer.costs_retry else ''}"
        )
    if answer.advice:
        click.echo(render_row("next:    ", answer.advice, _WIDTH))
