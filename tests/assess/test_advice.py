"""Advice: changes that make a difference, within what the cluster has, each with the risk that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.assess.advice.changed_job import changed
from forewarn.assess.advice.moves import ENOUGH
from forewarn.assess.advice.savings import FAR, SAFE, savings
from forewarn.assess.advice.script_changes import for_job, for_script
from forewarn.assess.advice.search import advise
from forewarn.assess.advice.situation import Situation, counted
from forewarn.assess.assessment import Advice, CauseOfFailure, Change, Failure, NodeFitness
from forewarn.assess.oddness.request import NodeRequest
from forewarn.assess.risk_parts import cause_probability, with_node_risk
from forewarn.assess.wording import what, why
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job, Node, Partition
from forewarn.job.sbatch.script import read_script
from forewarn.job.units import format_duration, parse_duration, parse_memory
from forewarn.learn.fitting.calibration import Calibration
from forewarn.learn.fitting.pooling import Pooling, risk
from forewarn.learn.heads.causes import Cause

GIB = 1 << 30
NODES = [Node(cluster="c", name=f"n{i}", cpus=32, memory=128 * GIB, partitions="main") for i in range(4)]
MAIN = Partition(cluster="c", name="main", is_default=True, nodes="n[0-3]", nodes_total=4, time_max=86400)


@dataclass(frozen=True)
class Lognormal:
    """Needs that are known exactly: a median and a spread each; None is not known."""

    memory: float | None = None
    time: float | None = None
    spread: float = 0.3

    def _over(self, median: float | None, value: float) -> float | None:
        return None if median is None else 1 - NormalDist().cdf(log(value / median) / self.spread)

    def _for(self, median: float | None, chance: float) -> float | None:
        return None if median is None else median * exp(self.spread * NormalDist().inv_cdf(chance))

    def over_limit(self, seconds: float) -> float | None:
        return self._over(self.time, seconds)

    def limit_for(self, chance: float) -> float | None:
        return self._for(self.time, chance)

    def over_memory(self, amount: float) -> float | None:
        return self._over(self.memory, amount)

    def memory_for(self, chance: float) -> float | None:
        return self._for(self.memory, chance)


def job(memory: float = 8, **fields: Any) -> Job:
    base = Job(
        cluster="c",
        job_id="7",
        submit=0,
        partition="main",
        nodes_asked=1,
        tasks_asked=1,
        cpus_asked=8,
        memory_asked=int(memory * GIB),
        memory_per="node",
        time_limit=3600,
        nodes=None,
    )
    return replace(base, **fields)


HALF = Pooling(0.5, ("out_of_memory", "timeout"), Calibration())


def stated(
    model: Failure,
    *,
    over_memory: float | None = None,
    over_limit: float | None = None,
    node_risk: float = 0.0,
) -> Failure:
    """State the model's risk, pooled with forecasts of weight one half."""
    given = np.array([[max(cause.probability, 1e-12) for cause in model.causes]])
    causes = [Cause(cause.outcome, cause.kind) for cause in model.causes]
    excess = {"out_of_memory": over_memory, "timeout": over_limit}
    found = risk(
        np.array([model.probability]),
        given / given.sum(),
        causes,
        {outcome: np.array([np.nan if over is None else over]) for outcome, over in excess.items()},
        HALF,
    )
    p = float(found.probability[0])
    parts = zip(model.causes, found.by_cause[0].tolist(), strict=True)
    changed_causes = tuple(replace(cause, probability=part) for cause, part in parts)
    return with_node_risk(
        replace(model, probability=p, warns=p >= model.threshold, causes=changed_causes), node_risk
    )


def situation(
    needs: Lognormal, *, model: Failure | None = None, node_risk: float = 0.0, **given: Any
) -> Situation:
    """Return a job's situation, which states the risk of the job and of changed ones from its needs."""
    asked_job = given.pop("job", job())
    by_model = model or failure()

    def state(one: Job, sick: float) -> Failure:
        memory = one.memory_asked * counted(one) if one.memory_asked else None
        # Of tasks that are spread, each node has its part.
        memory = memory * (one.nodes_asked or 1) / (asked_job.nodes_asked or 1) if memory else None
        return stated(
            by_model,
            over_memory=needs.over_memory(memory) if memory else None,
            over_limit=needs.over_limit(one.time_limit) if one.time_limit else None,
            node_risk=sick,
        )

    def after(plans: Sequence[Sequence[Change]]) -> list[Failure | None]:
        variants = [changed(asked_job, changes) for changes in plans]
        return [state(one.job, 0.0 if one.exclude else node_risk) for one in variants]

    default = Situation(
        job=asked_job,
        needs=needs,
        failure=state(asked_job, node_risk),
        after=after,
        nodes=NODES,
        partitions=[MAIN],
        node_risk=node_risk,
    )
    return replace(default, **given)


