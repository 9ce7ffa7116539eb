"""`forewarn health`: which nodes are sick or suspect, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from forewarn.errors import UsageError
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.exit_status import StatusCommand
from forewarn.serve.cli.commands.learning import cluster_option
from forewarn.serve.cli.terminal.output import note, print_json, print_table, say
from forewarn.serve.cli.terminal.safe_text import echo

if TYPE_CHECKING:
    from forewarn.assess.node_health import NodeHealth
    from forewarn.operate.nodes import HealthResult

_HEADINGS = ("node", "health", "state", "evidence", "until")
_LEVELS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


@click.command("health", cls=StatusCommand)
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@home_option
@cluster_option
@click.option("-p", "--partition", metavar="NAME", help="Only nodes of this partition.")
@click.option("--all", "everything", is_flag=True, help="List the healthy ones, too.")
@click.option("--exclude", is_flag=True, help="Print only the option that keeps a job off the sick nodes.")
@click.option("--nagios", is_flag=True, help="Print only one line, as monitoring plugins do.")
@click.option("--at", metavar="TIME", help="As of this moment; `last` is that of the newest record.")
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    nodes: tuple[str, ...],
    home: Path | None,
    cluster: str | None,
    partition: str | None,
    everything: bool,
    exclude: bool,
    nagios: bool,
    at: str | None,
    as_json: bool,
) -> None:
    """Say which nodes are sick or suspect, by Slurm's words and by how jobs fared there.

    A node's failures are held against what the same users' jobs did elsewhere: a user whose jobs always
    fail makes no node sick. NODE may be a list as Slurm writes it, n[01-04].

    Exit code: 0 all are healthy, 1 some are suspect, 2 some are sick, 3 it cannot be said (any error).

    \b
    Examples:
      forewarn health
      forewarn health n012 --all
      sbatch $(forewarn health --exclude -p main) job.sbatch
      forewarn health --nagios
    """
    if sum((exclude, nagios, as_json)) > 1:
        raise UsageError("--exclude, --nagios and --json: one of them")
    try:
        from forewarn.operate.nodes import judge_nodes

        with opened(home=home) as workspace:
            found = judge_nodes(workspace, *nodes, cluster=cluster, partition=partition, at=at)
        _show(found, everything=everything, exclude=exclude, nagios=nagios, as_json=as_json)
    except Exception as error:
        if nagios:  # a monitor shows what stands on stdout
            echo(f"FOREWARN UNKNOWN - {str(error).splitlines()[0]}")
        raise
    ctx.exit(found.exit_code)


def _show(found: HealthResult, *, everything: bool, exclude: bool, nagios: bool, as_json: bool) -> None:
    if exclude:
        echo(found.exclude or "")
    elif nagios:
        echo(_one_line(found.nodes, found.exit_code))
    elif as_json:
        told = [node.to_json() for node in found.nodes if everything or node.health.exit_code]
        about = {"cluster": found.cluster, "at": found.at, "nodes": len(found.nodes)}
        print_json({**about, "exit_code": found.exit_code, "judged": told})
    else:
        _print(found.nodes, ZoneInfo(found.timezone), everything=everything)
        if found.exclude:
            note(f"to keep a job off the sick ones: {found.exclude}")


def _one_line(judged: Sequence[NodeHealth], code: int) -> str:
    """What a plugin prints: status, words, and figures to draw."""
    counts = Counter(str(node.health) for node in judged)
    sick, suspect, out = counts["sick"], counts["suspect"], sum(not node.in_service for node in judged)
    from forewarn.job.units import compress_nodes

    named = compress_nodes(node.node for node in judged if node.health.exit_code == code) if code else ""
    told = f"{len(judged)} nodes, {sick} sick, {suspect} suspect" + (f": {named}" if named else "")
    return f"FOREWARN {_LEVELS[code]} - {told} | sick={sick} suspect={suspect} out_of_service={out}"


def _print(judged: Sequence[NodeHealth], zone: ZoneInfo, *, everything: bool) -> None:
    shown = [node for node in judged if everything or node.health.exit_code]
    if not shown:
        say(f"all {len(judged)} nodes are healthy")
        return
    rows = [
        (
            node.node,
            str(node.health),
            node.state and node.state.lower(),
            "; ".join(evidence.what for evidence in node.evidence),
            "" if node.until is None else datetime.fromtimestamp(node.until, zone).strftime("%Y-%m-%d %H:%M"),
        )
        for node in sorted(shown, key=lambda node: (-node.health.exit_code, node.node))
    ]
    print_table(_HEADINGS, rows, shorten=("evidence",), drop=("until", "state"))
    rest = len(judged) - len(shown)
    if rest:
        say(f"the other {rest} nodes are healthy")
