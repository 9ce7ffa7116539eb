"""Options that commands about live jobs share."""

from __future__ import annotations

import click

from forewarn.serve.cli.commands.common import Decorator

pending_option: Decorator = click.option("--pending", is_flag=True, help="All jobs that wait.")
running_option: Decorator = click.option("--running", is_flag=True, help="All jobs that run.")
user_option: Decorator = click.option(
    "-u", "--user", metavar="NAME", help="Jobs of this user that wait or run."
)
