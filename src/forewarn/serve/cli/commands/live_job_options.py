"""Options of the commands for pending and running jobs."""

from __future__ import annotations

import click

from forewarn.serve.cli.commands.common import Decorator

pending_option: Decorator = click.option("--pending", is_flag=True, help="All pending jobs.")
running_option: Decorator = click.option("--running", is_flag=True, help="All running jobs.")
user_option: Decorator = click.option(
    "-u", "--user", metavar="NAME", help="Pending and running jobs of this user."
)
