"""`forewarn audit`: who did what."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.formatting import timestamp
from forewarn.serve.cli.commands.common import configured, home_option
from forewarn.serve.cli.terminal.output import print_table, say
from forewarn.serve.cli.terminal.safe_text import echo_json

if TYPE_CHECKING:
    from forewarn.operate.access.audit import AuditLine


@click.command("audit")
@home_option
@click.option("-u", "--user", multiple=True, metavar="USER", help="Actions of this user.")
@click.option(
    "--action",
    multiple=True,
    metavar="ACTION",
    help="login, submit, cancel, resubmit, set-threshold, token.create, …",
)
@click.option("-S", "--starttime", "since", metavar="TIME", help="From TIME on: 2024-01-31T13:30, now-7days.")
@click.option("-E", "--endtime", "until", metavar="TIME", help="Before TIME.")
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), default=100, show_default=True, help="Newest lines; 0: all."
)
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object per line.")
def command(
    home: Path | None,
    user: tuple[str, ...],
    action: tuple[str, ...],
    since: str | None,
    until: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show the audit log: who did what, when, from where, with what result.

    Every action is in it: logins, jobs submitted and cancelled through the service, thresholds, tokens.
    Times are UTC. Tokens and passwords are never in it.

    \b
    Examples:
      forewarn audit -S now-7days
      forewarn audit -u alice --action cancel
      forewarn audit --limit 0 --json | jq -c 'select(.result != "done")'
    """
    from forewarn.job.moments import unix_seconds
    from forewarn.operate.access.manage import read_audit

    lines = read_audit(
        configured(home=home),
        since=None if since is None else unix_seconds(since),
        until=None if until is None else unix_seconds(until),
        users=user,
        actions=action,
        newest=limit or None,
    )
    if as_json:
        for line in lines:
            echo_json(json.dumps(line.to_json(), ensure_ascii=False))
    elif lines:
        _print_lines(lines)
    else:
        say("no lines match")


def _print_lines(lines: Sequence[AuditLine]) -> None:
    headings = ("time", "user", "method", "address", "action", "subject", "result")
    rows = [
        (
            timestamp(line.at, "UTC"),
            line.user,
            line.method,
            line.address,
            line.action,
            line.subject,
            line.result,
        )
        for line in lines
    ]
    print_table(headings, rows, shorten=("result",), drop=("method", "address"))
