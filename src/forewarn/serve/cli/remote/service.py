"""Whether a command asks a service, and which."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

from forewarn.errors import UsageError
from forewarn.serve.cli.commands.common import Decorator
from forewarn.serve.client.address import URL

if TYPE_CHECKING:
    from forewarn.serve.client.client import Client

url_option: Decorator = click.option(
    "--url",
    metavar="URL",
    help="Ask this service instead of the home: http(s)://HOST:8765, unix:/PATH.  [env: FOREWARN_URL]",
)


def asked_service(url: str | None, **own_flags: Any) -> Client | None:
    """Return the client of the service to ask; None: this process answers itself, from the home.

    Flags about the home, such as --home or --model, override the variable and exclude --url.
    """
    given = [name for name, value in own_flags.items() if value is not None]
    if url and given:
        raise UsageError(f"--url and --{given[0]} exclude each other: a service has its own home and clock")
    if given or not (url or os.environ.get(URL)):
        return None
    # httpx also imports its own command line, with Pygments and most of Rich, and does without where that is
    # not to be had: a tenth of the time of `forewarn check` as a process.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    from forewarn.serve.client.client import Client

    return Client(url)
