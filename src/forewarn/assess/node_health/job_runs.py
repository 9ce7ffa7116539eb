"""Job runs by node, and the failures that a node may have caused."""

from __future__ import annotations

import polars as pl

from forewarn.features.keys import normalised_column
from forewarn.features.labels import ran_to_limit
from forewarn.job.outcomes import FailureKind, Outcome, failure_kind
from forewarn.job.units import expand_nodes
from forewarn.store.base import Store
from forewarn.store.filters import Between, Missing

DAY = 86400
EVIDENCE_DAYS = 14  # age up to which a job is evidence on its node
HISTORY_DAYS = 28  # age up to which it is evidence on its user
WIDEST = 16  # nodes of a job beyond which its failure is no evidence on any of them
BURST_SECONDS = 600  # failures this close in time may have one cause
_ONE_MOMENT = 300  # seconds between system failures of one node that are one piece of evidence
# (seconds before and after, nodes): from this many nodes on, the failures are not attributed to a node.
BURSTS = ((60, 2), (BURST_SECONDS, 3))
_COLUMNS = (
    *("job_id", "submit", "user", "name", "nodes", "start", "end", "suspended", "time_limit"),
    *("outcome", "exit_code", "exit_signal"),
)
# Outcomes that are no evidence on the node: somebody's decision.
_NO_EVIDENCE = (Outcome.CANCELLED, Outcome.PREEMPTED, Outcome.DEADLINE, Outcome.UNKNOWN)


def read_runs(store: Store, cluster: str, at: int) -> pl.DataFrame:
    """Read the runs of the last four weeks that were known to have ended at a moment."""
    # Jobs are pending and running for a while: some submitted weeks earlier have ended since.
    since = at - 3 * HISTORY_DAYS * DAY
    present = ~Missing("nodes") & ~Missing("start") & ~Missing("outcome")
    recent = Between("end", at - HISTORY_DAYS * DAY, at)
    frames = store.scan(cluster=cluster, since=since, until=at + 1, where=present & recent)
    known = [f.filter(pl.col("known_at") <= at).select(_COLUMNS) for f in frames]
    return runs_of(pl.concat(known) if known else pl.DataFrame(schema=dict.fromkeys(_COLUMNS, pl.String)))


def runs_of(jobs: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each job and node that it ran on.

    `work` identifies a user's jobs of one name, `cell` those of one day: they tend to fail together, like a
    campaign with an error in its script. `system` marks failures that programs rarely cause by themselves,
    `broke` any failure except at a limit, `lost` jobs that lost their node according to the scheduler.
    `share` is one over the number of the job's nodes.
    """
    if jobs.is_empty():
        return pl.DataFrame(schema=_RUNS)
    user = pl.col("user").fill_null("")
    work = pl.concat_str(user, pl.lit("\0"), normalised_column(pl.col("name").fill_null("")))
    ended = jobs.filter(~pl.col("outcome").is_in([str(o) for o in _NO_EVIDENCE])).with_row_index("job")
    kinds = _kinds(ended)
    failed = pl.col("outcome") == str(Outcome.FAILED)
    runs = ended.with_columns(kind=kinds, nodes=_lists(ended["nodes"])).select(
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
    "work": pl.UInt32,  # numbers instead of names: they are joined often
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
    """Remove system failures on several nodes at once: their cause is a file system or network, not a node.

    Of several failures on one node at once, all but the first are marked `again`: they are one event, however
    many jobs it hit. Removing failures can only make a node look healthier.
    """
    struck = runs.filter("system").select("job", "end", "node", "share").sort("end", "job")
    if struck.is_empty():
        return runs.with_columns(again=False)
    ends = runs["end"].to_numpy()
    days = max(1.0, float(ends.max() - ends.min()) / DAY)
    shared = [struck.head(0).select("end")]
    for seconds, nodes in BURSTS:
        near = struck.rolling("end", period=f"{2 * seconds}i", offset=f"-{seconds}i", closed="both").agg(
            # A job on several nodes is one failure, and two such jobs may share a node.
            at_once=pl.col("node").filter(pl.col("share") == 1).n_unique()
            + pl.col("job").filter(pl.col("share") < 1).n_unique() // 2
        )
        alone = near.filter(pl.col("at_once") < nodes).height
        usual = alone / days / DAY * 2 * seconds  # independent failures expected in such a window
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
    """Return the kind of each failure, computed once for each distinct combination of fields."""
    cases = jobs.select("outcome", "exit_code", "exit_signal", at_limit=ran_to_limit())
    distinct = cases.unique()
    kinds = [
        failure_kind(Outcome(outcome), code, signal, ran_to_limit=at_limit)
        for outcome, code, signal, at_limit in distinct.iter_rows()
    ]
    by_case = distinct.with_columns(kind=pl.Series(kinds, dtype=pl.String))
    return cases.join(by_case, on=cases.columns, how="left", nulls_equal=True, maintain_order="left")["kind"]


def _lists(texts: pl.Series) -> pl.Series:
    """Expand node lists, each distinct one once; empty where a job was too wide or the text is no list."""
    distinct = texts.unique()
    expanded = pl.DataFrame(
        {"text": distinct, "nodes": [_expanded(text) for text in distinct]},
        schema={"text": pl.String, "nodes": pl.List(pl.String)},
    )
    return texts.to_frame("text").join(expanded, on="text", how="left", maintain_order="left")["nodes"]


def _expanded(text: str) -> list[str]:
    try:
        nodes = expand_nodes(text)
    except ValueError:
        return []
    return nodes if len(nodes) <= WIDEST else []
