"""Words for the numbers of an assessment: run time, use, risk by cause, nodes, model; what a change costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from forewarn.assess.assessment import Advice, Assessment, Quantiles, Resources, Saving, SimilarJob
from forewarn.assess.verdict import ONLINE
from forewarn.assess.wording.amounts import capital, clock, listed, memory, percent, risk
from forewarn.assess.wording.lookup import each, oddity, why
from forewarn.assess.wording.names import cause, rule
from forewarn.assess.wording.reader import YOU, Reader
from forewarn.assess.wording.similar import sent_together

MOST_CAUSES, MOST_NODES = 4, 5  # that are named


def facts(made: Assessment, reader: Reader = YOU) -> Iterator[tuple[str, str]]:
    """What the assessment says in numbers: a short name of each, and the words."""
    if (run := made.run_time) is not None:
        limit = "" if run.limit is None else f"; the limit is {clock(run.limit)}"
        yield "run time", _spread(run.seconds, clock) + limit
    if made.resources is not None:
        yield from _use(made.resources)
    if (odd := made.oddness) is not None:
        for one in odd.oddities:
            yield "cannot run" if one.impossible else "odd", oddity(one, reader)
        if odd.because:
            yield "unusual", "; ".join(each(odd.because, reader))
    if made.failure and made.failure.causes and made.failure.causes_learnt:
        shares: dict[str, float] = {}
        for part in made.failure.causes:
            shares[part.outcome] = shares.get(part.outcome, 0.0) + part.probability
        yield "risk", f"{risk(made.failure.probability)}: {_by_cause(shares, made.failure.probability)}"
    if made.nodes is not None:
        sick = f"; sick: {listed(made.nodes.sick[:MOST_NODES])}" if made.nodes.sick else ""
        yield "nodes", f"{made.nodes.fit:,} can take it, {made.nodes.needed:,} needed{sick}"
    if made.route.model is not None:
        yield "model", _model(made, made.route.model)


def _spread(told: Quantiles, amount: Callable[[float], str]) -> str:
    return f"about {amount(told.median)}, one in ten beyond {amount(told.high)}"


def _use(use: Resources) -> Iterator[tuple[str, str]]:
    if use.memory is not None:
        asked = "" if use.memory_asked is None else f"; {memory(use.memory_asked)} requested"
        yield "memory", f"{_spread(use.memory, memory)} a node{asked}"
    if use.cpu_efficiency is not None:
        yield "CPUs", f"typically {risk(use.cpu_efficiency.median)} of their time used"


def _by_cause(shares: Mapping[str, float], whole: float) -> str:
    """The causes in whole percent, which add up to the percent of the whole.

    >>> _by_cause({"timeout": 0.304, "failed": 0.204, "other": 0.002}, 0.51)
    'at its time limit 30%, by an error of its own 20%, else 1%'
    """
    shown, left = [], round(100 * whole)
    for outcome, p in sorted(shares.items(), key=lambda pair: -pair[1])[:MOST_CAUSES]:
        points = min(round(100 * p), left)
        if points >= 1:
            shown.append(f"{cause(outcome)} {points}%")
            left -= points
    if left >= 1 and shown:
        shown.append(f"else {left}%")
    return listed(shown) or "no cause stands out"


def _model(made: Assessment, model: str) -> str:
    version = f" version {made.route.version}" if made.route.version is not None else ""
    rests = ""
    if made.failure and model == ONLINE:
        rests = f": a running estimate over {made.failure.rests_on:,} jobs, not a trained model"
    elif made.failure:
        rests = f", trained on {made.failure.rests_on:,} jobs"
    by = f"; {rule(made.route.rule)}" if made.route.rule else ""
    return f"{model}{version}{rests}{by}"


def similar_job(job: SimilarJob, reader: Reader = YOU) -> str:
    """One earlier job: how it ended, and in what it differed."""
    ran = f" after {clock(job.run_time)}" if job.run_time is not None else ""
    differs = f"; {listed(each(job.differs, reader))}" if job.differs else ""
    return f"{job.job_id} {job.outcome}{ran}{differs}{sent_together(job)}"


def risk_change(before: float | None, after: float | None) -> str | None:
    """What a change does to the risk; None where it is not stated.

    >>> risk_change(0.4, 0.2), risk_change(0.4, None)
    ('risk 40% → 20%', None)
    """
    if before is None or after is None:
        return None
    return f"risk {risk(before)} → {risk(after)}"


def advice(of: Advice, reader: Reader = YOU) -> Iterator[str]:
    """Sentences about a change: why, and what a run then takes."""
    yield f"{capital(why(of, reader))}."
    if of.node_hours_before is not None and of.node_hours_after is not None:
        wait = f", after a wait of about {clock(of.wait_after)}" if of.wait_after is not None else ""
        yield f"A run takes about {of.node_hours_after:.1f} node hours{wait}."


def saving(of: Saving, reader: Reader = YOU) -> Iterator[str]:
    """Sentences about a smaller request: why it suffices, what it frees, what it does to the risk."""
    yield f"{capital(why(of, reader))}; sufficient for {percent(of.chance)} of such jobs."
    if of.node_hours is not None:
        gain = f"{of.node_hours:,.1f} node hours less are reserved"
        if of.wait_before is not None and of.wait_after is not None:
            longer, shorter = clock(of.wait_before), clock(of.wait_after)
            gain += f"; median wait recently {longer} with the longer limit, {shorter} with the shorter one"
        yield f"{gain}."
    if round(of.risk_after, 2) != round(of.risk_before, 2):
        risks = risk_change(of.risk_before, of.risk_after)
        yield f"The changed request is a new one, of which less is known: {risks}."
