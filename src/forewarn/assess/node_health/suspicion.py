"""What the jobs that ran on the nodes say of each: a p-value, corrected, with the counts behind it.

An illness may be some hours or two weeks old, so each node is looked at over several spans that end now, and
in three ways: failures as systems make them (a lost mount, a bus error), failures of any kind but a limit,
and jobs that lost their node. Whatever was looked at is paid for (Bonferroni within a node,
Benjamini-Hochberg over the nodes).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np
import polars as pl

from forewarn.assess.node_health.expected_failures import MOST, expect, thinned
from forewarn.assess.node_health.job_runs import BURST_SECONDS, DAY, EVIDENCE_DAYS, without_bursts
from forewarn.assess.node_health.likelihood import benjamini_hochberg, scores, tail

WAYS = ("system", "broke", "lost")
SPANS = (0.5, 1.0, 2.0, 4.0, 7.0, float(EVIDENCE_DAYS))  # days
_LATELY = (0.125, 0.25, *SPANS[:-1])  # days over which a node may have shown that it is well again
LOOKS = 2 * len(SPANS) + 1
_WORTH_A_LOOK = 1.5  # score below which nobody computes how rare it is
WELL_AGAIN = -4.0  # score of its latest jobs from which a node counts as well: odds of 50 to 1
BELIEVED = 0.001  # share of false alarms among the nodes named sick


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """What one node's jobs say against it."""

    node: str
    p: float  # by all that was looked at
    q: float = 1.0  # the same, corrected for the number of nodes
    way: str = "broke"
    span: float = EVIDENCE_DAYS  # days
    jobs: int = 0
    failed: int = 0
    expected: float = 0.0
    users: int = 0
    campaigns: int = 0  # cells of user, name and day that failures come from
    last_failure: int | None = None
    well_again: bool = False


def suspicions(
    runs: pl.DataFrame, now: int, since: Mapping[str, int], repaired: Mapping[str, int]
) -> dict[str, Suspicion]:
    """Of every node that ran jobs lately.

    What ran before `since` (a boot, a return to service) says nothing any more of programs that failed;
    what ran before `repaired` nothing of jobs that lost the node.
    """
    found, blamed, stale = _examined(runs, now, since, repaired), list[str](), False
    while named := [s for s in found.values() if s.q <= BELIEVED and s.node not in blamed]:
        # What became of a job on several nodes of which one is sick is that one's doing, the worst first.
        blamed.append(min(named, key=lambda s: s.p).node)
        jobs = runs.filter((pl.col("node") == blamed[-1]) & (pl.col("share") < 1)).select("job")
        cleared = runs.join(jobs, on="job", how="semi").filter(~pl.col("node").is_in(blamed))
        runs = runs.join(cleared.select("job", "node"), on=["job", "node"], how="anti")
        stale |= cleared.height > 0
        if stale and set(cleared["node"]) & {s.node for s in named}:
            found, stale = _examined(runs, now, since, repaired), False
    return _examined(runs, now, since, repaired) if stale else found


def _examined(
    runs: pl.DataFrame, now: int, since: Mapping[str, int], repaired: Mapping[str, int]
) -> dict[str, Suspicion]:
    lately = runs.filter(pl.col("end") > now - EVIDENCE_DAYS * DAY)
    worst = {node: Suspicion(node=node, p=1.0) for node in lately["node"].unique().sort()}
    told = without_bursts(runs.filter(~pl.col("lost")))
    looks: Iterable[Suspicion] = (
        *(look for way in WAYS[:2] for look in _failing(told, way, now, since)),
        *_losing(lately, repaired),
    )
    for look in looks:
        if look.p < worst[look.node].p:
            worst[look.node] = look
    paid = [replace(s, p=min(1.0, s.p * LOOKS)) for s in worst.values()]
    qs = benjamini_hochberg([s.p for s in paid])
    return {s.node: replace(s, q=q) for s, q in zip(paid, qs, strict=True)}


def _failing(runs: pl.DataFrame, way: str, now: int, since: Mapping[str, int]) -> Iterator[Suspicion]:
    if not runs[way].any():
        return
    first = runs.filter(~pl.col("again"))
    expected = expect(first, way).table
    lately: dict[float, dict[str, float]] | None = None
    for days in SPANS:
        begin = int(now - days * DAY)
        spanned = _after(runs, since, begin)
        counts = _counts(spanned, way)
        for (node,), cells in _scored(_after(first, since, begin), expected, way).group_by("node"):
            seen = float(cells["score"].sum())
            if seen < _WORTH_A_LOOK:
                continue
            if lately is None:  # few nodes are worth it, on most days none
                lately = _lately(_after(runs, since, now - EVIDENCE_DAYS * DAY), expected, way, now)
            n, alpha, beta = (cells[name].to_numpy() for name in ("n", "alpha", "beta"))
            usual = float(np.average(alpha / (alpha + beta), weights=n))
            jobs, failed, users, campaigns, last = counts[str(node)]
            yield Suspicion(
                node=str(node),
                p=tail(cells["chances"].to_numpy(), cells["scores"].to_numpy(), seen),
                way=way,
                span=days,
                jobs=jobs,
                failed=failed,
                expected=usual * jobs,
                users=users,
                campaigns=campaigns,
                last_failure=last,
                # Longer than half the span would reach back to before it fell ill.
                well_again=any(lately[d].get(str(node), 0.0) <= WELL_AGAIN for d in _LATELY if d <= days / 2),
            )


