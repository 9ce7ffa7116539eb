"""Which job ran on which node, and what of its ending a node can be blamed for."""

from __future__ import annotations

import polars as pl

from forewarn.features.keys import normalised_column
from forewarn.features.labels import ran_to_limit
from forewarn.job.outcomes import FailureKind, Outcome, kind_of
from forewarn.job.units import expand_nodes
from forewarn.store.base import Store
from forewarn.store.filters import Between, Missing

DAY = 86400
EVIDENCE_DAYS = 14  # how long a job speaks of the node that it ran on
HISTORY_DAYS = 28  # how long it speaks of its user
WIDEST = 16  # nodes of a job beyond which its failure says nothing of one of them
BURST_SECONDS = 600  # failures so near to each other may have one cause
_ONE_MOMENT = 300  # seconds between system failures of one node that are one piece of evidence
BURSTS = ((60, 2), (BURST_SECONDS, 3))  # seconds before and after, nodes: from then on it is no node's
_COLUMNS = (
    *("job_id", "submit", "user", "name", "nodes", "start", "end", "suspended", "time_limit"),
    *("outcome", "exit_code", "exit_signal"),
)
# An ending that tells nothing of the node: somebody's decision.
_SILENT = (Outcome.CANCELLED, Outcome.PREEMPTED, Outcome.DEADLINE, Outcome.UNKNOWN)


def read_runs(store: Store, cluster: str, now: int) -> pl.DataFrame:
    """The runs that were known to have ended by now, of the last four weeks."""
    # Jobs wait and run for a while: those submitted some weeks before may have ended since.
    since = now - 3 * HISTORY_DAYS * DAY
    there = ~Missing("nodes") & ~Missing("start") & ~Missing("outcome")
    recent = Between("end", now - HISTORY_DAYS * DAY, now)
    frames = store.scan(cluster=cluster, since=since, until=now + 1, where=there & recent)
    found = [f.filter(pl.col("known_at") <= now).select(_COLUMNS) for f in frames]
    return runs_of(pl.concat(found) if found else pl.DataFrame(schema=dict.fromkeys(_COLUMNS, pl.String)))


def runs_of(jobs: pl.DataFrame) -> pl.DataFrame:
    """One row for each job and node that it ran on.

    `work` is a user's jobs of one name, `cell` those of one day: they stand or fall together, as a campaign
    with a mistake in its script does. `system` failed in a way that programs rarely do by themselves,
    `broke` failed in any way but at a limit, `lost` lost its node by the scheduler's own word. `share` is a
    job's part of the blame among its nodes.
    """
    if jobs.is_empty():
        return pl.DataFrame(schema=_RUNS)
    user = pl.col("user").fill_null("")
    work = pl.concat_str(user, pl.lit("\0"), normalised_column(pl.col("name").fill_null("")))
    spoken = jobs.filter(~pl.col("outcome").is_in([str(o) for o in _SILENT])).with_row_index("job")
    kinds = _kinds(spoken)
    failed = pl.col("outcome") == str(Outcome.FAILED)
    runs = spoken.with_columns(kind=kinds, nodes=_lists(spoken["nodes"])).select(
        "job",
        user=user,
        work=work,
        cell=pl.concat_str(work, pl.lit("\0"), (pl.col("start") // DAY).cast(pl.String)),
        start=pl.col("start"),
        end=pl.col("end"),
        node=pl.col("nodes"),
        share=1 / pl.col("nodes").list.len(),
        system=failed & (pl.col("kind") == str(FailureKind.SYSTEM)).fill_null(False),
        broke=failed & (pl.col("kind") != str(FailureKind.LIMIT)).fill_null(True),
        lost=pl.col("outcome").is_in([str(Outcome.NODE_FAIL), str(Outcome.BOOT_FAIL)]),
    )
    runs = runs.with_columns(pl.col("work", "cell").rank("dense"))
    return runs.filter(pl.col("node").list.len() > 0).explode("node").cast(_RUNS)  # type: ignore[arg-type]


_RUNS = {
    "job": pl.UInt32,
    "user": pl.String,
    "work": pl.UInt32,  # numbers, since much is joined by them
    "cell": pl.UInt32,
    "start": pl.Int64,
    "end": pl.Int64,
    "node": pl.String,
    "share": pl.Float64,
    "system": pl.Boolean,
    "broke": pl.Boolean,
    "lost": pl.Boolean,
}


def without_bursts(runs: pl.DataFrame) -> pl.DataFrame:
    """Without system failures that struck several nodes at once: a file system or a network, no node.

    Of those that struck one node at once all but the first are marked `again`: a bad minute is one thing,
    however many jobs met it. Leaving out failures only ever clears a node.
    """
    struck = runs.filter("system").select("job", "end", "node", "share").sort("end", "job")
    if struck.is_empty():
        return runs.with_columns(again=False)
    ends = runs["end"].to_numpy()
    days = max(1.0, float(ends.max() - ends.min()) / DAY)
    shared = [struck.head(0).select("end")]
    for seconds, nodes in BURSTS:
        near = struck.rolling("end", period=f"{2 * seconds}i", offset=f"-{seconds}i", closed="both").agg(
            # A job on several nodes is one failure, and two of them may have met on one of its nodes.
            at_once=pl.col("node").filter(pl.col("share") == 1).n_unique()
            + pl.col("job").filter(pl.col("share") < 1).n_unique() // 2
        )
        alone = near.filter(pl.col("at_once") < nodes).height
        usual = alone / days / DAY * 2 * seconds  # nodes struck in such a while, one by one
        shared.append(near.filter(pl.col("at_once") >= nodes + int(4 * usual)).select("end"))
    struck = struck.with_columns(shared=pl.col("end").is_in(pl.concat(shared)["end"].implode()))
    again = (pl.col("end") - pl.col("end").shift() <= _ONE_MOMENT).over("node").fill_null(False)
    struck = struck.with_columns(again=again)
    return (
        runs.join(struck.filter("shared"), on=["job", "node"], how="anti")
        .join(struck.select("job", "node", "again"), on=["job", "node"], how="left")
        .with_columns(pl.col("again").fill_null(False))
    )


def _kinds(jobs: pl.DataFrame) -> pl.Series:
    """Whose failure each was: few combinations, each asked once."""
    cases = jobs.select("outcome", "exit_code", "exit_signal", at_limit=ran_to_limit())
    distinct = cases.unique()
    kinds = [
        kind_of(Outcome(outcome), code, signal, ran_to_limit=at_limit)
        for outcome, code, signal, at_limit in distinct.iter_rows()
    ]
    known = distinct.with_columns(kind=pl.Series(kinds, dtype=pl.String))
    return cases.join(known, on=cases.columns, how="left", nulls_equal=True, maintain_order="left")["kind"]


def _lists(texts: pl.Series) -> pl.Series:
    """Node lists written out, each distinct one once; none where a job was too wide, or the text is none."""
    distinct = texts.unique()
    made = pl.DataFrame(
        {"text": distinct, "nodes": [_expanded(text) for text in distinct]},
        schema={"text": pl.String, "nodes": pl.List(pl.String)},
    )
    return texts.to_frame("text").join(made, on="text", how="left", maintain_order="left")["nodes"]


def _expanded(text: str) -> list[str]:
    try:
        nodes = expand_nodes(text)
    except ValueError:
        return []
    return nodes if len(nodes) <= WIDEST else []