def failure(memory: float = 0.0, time: float = 0.0, other: float = 0.05) -> Failure:
    causes = {"out_of_memory": memory, "timeout": time, "failed": other}
    return Failure(
        probability=memory + time + other,
        threshold=0.3,
        warns=False,
        base_rate=0.2,
        rests_on=1000,
        causes=tuple(CauseOfFailure(outcome=o, kind=None, probability=p) for o, p in causes.items()),
    )


def asked(advice: Advice, option: str) -> float:
    (change,) = (change for change in advice.changes if change.option == option)
    if option == "time":
        return parse_duration(change.after) or 0
    memory = parse_memory(change.after)
    assert memory
    return memory.bytes


def test_a_job_that_asks_for_enough_gets_none() -> None:
    assert advise(situation(Lognormal(memory=3 * GIB, time=600), model=failure(other=0.4))) == ()
    assert advise(situation(Lognormal())) == (), "of what nothing is known, nothing is advised"


def test_a_longer_limit_is_no_cure_for_too_little_memory() -> None:
    """A new request leaves the bad history of the old one behind, whatever it changes."""
    needs = Lognormal(memory=9 * GIB, time=3000)
    job_situation = situation(needs, model=failure(memory=0.5, time=0.1))
    forgets = stated(
        failure(memory=0.01, time=0.01), over_limit=0.01
    )  # what the model states of any new request

    def after(plans: Sequence[Sequence[Change]]) -> list[Failure | None]:
        return [forgets for _ in plans]

    first, *others = advise(replace(job_situation, after=after))
    assert "mem" in {change.option for change in first.changes}
    assert not [advice for advice in others if {change.option for change in advice.changes} == {"time"}]


def test_memory_is_raised_to_what_is_enough() -> None:
    needs = Lognormal(memory=9 * GIB)
    job_situation = situation(needs, model=failure(memory=0.4))
    (advice,) = advise(job_situation)
    share = min(
        1.0,
        (needs.over_memory(8 * GIB) or 0) / cause_probability(job_situation.failure, Outcome.OUT_OF_MEMORY),
    )
    enough = needs.memory_for(1 - (1 - ENOUGH) * share)
    assert enough
    assert enough <= asked(advice, "mem") <= enough * 1.13
    assert what(advice).startswith("request 16 GiB per node instead of 8 GiB")
    assert "90th percentile 13.2 GiB" in why(advice)


def test_advice_starts_from_the_stated_risk_and_promises_what_the_changed_job_has() -> None:
    """One number for one thing: before is the headline's, after is what a check of the change would say."""
    job_situation = situation(Lognormal(memory=9 * GIB, time=4000), model=failure(memory=0.3, time=0.2))
    found = advise(job_situation)
    assert len(found) == 3
    for advice in found:
        assert advice.risk_before == job_situation.failure.probability
        (after,) = job_situation.after([advice.changes])
        assert after
        assert advice.risk_after == after.probability


def test_a_change_that_only_leaves_a_bad_history_behind_is_no_advice() -> None:
    """Any other request is a new one, with less of a past: no credit for that."""
    job_situation = situation(Lognormal(memory=7 * GIB), model=failure(memory=0.1, other=0.5))
    escaped = failure(
        memory=cause_probability(job_situation.failure, Outcome.OUT_OF_MEMORY) - 0.01, other=0.1
    )
    assert advise(replace(job_situation, after=lambda plans: [escaped for _ in plans])) == ()


def test_nothing_is_advised_that_a_check_would_not_confirm() -> None:
    """It was: 14 % promised, 22 % when the advised script was checked."""
    job_situation = situation(Lognormal(memory=9 * GIB), model=failure(memory=0.3))
    worse = replace(job_situation.failure, probability=job_situation.failure.probability + 0.1)
    assert advise(replace(job_situation, after=lambda plans: [worse for _ in plans])) == ()
    assert advise(replace(job_situation, after=lambda plans: [None for _ in plans])) == (), "nobody can say"


