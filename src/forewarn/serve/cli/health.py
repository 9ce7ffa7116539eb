"""`forewarn health`: which nodes are sick or suspect, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import click

from forewarn.errors import UsageError
from forewarn.serve.cli.checks import Check
from forewarn.serve.cli.common import configured, home_option, json_option
from forewarn.serve.cli.learning import cluster_option
from forewarn.serve.cli.output import note, print_json, print_table, say
from forewarn.serve.cli.terminal import echo

if TYPE_CHECKING:
    from forewarn.assess.node_health import NodeHealth

_HEADINGS = ("node", "health", "state", "evidence", "until")
_LEVELS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")


@click.command("health", cls=Check)
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
        code = _checked(nodes, home, cluster, partition, at, (everything, exclude, nagios, as_json))
    except Exception as error:
        if nagios:  # a monitor shows what stands on stdout
            echo(f"FOREWARN UNKNOWN - {str(error).splitlines()[0]}")
        raise
    ctx.exit(code)


def _checked(
    nodes: Sequence[str],
    home: Path | None,
    cluster: str | None,
    partition: str | None,
    at: str | None,
    how: tuple[bool, bool, bool, bool],
) -> int:
    from forewarn.assess.node_health import exclude_line, node_health
    from forewarn.operate.freshness import moment_to_judge
    from forewarn.serve.cli.history_of import learning_store
    from forewarn.serve.cli.moments import parse_moment

    everything, exclude, nagios, as_json = how
    config = configured(home=home)
    with learning_store(None, config, cluster) as (store, name):
        zone = ZoneInfo(store.clusters()[name].timezone)
        asked = at if at in (None, "last") else parse_moment(at, str(zone), datetime.now(UTC))
        now = moment_to_judge(store, name, asked, int(datetime.now(UTC).timestamp()))
        judged = _chosen(node_health(store, name, now), nodes, partition)
    code = max(node.health.exit_code for node in judged)
    sick = [node.node for node in judged if node.health.exit_code == 2]
    if exclude:
        echo(exclude_line(sick) or "")
    elif nagios:
        echo(_one_line(judged, code))
    elif as_json:
        told = [node.to_json() for node in judged if everything or node.health.exit_code]
        print_json({"cluster": name, "at": now, "nodes": len(judged), "exit_code": code, "judged": told})
    else:
        _print(judged, zone, everything=everything)
        if line := exclude_line(sick):
            note(f"to keep a job off the sick ones: {line}")
    return code


def _chosen(judged: Sequence[NodeHealth], nodes: Sequence[str], partition: str | None) -> list[NodeHealth]:
    from forewarn.job.units import expand_nodes

    if not judged:
        raise UsageError("nothing is known of any node: `forewarn collect` sees them, `ingest` their jobs")
    known = {node.node for node in judged}
    try:
        wanted = {name for text in nodes for name in expand_nodes(text)} or known
    except ValueError as error:
        raise UsageError(str(error)) from None
    if missing := sorted(wanted - known):
        raise UsageError(f"no such node: {', '.join(missing)}")
    chosen = [
        node
        for node in judged
        if node.node in wanted and (not partition or partition in (node.partitions or "").split(","))
    ]
    if not chosen:
        raise UsageError(f"no node of partition {partition} is known")
    return chosen


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
