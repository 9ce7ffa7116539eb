"""`forewarn serve`: the service, with its REST API."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.errors import MissingExtraError
from forewarn.serve.cli.commands.common import configured, home_option
from forewarn.serve.cli.terminal.output import say


@click.command("serve")
@home_option
@click.option("--listen", metavar="HOST:PORT", help="Where to listen.  [default: 127.0.0.1:8765]")
@click.option(
    "--socket", type=click.Path(path_type=Path), metavar="PATH", help="Listen on this unix socket too."
)
@click.option(
    "--datagram-socket",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Take notices of Slurm's hooks on this unix datagram socket.",
)
@click.option(
    "--collect/--no-collect", default=None, help="Collect from Slurm.  [default: if one is configured]"
)
@click.option(
    "--interval", type=click.IntRange(1), metavar="SECONDS", help="Time between rounds.  [default: 30]"
)
def command(
    home: Path | None,
    listen: str | None,
    socket: Path | None,
    datagram_socket: Path | None,
    collect: bool | None,
    interval: int | None,
) -> None:
    """Serve predictions over HTTP (REST), and collect from Slurm in the same process.

    One process: where a Slurm is configured it collects jobs, assesses them at submit, at start and when more
    is known, and answers programs and people: docs/service.md. On 127.0.0.1 it needs no log-in, for trying it
    out; to listen elsewhere, configure who may use it: docs/access.md.

    \b
    Examples:
      forewarn serve
      forewarn serve --listen 0.0.0.0:8765 --socket /run/forewarn/api.sock
      FOREWARN_SCHEDULER=simulator forewarn serve      a simulated cluster, without Slurm
      curl -s 'localhost:8765/v1/jobs?warns=true' | jq .
      FOREWARN_URL=http://localhost:8765 forewarn check job.sbatch
    """
    settings = {
        "serve.listen": listen,
        "serve.socket": socket,
        "serve.datagram_socket": datagram_socket,
        "serve.collect": None if collect is None else "auto" if collect else "never",
        "serve.interval": interval,
    }
    config = configured(home=home, **settings)
    say(f"starting, with {config.home}")  # before imports that take seconds on a busy machine
    try:
        from forewarn.serve.rest.process import run_service
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("forewarn"):
            raise
        raise MissingExtraError("the service needs its packages: pip install 'forewarn[serve]'") from None
    run_service(config, note=say)
