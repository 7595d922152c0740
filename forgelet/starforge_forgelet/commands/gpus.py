"""`forgelet gpus`."""

import click

from starforge.cli.output import json_option


@click.command()
@click.option("--from", "source", metavar="FILE", help="Read this capture of nvidia-smi instead; - is standard input.")
@json_option
def gpus(source: str | None, *, as_json: bool) -> None:
    r"""Show which GPUs this machine has, and why one is not offered to jobs.

    A capture may hold nvidia-smi -L, --query-gpu=… --format=csv or the table, with any noise around. The exit code is 0
    when it was understood, also where it says that there is no GPU.

    \b
    JSON: {gpus: [{index, uuid, name, series, memory_mib, usable, why}],
          errors: [{code, message}]}; an error about one GPU has its bus too
    """
    from starforge_forgelet.listing import show_gpus  # noqa: PLC0415 - a help text needs none of it

    show_gpus(source, as_json=as_json)
