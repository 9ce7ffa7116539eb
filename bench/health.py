"""Node health on simulated clusters: sick nodes that are found, innocent ones that are named.

    python bench/health.py [--clusters 40] [--seed 1000] [--scenario small] [--jobs 20000]

Each cluster is judged as of one moment a week, by its jobs alone, with what was known at that moment. A node
counts as sick while an illness of the simulator lasts and it has failed jobs before and after the moment; of
these the ones are looked for on which at least 50 jobs have ended since and three times as many failed as
would have without the illness. `silent` is the same cluster with every such failure told as exit code 1, as
a program tells it that does not say why.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace

import polars as pl

from forewarn.assess.node_health.classification import classify_nodes
from forewarn.assess.node_health.job_runs import DAY, EVIDENCE_DAYS, HISTORY_DAYS, runs_of
from forewarn.assess.node_health.records import Health
from forewarn.assess.node_health.slurm_states import NodeHistory
from forewarn.job.record import Node
from forewarn.sources.simulator.scenario import Scenario, load_scenario
from forewarn.sources.simulator.simulator import Simulator

FIRST_DAY, EVERY_DAYS = 15, 7
FEWEST_JOBS, TIMES = 50, 3.0
_APART = 2 * DAY  # between two failures of one illness at most
_STRIKES = 5  # failures below which an illness has not shown yet


@dataclass
class Tally:
    """What became of all that was asked."""

    sick: int = 0  # node-moments that had to be found
    found: int = 0
    suspected: int = 0  # not found, but called suspect
    weaker: int = 0  # sick, but not three times
    weaker_found: int = 0
    moments: int = 0
    late: int = 0  # named while its illness of the last two weeks was over
    innocent: int = 0  # node-moments of nodes that were not ill in that time
    clusters: int = 0
    clusters_wronged: set[int] = field(default_factory=set)
    nodes: set[tuple[int, str, int]] = field(default_factory=set)  # illnesses
    nodes_found: set[tuple[int, str, int]] = field(default_factory=set)


def cluster_jobs(scenario: Scenario, seed: int, jobs: int, *, silent: bool) -> pl.DataFrame:
    """Return the jobs that ran, with the faults that struck them."""
    parts = list(Simulator(scenario, seed, jobs))
    seen = pl.concat([part for part, _ in parts]).filter(pl.col("outcome").is_not_null())
    truth = pl.concat([part for _, part in parts]).select("job_id", "submit", "cause", "sick_node")
    ran = seen.filter(pl.col("start").is_not_null() & pl.col("nodes").is_not_null())
    joined = ran.join(truth, on=["job_id", "submit"], how="left")
    if silent:
        struck = pl.col("cause") == "node"
        joined = joined.with_columns(
            outcome=pl.when(struck).then(pl.lit("failed")).otherwise("outcome"),
            exit_code=pl.when(struck).then(1).otherwise("exit_code"),
            exit_signal=pl.when(struck).then(0).otherwise("exit_signal"),
        )
    return joined.sort("end")


def illnesses(jobs: pl.DataFrame, fewest: int) -> list[tuple[str, int, int]]:
    """Node, first and last failure of each."""
    struck = jobs.filter(pl.col("cause") == "node").sort("sick_node", "end")
    new = (pl.col("end").diff() > _APART) | (pl.col("sick_node") != pl.col("sick_node").shift())
    spells = (
        struck.with_columns(spell=new.fill_null(True).cum_sum())
        .group_by("spell", "sick_node")
        .agg(first=pl.col("end").min(), last=pl.col("end").max(), n=pl.col("end").n_unique())
        .filter(pl.col("n") >= fewest)
    )
    return list(spells.select("sick_node", "first", "last").sort("sick_node", "first").iter_rows())


def times_as_many(jobs: pl.DataFrame, node: str, first: int, now: int) -> tuple[int, float]:
    """Jobs that ended on the node since it fell ill, and by how much it multiplied their failures."""
    has_cause = ~pl.col("outcome").is_in(["cancelled", "preempted"])
    here = jobs.filter(
        (pl.col("end") >= first) & (pl.col("end") <= now) & has_cause & (pl.col("nodes") == node)
    )
    fails = pl.col("outcome") != "completed"
    struck = pl.col("cause") == "node"
    rate, own = here.select(rate=fails.mean(), own=fails.filter(~struck).mean()).row(0)
    return here.height, rate / max(own or 0.0, 0.02) if here.height else 0.0


def look(jobs: pl.DataFrame, seed: int, tally: Tally, *, drains: bool) -> None:
    """Judge one cluster week by week."""
    begin, end = int(jobs["submit"].min()), int(jobs["end"].max())  # type: ignore[arg-type]
    ill, at_all = illnesses(jobs, _STRIKES), illnesses(jobs, 2)  # one is a crash: its node is innocent
    tally.clusters += 1
    for now in range(begin + FIRST_DAY * DAY, end, EVERY_DAYS * DAY):
        tally.moments += 1
        known = jobs.filter(pl.col("end").is_between(now - HISTORY_DAYS * DAY, now))
        seen = returns(jobs, at_all, now) if drains else {}
        judged = {node.node: node for node in classify_nodes("c", seen, runs_of(known), now)}
        named = {name for name, node in judged.items() if node.health is Health.SICK}
        lasting = {node: first for node, first, last in ill if first < now < last}
        for node, first in lasting.items():
            count, times = times_as_many(jobs, node, first, now)
            if count < FEWEST_JOBS:
                continue
            if times < TIMES:
                tally.weaker += 1
                tally.weaker_found += node in named
                continue
            tally.sick += 1
            tally.found += node in named
            tally.suspected += node in judged and judged[node].health is Health.SUSPECT
            tally.nodes.add((seed, node, first))
            if node in named:
                tally.nodes_found.add((seed, node, first))
        lately = {node for node, first, last in at_all if first < now < last + EVIDENCE_DAYS * DAY}
        tally.late += len((named & lately) - set(lasting))
        innocent = named - lately - set(lasting)
        tally.innocent += len(innocent)
        if innocent:
            tally.clusters_wronged.add(seed)
            for name in sorted(innocent):
                print(f"<!-- {seed} {name}: {'; '.join(e.what for e in judged[name].evidence)} -->")


def share(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / whole:.0%})" if whole else "0 of 0"


def returns(jobs: pl.DataFrame, ill: list[tuple[str, int, int]], now: int) -> dict[str, NodeHistory]:
    """Nodes as a collector has seen them: each illness ended with a drain, a repair and a return."""
    found = {}
    for node, _, last in ill:
        later = jobs.filter((pl.col("nodes") == node) & (pl.col("start") > last + 600))["start"].min()
        if isinstance(later, int) and later <= now:
            found[node] = NodeHistory(Node(cluster="c", name=node, state="IDLE"), later, later, ())
    return found


def main(name: str, jobs: int, clusters: int, seed: int, only: str) -> None:
    print(
        "| cluster | clusters | moments | sick nodes found, by moment | by illness | weaker ones found "
        "| named after their illness | innocent named | clusters with one |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    plain = load_scenario(name)
    ill = {"ill_hours": 240.0, "ill_failures_noticed": 1000.0}
    often = {"illnesses_per_year": 4.0, **ill}
    settings: dict[str, tuple[dict[str, float], bool, bool]] = {  # faults, silent, drains seen
        "no sick nodes": ({"illnesses_per_year": 0.0}, False, False),
        "sick, 60 % fail": ({**often, "ill_failure": 0.6}, False, False),
        "sick, 60 % fail, drains seen": ({**often, "ill_failure": 0.6}, False, True),
        "sick, 60 % fail, silent": ({**often, "ill_failure": 0.6}, True, False),
        "sick, 30 % fail": ({**often, "ill_failure": 0.3}, False, False),
        "as the scenario has it": ({}, False, False),
    }
    for setting, (faults, silent, drains) in settings.items():
        if only and only != setting:
            continue
        scenario = replace(plain, faults=replace(plain.faults, **faults))
        tally = Tally()
        for at in range(seed, seed + clusters):
            look(cluster_jobs(scenario, at, jobs, silent=silent), at, tally, drains=drains)
        print(
            f"| {name}, {setting} | {tally.clusters} | {tally.moments} | {share(tally.found, tally.sick)} "
            f"| {share(len(tally.nodes_found), len(tally.nodes))} "
            f"| {share(tally.weaker_found, tally.weaker)} | {tally.late} | {tally.innocent} "
            f"| {share(len(tally.clusters_wronged), tally.clusters)} |",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenario", default="small")
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--clusters", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--only", default="", help="the one setting of this name")
    given = parser.parse_args()
    main(given.scenario, given.jobs, given.clusters, given.seed, given.only)
