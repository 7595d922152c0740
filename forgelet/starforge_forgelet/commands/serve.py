"""`forgelet serve`."""

import click


@click.command()
@click.option("--host", default="0.0.0.0", show_default=True, help="The address to listen on.")  # noqa: S104 - the console calls from another machine, and only its certificate is let in
@click.option("--port", default=7070, show_default=True, type=click.IntRange(1, 65535), help="The port to listen on.")
@click.option("--log-level", default="info", type=click.Choice(["debug", "info", "warning", "error"]))
def serve(host: str, port: int, log_level: str) -> None:
    """Run the daemon until TERM or INT. Running containers never notice its end."""
    import logging  # noqa: PLC0415 - a help text needs none of it

    from starforge_forgelet.serving import serve as run_daemon  # noqa: PLC0415 - the same
    from starforge_forgelet.settings import load_settings  # noqa: PLC0415 - the same

    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    run_daemon(load_settings(), host, port)
