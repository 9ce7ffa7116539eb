"""Evidence from the jobs that ran on each node: a corrected p-value, with the counts behind it.

A fault may be some hours or two weeks old, so each node is tested over several spans that end now, and in
three ways: system failures (a lost mount, a bus error), failures of any kind except at a limit, and jobs that
lost their node. The p-values are corrected for all tests (Bonferroni within a node, Benjamini-Hochberg over
the nodes).
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
_RECOVERY_SPANS = (0.125, 0.25, *SPANS[:-1])  # days over which a node may have shown its recovery
TESTS = 2 * len(SPANS) + 1
_LEAST_SCORE = 1.5  # score below which no p-value is computed
RECOVERED = -4.0  # score of its latest jobs at which a node counts as recovered: odds of 50 to 1
BELIEVED = 0.001  # false discovery rate among sick nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspicion:
    """The evidence of one node's jobs against it."""

    node: str
    p: float  # of the strongest test, corrected for the number of tests
    q: float = 1.0  # the same, corrected for the number of nodes
    way: str = "broke"
    span: float = EVIDENCE_DAYS  # days
    jobs: int = 0
    failed: int = 0
    expected: float = 0.0
    users: int = 0
    campaigns: int = 0  # cells (user, name and day) with failures
    last_failure: int | None = None
    recovered: bool = False


def suspicions(
    runs: pl.DataFrame, at: int, since: Mapping[str, int], repaired: Mapping[str, int]
) -> dict[str, Suspicion]:
    """Test every node that ran jobs recently.

    Runs before `since` (a boot, a return to service) are no evidence any more for failed programs; runs
    before `repaired` are none for lost nodes.
    """
    found, sick, stale = _tested(runs, at, since, repaired), list[str](), False
    while candidates := [s for s in found.values() if s.q <= BELIEVED and s.node not in sick]:
        # A failure on several nodes of which one is sick is attributed to that one, strongest evidence first.
        sick.append(min(candidates, key=lambda s: s.p).node)
        jobs = runs.filter((pl.col("node") == sick[-1]) & (pl.col("share") < 1)).select("job")
        cleared = runs.join(jobs, on="job", how="semi").filter(~pl.col("node").is_in(sick))
        runs = runs.join(cleared.select("job", "node"), on=["job", "node"], how="anti")
        stale |= cleared.height > 0
        if stale and set(cleared["node"]) & {s.node for s in candidates}:
            found, stale = _tested(runs, at, since, repaired), False
    return _tested(runs, at, since, repaired) if stale else found


def _tested(
    runs: pl.DataFrame, at: int, since: Mapping[str, int], repaired: Mapping[str, int]
) -> dict[str, Suspicion]:
    recent = runs.filter(pl.col("end") > at - EVIDENCE_DAYS * DAY)
    worst = {node: Suspicion(node=node, p=1.0) for node in recent["node"].unique().sort()}
    attributable = without_bursts(runs.filter(~pl.col("lost")))
    tests: Iterable[Suspicion] = (
        *(test for way in WAYS[:2] for test in _failing(attributable, way, at, since)),
        *_losing(recent, repaired),
    )
    for test in tests:
        if test.p < worst[test.node].p:
            worst[test.node] = test
    corrected = [replace(s, p=min(1.0, s.p * TESTS)) for s in worst.values()]
    qs = benjamini_hochberg([s.p for s in corrected])
    return {s.node: replace(s, q=q) for s, q in zip(corrected, qs, strict=True)}


def _failing(runs: pl.DataFrame, way: str, at: int, since: Mapping[str, int]) -> Iterator[Suspicion]:
    """Test each node and span for more failures of one way than expected."""
    if not runs[way].any():
        return
    first = runs.filter(~pl.col("again"))
    expected = expect(first, way).table
    recovery: dict[float, dict[str, float]] | None = None
    for days in SPANS:
        begin = int(at - days * DAY)
        spanned = _after(runs, since, begin)
        counts = _counts(spanned, way)
        for (node,), cells in _scored(_after(first, since, begin), expected, way).group_by("node"):
            score = float(cells["score"].sum())
            if score < _LEAST_SCORE:
                continue
            if recovery is None:  # needed for few nodes, on most days for none
                recovery = _recovery_scores(_after(runs, since, at - EVIDENCE_DAYS * DAY), expected, way, at)
            n, alpha, beta = (cells[name].to_numpy() for name in ("n", "alpha", "beta"))
            usual = float(np.average(alpha / (alpha + beta), weights=n))
            jobs, failed, users, campaigns, last = counts[str(node)]
            yield Suspicion(
                node=str(node),
                p=tail(cells["probabilities"].to_numpy(), cells["scores"].to_numpy(), score),
                way=way,
                span=days,
                jobs=jobs,
                failed=failed,
                expected=usual * jobs,
                users=users,
                campaigns=campaigns,
                last_failure=last,
                # More than half of the span would reach back to before the fault.
                recovered=any(
                    recovery[d].get(str(node), 0.0) <= RECOVERED for d in _RECOVERY_SPANS if d <= days / 2
                ),
            )