def test_what_the_model_of_failures_knows_asks_for_more() -> None:
    """By its needs alone it would fit nearly always; jobs like it have run out of memory all the same."""
    needs = Lognormal(memory=5 * GIB)
    (calm,) = advise(situation(needs, model=failure(memory=0.08)))
    (advice,) = advise(situation(needs, model=failure(memory=0.5)))
    assert asked(advice, "mem") > asked(calm, "mem")
    assert (advice.risk_before or 0) > (calm.risk_before or 0)
    assert "their recorded memory use is lower" in why(advice), "90% of them need less than requested"


def test_it_is_written_as_it_was_asked() -> None:
    per_cpu = situation(Lognormal(memory=9 * GIB), job=job(1, memory_per="cpu"))
    (advice,) = advise(per_cpu)
    (change,) = advice.changes
    assert (change.option, change.before, change.after) == ("mem-per-cpu", "1G", "2G")
    left_open = situation(Lognormal(memory=9 * GIB), job=job(defaulted="memory_asked"))
    assert advise(left_open)[0].changes[0].before is None


def test_no_more_than_a_node_has_and_nothing_where_that_is_too_little() -> None:
    (advice,) = advise(situation(Lognormal(memory=90 * GIB), job=job(64)))
    assert asked(advice, "mem") == 128 * GIB
    assert advise(situation(Lognormal(memory=400 * GIB), job=job(64))) == ()


def test_never_below_what_the_script_sizes_itself_to() -> None:
    (advice,) = advise(situation(Lognormal(memory=9 * GIB), memory_floor=40 * GIB))
    assert asked(advice, "mem") >= 40 * GIB


def test_time_is_raised_within_the_partition() -> None:
    (advice,) = advise(situation(Lognormal(time=4000)))
    assert 3600 < asked(advice, "time") <= 86400
    (most,) = advise(situation(Lognormal(time=60_000), job=job(time_limit=50_000)))
    assert asked(most, "time") == 86400
    assert advise(situation(Lognormal(time=200_000), job=job(time_limit=80_000))) == ()


def risks(advice: Advice) -> tuple[float, float]:
    """Return the risk before and after the changes, both of which a model states."""
    assert advice.risk_before is not None
    assert advice.risk_after is not None
    return advice.risk_before, advice.risk_after


def test_what_helps_together_comes_first() -> None:
    both, *single = advise(situation(Lognormal(memory=9 * GIB, time=4000)))
    assert {change.option for change in both.changes} == {"mem", "time"}
    assert [len(advice.changes) for advice in single] == [1, 1]
    assert risks(both)[1] < min(risks(advice)[1] for advice in single)
    assert both.node_hours_before == 1.0
    assert both.node_hours_after == pytest.approx(4000 / 3600)


BIG = Partition(cluster="c", name="big", nodes="b[0-1]", nodes_total=2, time_max=7 * 86400)
LARGE = [Node(cluster="c", name=f"b{i}", cpus=64, memory=1024 * GIB, partitions="big") for i in range(2)]


def test_another_partition_where_the_own_has_too_little() -> None:
    job_situation = situation(
        Lognormal(memory=300 * GIB),
        job=job(100),
        nodes=[*NODES, *LARGE],
        partitions=[MAIN, BIG],
    )
    assert advise(job_situation) == (), "nobody knows whether it is open to them"
    (advice,) = advise(replace(job_situation, may_use=lambda: {"main", "big"}))
    assert next((change.option, change.after) for change in advice.changes) == ("partition", "big")
    assert 300 * GIB < asked(advice, "mem") <= 1024 * GIB
    own = advise(situation(Lognormal(memory=9 * GIB), nodes=[*NODES, *LARGE], partitions=[MAIN, BIG]))
    assert (
        advise(
            situation(
                Lognormal(memory=9 * GIB),
                nodes=[*NODES, *LARGE],
                partitions=[MAIN, BIG],
                may_use=lambda: {"main", "big"},
            )
        )
        == own
    ), "what its own partition can give needs no other"


def test_tasks_are_spread_where_no_node_has_enough() -> None:
    wide = job(100, tasks_asked=16, cpus_asked=16)
    job_situation = situation(Lognormal(memory=190 * GIB, time=600, spread=0.1), job=wide)
    (advice,) = advise(job_situation)
    assert advice.node_hours_after == pytest.approx(2 * (advice.node_hours_before or 0)), (
        "the cost is reported"
    )
    assert [(c.option, c.before, c.after) for c in advice.changes] == [("nodes", "1", "2")]
    before, after = risks(advice)
    assert after < before
    assert advise(replace(job_situation, job=replace(wide, tasks_asked=1))) == (), "one task cannot be spread"
    narrow = replace(MAIN, nodes_max=1)
    assert advise(replace(job_situation, partitions=[narrow])) == ()