def _after(runs: pl.DataFrame, since: Mapping[str, int], begin: int) -> pl.DataFrame:
    """Runs that ended after a moment and began after what their node's own past ends with."""
    return runs.filter((pl.col("start") >= _own_begin(since)) & (pl.col("end") > begin))


def _own_begin(moments: Mapping[str, int]) -> pl.Expr:
    return pl.col("node").replace_strict(moments, default=0, return_dtype=pl.Int64) if moments else pl.lit(0)


def _counts(runs: pl.DataFrame, way: str) -> dict[str, tuple[int, int, int, int, int]]:
    """For each node: jobs, those that failed, their users and cells, and when the last of them ended."""
    failed = pl.col(way)
    counted = runs.group_by("node").agg(
        jobs=pl.len(),
        failed=failed.sum(),
        users=pl.col("user").filter(failed).n_unique(),
        cells=pl.col("cell").filter(failed).n_unique(),
        last=pl.col("end").filter(failed).max(),
    )
    return {node: tuple(rest) for node, *rest in counted.iter_rows()}


def _lately(runs: pl.DataFrame, expected: pl.DataFrame, way: str, now: int) -> dict[float, dict[str, float]]:
    """By days, each node's score of its latest jobs: far below 0 where a sick node's would hardly be."""
    return {
        days: dict(
            _scored(runs.filter(pl.col("end") > now - days * DAY), expected, way)
            .group_by("node")
            .agg(pl.col("score").sum())
            .iter_rows()
        )
        for days in _LATELY
    }


def _scored(runs: pl.DataFrame, expected: pl.DataFrame, way: str) -> pl.DataFrame:
    """Cells on nodes, each with its chances, its scores, and the score it has."""
    cells = (
        runs.group_by("node", "cell")
        .agg(n=pl.len(), f=pl.col(way).sum(), share=pl.col("share").mean())
        .join(expected, on=["node", "cell"])
        .sort("node", "cell")
    )
    n, f = thinned(cells["n"].to_numpy().astype(np.int64), cells["f"].to_numpy().astype(np.int64))
    chances, made = scores(n, cells["alpha"].to_numpy(), cells["beta"].to_numpy(), cells["share"].to_numpy())
    return cells.with_columns(
        chances=pl.Series(chances), scores=pl.Series(made), score=pl.Series(made[np.arange(len(f)), f])
    )


def _losing(runs: pl.DataFrame, repaired: Mapping[str, int]) -> Iterator[Suspicion]:
    """Nodes under which jobs were lost more often than under the others; all lost at once are one loss."""
    losses = runs.filter("lost").sort("node", "end")
    begin = _own_begin(repaired)
    apart = (pl.col("end").diff() > BURST_SECONDS) | (pl.col("node") != pl.col("node").shift())
    events = (
        losses.with_columns(event=apart.fill_null(True).cum_sum())
        .group_by("node", "event")
        .agg(share=pl.col("share").max(), end=pl.col("end").max(), user=pl.col("user").first())
        .filter(pl.col("end") >= begin)
    )
    nodes = runs["node"].n_unique()
    jobs = dict(runs.group_by("node").len().iter_rows())
    everywhere = float(events["share"].sum())
    for (node,), own in events.group_by("node", maintain_order=True):
        count = float(own["share"].sum())
        usual = (everywhere - count + 0.5) / max(1, nodes - 1)
        yield Suspicion(
            node=str(node),
            p=poisson_tail(int(count + 1e-9), usual),
            way="lost",
            jobs=jobs[str(node)],
            failed=own.height,
            expected=usual,
            users=own["user"].n_unique(),
            campaigns=own.height,
            last_failure=own["end"].max(),  # type: ignore[arg-type]
            well_again=_since_well(runs, str(node), own),
        )


def _since_well(runs: pl.DataFrame, node: str, losses: pl.DataFrame) -> bool:
    """Whether so many jobs have ended well since the last loss that the losses seem over."""
    here = runs.filter(pl.col("node") == node)
    before = here.filter(pl.col("end") <= losses["end"].max())
    since = here.filter(pl.col("start") >= losses["end"].max())
    well = int(since.group_by("cell").agg(n=pl.len().clip(0, MOST))["n"].sum())
    lost = min(0.9, losses.height / max(1, before.filter(pl.col("end") >= losses["end"].min()).height))
    return bool(well * log(1 - lost) <= WELL_AGAIN)


def poisson_tail(count: int, mean: float) -> float:
    """The chance of so many or more.

    >>> round(poisson_tail(2, 0.1), 4), poisson_tail(0, 3.0)
    (0.0047, 1.0)
    """
    term, below = exp(-mean), 0.0
    for i in range(count):
        below += term
        term *= mean / (i + 1)
    return max(1.0 - below, 0.0) if count and below < 1 - 1e-12 else (1.0 if not count else 1e-12)
