"""English for the numbers of an assessment (run time, use, risk by cause, nodes, model) and of a change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from forewarn.assess.assessment import Advice, Assessment, Quantiles, Resources, Saving, SimilarJob
from forewarn.assess.verdict import ONLINE
from forewarn.assess.wording.lookup import each, oddity, why
from forewarn.assess.wording.names import rule
from forewarn.assess.wording.reader import YOU, Reader
from forewarn.assess.wording.similar import submitted_together
from forewarn.formatting import byte_size, duration, full_sentence, node_hours, percent, sentence, time_limit
from forewarn.job.outcomes import cause_name, outcome_name

MOST_CAUSES, MOST_NODES = 4, 5  # that are named


def facts(assessment: Assessment, reader: Reader = YOU) -> Iterator[tuple[str, str]]:
    """Yield what an assessment states in numbers: a short name and the text of each fact."""
    if (run := assessment.run_time) is not None:
        limit = "" if run.limit is None else f"; {time_limit(run.limit)}"
        yield "run time", _quantiles(run.seconds, duration) + limit
    if assessment.resources is not None:
        yield from _resources(assessment.resources)
    if (oddness := assessment.oddness) is not None:
        for one in oddness.oddities:
            yield "cannot run" if one.impossible else "unusual", oddity(one, reader)
        if oddness.because:
            yield "unusual", "; ".join(each(oddness.because, reader))
    if (failure := assessment.failure) and failure.causes and failure.causes_learnt:
        by_cause = _by_cause(failure.by_outcome, failure.probability)
        yield "risk", f"{percent(failure.probability)}: {by_cause}"
    if (nodes := assessment.nodes) is not None:
        sick = f"; sick: {', '.join(nodes.sick[:MOST_NODES])}" if nodes.sick else ""
        fit = "1 node fits" if nodes.fit == 1 else f"{nodes.fit:,} nodes fit"
        yield "nodes", f"{fit} this job, {nodes.needed:,} needed{sick}"
    if assessment.route.model is not None:
        yield "model", _model(assessment, assessment.route.model)


def _quantiles(amounts: Quantiles, form: Callable[[float], str]) -> str:
    return f"median {form(amounts.median)}, 90th percentile {form(amounts.high)}"


def _resources(use: Resources) -> Iterator[tuple[str, str]]:
    if use.memory is not None:
        requested = "" if use.memory_asked is None else f"; requested {byte_size(use.memory_asked)}"
        yield "memory", f"{_quantiles(use.memory, byte_size)} per node{requested}"
    if use.cpu_efficiency is not None:
        yield "CPUs", f"typical CPU efficiency {percent(use.cpu_efficiency.median)}"


def _by_cause(shares: Mapping[str, float], risk: float) -> str:
    """Split a risk by cause, in whole percent that add up to the percent of the risk.

    >>> _by_cause({"timeout": 0.304, "failed": 0.204, "other": 0.002}, 0.51)
    'time limit 30%, program error 20%, other 1%'
    """
    causes, left = [], round(100 * risk)
    for outcome, p in sorted(shares.items(), key=lambda pair: -pair[1])[:MOST_CAUSES]:
        points = min(round(100 * p), left)
        if points >= 1:
            causes.append(f"{cause_name(outcome)} {percent(points / 100)}")
            left -= points
    if left >= 1 and causes:
        causes.append(f"other {percent(left / 100)}")
    return ", ".join(causes) or "no dominant cause"


def _model(assessment: Assessment, model: str) -> str:
    version = f" version {assessment.route.version}" if assessment.route.version is not None else ""
    basis = ""
    if assessment.failure and model == ONLINE:
        basis = f": a running estimate from {assessment.failure.rests_on:,} jobs, not a trained model"
    elif assessment.failure:
        basis = f", trained on {assessment.failure.rests_on:,} jobs"
    by_rule = f"; {rule(assessment.route.rule)}" if assessment.route.rule else ""
    return f"{model}{version}{basis}{by_rule}"


def similar_job(job: SimilarJob, reader: Reader = YOU) -> str:
    """Describe an earlier job: its outcome, and in what its request differed."""
    after = f" after {duration(job.run_time)}" if job.run_time is not None else ""
    differences = f"; {', '.join(each(job.differs, reader))}" if job.differs else ""
    return f"{job.job_id} {outcome_name(job.outcome)}{after}{differences}{submitted_together(job)}"


def risk_change(before: float | None, after: float | None) -> str | None:
    """Describe how a change moves the risk; None where that is not stated.

    >>> risk_change(0.4, 0.2), risk_change(0.4, None)
    ('risk 40% → 20%', None)
    """
    if before is None or after is None:
        return None
    return f"risk {percent(before)} → {percent(after)}"


def advice(of: Advice, reader: Reader = YOU) -> Iterator[str]:
    """Yield sentences about advice: why, and what a run then takes."""
    yield full_sentence(why(of, reader))
    if of.node_hours_before is not None and of.node_hours_after is not None:
        wait = f", expected wait {duration(of.wait_after)}" if of.wait_after is not None else ""
        yield f"Expected use {node_hours(of.node_hours_after)} node hours{wait}."


def saving(of: Saving, reader: Reader = YOU) -> Iterator[str]:
    """Yield sentences about a smaller request: why it suffices, what it frees, how it moves the risk."""
    yield f"{sentence(why(of, reader))}; sufficient for {percent(of.chance)} of jobs like this."
    if of.node_hours is not None:
        gain = f"Reserves {node_hours(of.node_hours)} node hours less"
        if of.wait_before is not None and of.wait_after is not None:
            longer, shorter = duration(of.wait_before), duration(of.wait_after)
            gain += f"; recent median wait {longer} with the longer limit, {shorter} with the shorter one"
        yield f"{gain}."
    if round(of.risk_after, 2) != round(of.risk_before, 2):
        change = risk_change(of.risk_before, of.risk_after)
        yield f"The changed request is new, and less is known about it: {change}."