def test_sick_nodes_are_kept_off() -> None:
    fit = NodeFitness(fit=3, needed=1, sick=("n2",), exclude="--exclude=n2")
    (advice,) = advise(situation(Lognormal(), fitness=fit, node_risk=0.2, model=failure(other=0.1)))
    assert advice.changes[0].after == "n2"
    assert advice.risk_before == pytest.approx(1 - 0.9 * 0.8)
    assert advice.risk_after == pytest.approx(0.1)
    few = replace(fit, fit=0, exclude=None)
    assert advise(situation(Lognormal(), fitness=few, node_risk=0.2)) == ()


def test_nodes_to_keep_off_are_added_to_the_scripts_own() -> None:
    fit = NodeFitness(fit=3, needed=1, sick=("n2",), exclude="--exclude=n2")
    (advice,) = advise(situation(Lognormal(), fitness=fit, node_risk=0.2, model=failure(other=0.1)))
    shown = for_script(advice, read_script("#!/bin/sh\n#SBATCH -x n[7-8]\ntrue\n"), "job.sbatch")
    assert shown.changes[0].after == "n[2,7-8]"
    assert for_job(advice, "7").command is None, "nobody knows which a waiting job keeps off"


def test_as_a_diff_and_as_a_command() -> None:
    both = advise(situation(Lognormal(memory=9 * GIB, time=4000)))[0]
    text = "#!/bin/sh\n#SBATCH --mem=8G -t 60\ntrue\n"
    shown = for_script(both, read_script(text), "job.sbatch")
    assert shown.diff
    assert "-#SBATCH --mem=8G -t 60\n+#SBATCH --mem=16G -t 02:00:00" in shown.diff
    assert shown.command == "sbatch --mem=16G --time=02:00:00 job.sbatch"
    given = for_script(
        both, read_script(text, command_line=["--mem=4G", "-A", "x"]), "-j.sh", ["--mem=4G", "-A", "x"]
    )
    assert given.command == "sbatch --mem=4G -A x --mem=16G --time=02:00:00 ./-j.sh", "the last one counts"
    assert given.diff
    assert "--mem=16G" not in given.diff, "what the command line sets, a script cannot change"
    other = for_script(both, read_script(text.replace("--mem=", "--mem-per-cpu=")), "job.sbatch")
    assert other.command is None, "sbatch takes no two kinds of memory"
    assert for_job(both, "7").command == "scontrol update JobId=7 MinMemoryNode=16384 TimeLimit=02:00:00"


@given(
    median=st.floats(0.1, 500),
    spread=st.floats(0.05, 1.5),
    ask=st.floats(0.1, 120),
    limit=st.integers(60, 86400),
    time=st.floats(10, 500_000),
    known=st.floats(0, 0.9),
)
def test_it_only_ever_raises_within_what_there_is(
    median: float, spread: float, ask: float, limit: int, time: float, known: float
) -> None:
    job_situation = situation(
        Lognormal(memory=median * GIB, time=time, spread=spread),
        job=job(ask, time_limit=limit),
        failure=failure(memory=known),
    )
    for advice in advise(job_situation):
        before, after = risks(advice)
        assert 0 <= after <= before <= 1
        for change in advice.changes:
            if change.option == "time":
                assert limit < asked(advice, "time") <= 86400
            else:
                assert (
                    (NodeRequest.of(job_situation.job).memory_a_node or 0) < asked(advice, "mem") <= 128 * GIB
                )


def test_two_opinions_on_one_limit_are_pooled_and_the_causes_add_up() -> None:
    model = failure(memory=0.1, other=0.2)
    risk = stated(model, over_memory=0.9)
    assert model.probability < risk.probability < 1 - 0.1 * 0.8
    assert sum(cause.probability for cause in risk.causes) == pytest.approx(risk.probability)
    assert 0.1 < cause_probability(risk, Outcome.OUT_OF_MEMORY) < 0.9
    assert risk.warns == (risk.probability >= risk.threshold)
    calmer = stated(model, over_memory=0.01)
    assert calmer.probability < model.probability
    new = stated(failure(other=0.2), over_limit=0.999)
    assert cause_probability(new, Outcome.TIMEOUT) > 0.2, "a cause that the model never saw"