def _after(runs: pl.DataFrame, since: Mapping[str, int], begin: int) -> pl.DataFrame:
    """Select runs that ended after a moment and began after their node's boot or return to service."""
    return runs.filter((pl.col("start") >= _own_begin(since)) & (pl.col("end") > begin))


def _own_begin(begins: Mapping[str, int]) -> pl.Expr:
    return pl.col("node").replace_strict(begins, default=0, return_dtype=pl.Int64) if begins else pl.lit(0)


def _counts(runs: pl.DataFrame, way: str) -> dict[str, tuple[int, int, int, int, int]]:
    """Count for each node jobs, failures, their users and cells, and find the end of the last failure."""
    failed = pl.col(way)
    counted = runs.group_by("node").agg(
        jobs=pl.len(),
        failed=failed.sum(),
        users=pl.col("user").filter(failed).n_unique(),
        cells=pl.col("cell").filter(failed).n_unique(),
        last=pl.col("end").filter(failed).max(),
    )
    return {node: tuple(rest) for node, *rest in counted.iter_rows()}


def _recovery_scores(
    runs: pl.DataFrame, expected: pl.DataFrame, way: str, at: int
) -> dict[float, dict[str, float]]:
    """Compute by span each node's score of its latest jobs: far below 0 where a sick node's is unlikely."""
    return {
        days: dict(
            _scored(runs.filter(pl.col("end") > at - days * DAY), expected, way)
            .group_by("node")
            .agg(pl.col("score").sum())
            .iter_rows()
        )
        for days in _RECOVERY_SPANS
    }


def _scored(runs: pl.DataFrame, expected: pl.DataFrame, way: str) -> pl.DataFrame:
    """Add to each cell on each node its probabilities and scores by count, and its observed score."""
    cells = (
        runs.group_by("node", "cell")
        .agg(n=pl.len(), f=pl.col(way).sum(), share=pl.col("share").mean())
        .join(expected, on=["node", "cell"])
        .sort("node", "cell")
    )
    n, f = thinned(cells["n"].to_numpy().astype(np.int64), cells["f"].to_numpy().astype(np.int64))
    probabilities, by_count = scores(
        n, cells["alpha"].to_numpy(), cells["beta"].to_numpy(), cells["share"].to_numpy()
    )
    return cells.with_columns(
        probabilities=pl.Series(probabilities),
        scores=pl.Series(by_count),
        score=pl.Series(by_count[np.arange(len(f)), f]),
    )


def _losing(runs: pl.DataFrame, repaired: Mapping[str, int]) -> Iterator[Suspicion]:
    """Test each node for more lost jobs than on other nodes; jobs lost at once are one event."""
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
            recovered=_has_recovered(runs, str(node), own),
        )


def _has_recovered(runs: pl.DataFrame, node: str, losses: pl.DataFrame) -> bool:
    """Check whether enough jobs have run since the last loss to conclude that the losses have stopped."""
    on_node = runs.filter(pl.col("node") == node)
    before = on_node.filter(pl.col("end") <= losses["end"].max())
    since = on_node.filter(pl.col("start") >= losses["end"].max())
    survived = int(since.group_by("cell").agg(n=pl.len().clip(0, MOST))["n"].sum())
    lost = min(0.9, losses.height / max(1, before.filter(pl.col("end") >= losses["end"].min()).height))
    return bool(survived * log(1 - lost) <= RECOVERED)


def poisson_tail(count: int, mean: float) -> float:
    """Compute the Poisson probability of `count` or more events.

    >>> round(poisson_tail(2, 0.1), 4), poisson_tail(0, 3.0)
    (0.0047, 1.0)
    """
    term, below = exp(-mean), 0.0
    for i in range(count):
        below += term
        term *= mean / (i + 1)
    return max(1.0 - below, 0.0) if count and below < 1 - 1e-12 else (1.0 if not count else 1e-12)
