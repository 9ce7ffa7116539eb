"""`forewarn health`: list sick and suspect nodes, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.errors import UsageError
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.exit_status import StatusCommand
from forewarn.serve.cli.commands.learning import cluster_option
from forewarn.serve.cli.remote.service import asked_service, url_option
from forewarn.serve.cli.terminal.output import note, print_json, print_table, say
from forewarn.serve.cli.terminal.safe_text import echo

if TYPE_CHECKING:
    from forewarn.assess.node_health.records import NodeHealth
    from forewarn.operate.health_result import HealthResult

_HEADINGS = ("node", "health", "state", "evidence", "until")
_LEVELS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


@click.command("health", cls=StatusCommand)
@click.argument("nodes", nargs=-1, metavar="[NODE]...")
@home_option
@url_option
@cluster_option
@click.option("-p", "--partition", metavar="NAME", help="Only nodes of this partition.")
@click.option("--all", "everything", is_flag=True, help="List healthy nodes too.")
@click.option("--exclude", is_flag=True, help="Print only the sbatch option that excludes the sick nodes.")
@click.option("--nagios", is_flag=True, help="Print one line, as monitoring plugins do.")
@click.option(
    "--at", metavar="TIME", help="Assess the nodes at this time; `last` is the time of the newest record."
)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    nodes: tuple[str, ...],
    home: Path | None,
    url: str | None,
    cluster: str | None,
    partition: str | None,
    everything: bool,
    exclude: bool,
    nagios: bool,
    at: str | None,
    as_json: bool,
) -> None:
    """List sick and suspect nodes, by their Slurm state and by the outcomes of their jobs.

    The failures on a node are compared with those of the same users elsewhere: a user whose jobs always fail
    does not make a node sick. NODE may be a list as Slurm writes it, n[01-04].

    Exit codes: 0 all healthy, 1 some suspect, 2 some sick, 3 unknown (any error).

    \b
    Examples:
      forewarn health
      forewarn health n012 --all
      sbatch $(forewarn health --exclude -p main) job.sbatch
      forewarn health --nagios
    """
    if sum((exclude, nagios, as_json)) > 1:
        raise UsageError("--exclude, --nagios and --json exclude each other: use one of them")
    try:
        if client := asked_service(url, home=home, at=at):
            with client:
                found = client.health(*nodes, cluster=cluster, partition=partition)
        else:
            from forewarn.operate.nodes import judge_nodes

            with opened(home=home) as workspace:
                found = judge_nodes(workspace, *nodes, cluster=cluster, partition=partition, at=at)
        _show(found, everything=everything, exclude=exclude, nagios=nagios, as_json=as_json)
    except Exception as error:
        if nagios:  # a monitoring system shows stdout only
            echo(f"FOREWARN UNKNOWN - {str(error).splitlines()[0]}")
        raise
    ctx.exit(found.exit_code)


def _show(found: HealthResult, *, everything: bool, exclude: bool, nagios: bool, as_json: bool) -> None:
    if exclude:
        echo(found.exclude or "")
    elif nagios:
        echo(_one_line(found.nodes, found.exit_code))
    elif as_json:
        nodes = [node.to_json() for node in found.nodes if everything or node.health.exit_code]
        about = {"cluster": found.cluster, "at": found.at, "nodes": len(found.nodes)}
        print_json({**about, "exit_code": found.exit_code, "judged": nodes})
    else:
        _print(found.nodes, found.timezone, everything=everything)
        if found.exclude:
            note(f"to exclude the sick nodes: {found.exclude}")


def _one_line(nodes: Sequence[NodeHealth], code: int) -> str:
    """Write the line of a monitoring plugin: status, text, and values to plot."""
    counts = Counter(str(node.health) for node in nodes)
    sick, suspect, out = counts["sick"], counts["suspect"], sum(not node.in_service for node in nodes)
    from forewarn.job.units import compress_nodes

    named = compress_nodes(node.node for node in nodes if node.health.exit_code == code) if code else ""
    text = f"{len(nodes)} nodes, {sick} sick, {suspect} suspect" + (f": {named}" if named else "")
    return f"FOREWARN {_LEVELS[code]} - {text} | sick={sick} suspect={suspect} out_of_service={out}"


def _print(nodes: Sequence[NodeHealth], zone: str, *, everything: bool) -> None:
    from forewarn.formatting import timestamp

    shown = [node for node in nodes if everything or node.health.exit_code]
    if not shown:
        say(f"all {len(nodes)} nodes are healthy")
        return
    rows = [
        (
            node.node,
            str(node.health),
            node.state and node.state.lower(),
            "; ".join(evidence.what for evidence in node.evidence),
            "" if node.until is None else timestamp(node.until, zone),
        )
        for node in sorted(shown, key=lambda node: (-node.health.exit_code, node.node))
    ]
    print_table(_HEADINGS, rows, shorten=("evidence",), drop=("until", "state"))
    rest = len(nodes) - len(shown)
    if rest:
        say(f"the other {rest} nodes are healthy")