@given(
    causes=st.tuples(*[st.floats(0, 0.3)] * 3), over=st.tuples(*[st.floats(0, 1)] * 2), sick=st.floats(0, 1)
)
def test_more_evidence_of_failure_never_lowers_the_risk(
    causes: tuple[float, float, float], over: tuple[float, float], sick: float
) -> None:
    model = failure(*causes)
    low, high = sorted(over)
    less, more = (stated(model, over_memory=o, over_limit=0.2) for o in (low, high))
    assert less.probability <= more.probability + 1e-12
    assert stated(model, node_risk=sick).probability >= stated(model).probability - 1e-12


def test_without_needs_the_model_has_the_word() -> None:
    assert stated(failure(memory=0.2, time=0.1, other=0.3)).probability == pytest.approx(0.6)


def test_savings_are_separate_from_advice_and_stay_safe() -> None:
    needs = Lognormal(memory=1 * GIB, time=600)
    long = job(100, time_limit=40_000, cpus_asked=1)
    job_situation = situation(needs, job=long, model=failure())
    assert advise(job_situation) == ()
    time, memory = savings(job_situation, waits=lambda *_: (3600.0, 60.0))
    assert (time.resource, memory.resource) == ("time", "memory")
    assert (needs.limit_for(SAFE) or 0) < time.enough <= 40_000 / FAR
    assert time.node_hours == pytest.approx((40_000 - time.enough) / 3600)
    assert (time.wait_before, time.wait_after) == (3600.0, 60.0)
    assert time.changes[0].after == format_duration(int(time.enough))
    assert time.chance >= SAFE
    assert memory.chance >= SAFE
    assert (needs.memory_for(SAFE) or 0) < memory.enough <= 100 * GIB / FAR
    assert memory.enough >= 4 * GIB, "the memory that comes with its CPU: less would free nothing"
    (shorter,) = savings(situation(needs, job=job(1, time_limit=40_000)), longest=10_000.0)
    assert shorter.enough >= 10_000, "its longest similar run took that"


def test_nothing_is_saved_that_raises_the_risk() -> None:
    needs = Lognormal(memory=1 * GIB, time=600)
    long = job(100, time_limit=40_000, cpus_asked=1)
    assert savings(situation(needs, job=long, model=failure(memory=0.6, time=0.3))) == ()
    job_situation = situation(needs, job=long)
    risen = replace(job_situation.failure, probability=job_situation.failure.probability + 0.2)
    assert savings(replace(job_situation, after=lambda plans: [risen for _ in plans])) == ()
    assert savings(situation(needs, job=job(2, time_limit=1200))) == (), "not far above"


def test_memory_by_cpu_is_that_of_all_tasks_of_a_node() -> None:
    """-n 16 --mem-per-cpu=2G leaves nodes open; what the tasks use together is what counts."""
    spread = job(2, memory_per="cpu", tasks_asked=16, cpus_asked=16, defaulted="nodes_asked")
    assert advise(situation(Lognormal(memory=10 * GIB), job=spread)) == (), "32 GiB are enough"
    (advice,) = advise(situation(Lognormal(memory=30 * GIB), job=spread, model=failure(memory=0.4)))
    assert 2 * GIB < asked(advice, "mem-per-cpu") <= 8 * GIB


def test_only_what_enough_healthy_nodes_can_give() -> None:
    down = Node(cluster="c", name="n9", cpus=32, memory=960 * GIB, partitions="main", state="DOWN")
    small = Node(cluster="c", name="n8", cpus=4, memory=960 * GIB, partitions="main")
    wide = replace(MAIN, nodes="n[0-3,8-9]", nodes_total=6, memory_max=100 * GIB, memory_max_per="node")
    job_situation = situation(
        Lognormal(memory=60 * GIB),
        job=job(50, nodes_asked=2, cpus_asked=16, tasks_asked=2),
        nodes=[*NODES, down, small],
        partitions=[wide],
    )
    (advice,) = advise(job_situation)
    assert asked(advice, "mem") == 100 * GIB, "the partition's limit"
    (advice,) = advise(replace(job_situation, partitions=[replace(wide, memory_max=None)]))
    assert asked(advice, "mem") <= 128 * GIB, "neither the node that is down nor the one with few CPUs"


def test_a_floor_beyond_the_machine_is_no_advice() -> None:
    assert advise(situation(Lognormal(memory=9 * GIB), memory_floor=300 * GIB)) == ()
