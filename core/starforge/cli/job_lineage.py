"""The part of `sf job show` that says where a job came from, and its difference from the commit."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click

from starforge.cli.output import describe_time, has_colour, note, paint
from starforge.contract.api import AttemptView, DifferenceView, GivenSecretView, JobDetail
from starforge.logtext import clean, clean_line
from starforge.wording import count_of, describe_bytes

_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}


def list_lineage(detail: JobDetail) -> Iterator[tuple[str, str]]:
    """What is known of the job's origin, whole, as label and text."""
    spec, origin, kept = detail.spec.spec, detail.spec.spec.provenance, detail.lineage
    yield "commit", f"{origin.commit or 'none'}{f' on {origin.branch}' if origin.branch else ''}"
    if origin.remote:
        yield "remote", origin.remote
    if origin.dirty:
        yield "changed", f"{count_of(len(origin.dirty_files), 'file')}: {', '.join(origin.dirty_files)}"
        yield "difference", _describe_difference(detail)
    if kept.rerun_of:
        yield "rerun of", kept.rerun_of
    if spec.init_from:
        pinned = next((one.version for one in detail.inputs if one.member == "init_from"), None)
        yield "starts from", f"{spec.init_from}{f' ({pinned})' if pinned else ''}"
    yield "recipe", f"{spec.recipe.name} {spec.recipe.version} {spec.recipe.digest}"
    yield "framework", f"{spec.framework.kind} {spec.framework.version or ''}".strip()
    yield "image", spec.framework.image + (f" = {detail.image_digest}" if detail.image_digest else "")
    yield "workspace", spec.workspace.digest
    if origin.config_digest:
        yield "settings", f"{origin.config_digest}{'' if kept.config is not None else ' (not kept)'}"
    yield "JobSpec", detail.spec_digest
    if detail.admission.digest:
        yield "admission", detail.admission.digest
    for attempt in detail.attempts:
        ran = (
            ("image", attempt.image_id),
            ("at its registry", attempt.image_digest),
            ("capsule", attempt.capsule_digest),
            ("runner", attempt.runner_digest),
        )
        told = ", ".join([*_list_bare(attempt), *(f"{name} {digest}" for name, digest in ran if digest)])
        yield f"attempt {attempt.number}", told or "not assembled yet"
        if attempt.secrets:
            yield "  secrets", describe_given(attempt.secrets)


def _list_bare(attempt: AttemptView) -> list[str]:
    return ["without a container, and without the image"] if attempt.is_bare else []


def describe_given(secrets: Sequence[GivenSecretView]) -> str:
    """Which secrets an attempt was given, and when their owner had set them."""
    return ", ".join(f"{one.name} (set {describe_time(one.set_at)})" for one in secrets)


def print_lineage(detail: JobDetail) -> None:
    """Print what is known of the job's origin, each fact on a line of its own that can be copied."""
    for name, text in list_lineage(detail):
        click.echo(f"{name:<11} {clean_line(text)}")


def print_difference(found: DifferenceView) -> None:
    """Print how a job's tree differs from its commit: as it is into a pipe, in colours on a terminal."""
    if not sys.stdout.isatty():
        click.echo(found.text.encode(), nl=False)  # a text would lose what looks like colours
    else:
        for line in found.text.removesuffix("\n").split("\n"):
            mark = _COLOURS.get(line[:1])
            click.echo(paint(clean(line), mark, colour=has_colour()) if mark else clean(line))
    if found.is_cut:
        note("cut: the difference was larger than what is kept")


def _describe_difference(detail: JobDetail) -> str:
    kept = detail.lineage
    if kept.difference_bytes is None:
        return "not kept"
    cut = ", cut" if kept.difference_is_cut else ""
    return f"{describe_bytes(kept.difference_bytes)}{cut}; sf job show --diff {detail.job.id}"
