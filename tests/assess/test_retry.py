"""The retry verdict: by cause, by attempts, and by what became of earlier resubmissions."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.assess.codes import RetryCode
from forewarn.assess.json_schema import retry_schema, written
from forewarn.assess.node_health.records import Health, NodeHealth
from forewarn.assess.post_mortem.advice import ResubmitForecast
from forewarn.assess.post_mortem.explain import explain
from forewarn.assess.retry.causes import cause_column, cause_of
from forewarn.assess.retry.chain import AttemptChain, attempt_chain
from forewarn.assess.retry.decide import DELAY, LONGEST_DELAY, MOST_ATTEMPTS, decide
from forewarn.assess.retry.experience import UNCHANGED, RetryExperience
from forewarn.assess.retry.resubmissions import COLUMNS, RequestChange, empty_jobs, resubmissions
from forewarn.assess.retry.situation import KnownParts, RetrySituation
from forewarn.assess.retry.verdict import RaiseBasis, RetryAction, RetryCause, RetryVerdict
from forewarn.assess.wording import retries
from forewarn.assess.wording.reader import Reader
from forewarn.assess.wording.templates import filled
from forewarn.job.record import Job, Node, Partition
from tests.assess.test_post_mortem import GIB, NOW, job

SCHEMA = Path(__file__).parents[2] / "docs/retry.schema.json"
OOM = {"state": "OUT_OF_MEMORY", "outcome": "out_of_memory", "exit_code": 0, "exit_signal": 125}
TIMEOUT = {"state": "TIMEOUT", "outcome": "timeout", "exit_code": 0, "exit_signal": 0, "end": NOW + 3660}
NODE_FAIL = {"state": "NODE_FAIL", "outcome": "node_fail", "exit_code": 0}
EXPECTED = RetryExperience.none()


def situation(failed: Job, **more: Any) -> RetrySituation:
    return RetrySituation(job=failed, report=explain(failed), experience=EXPECTED, **more)


def verdict(failed: Job, **more: Any) -> RetryVerdict:
    return decide(situation(failed, **more))


def code(found: RetryVerdict) -> str:
    return str(found.evidence[0].code)


def history(*jobs: Job) -> pl.DataFrame:
    rows = [{name: getattr(one, name, None) for name in COLUMNS} | {"known_at": one.end} for one in jobs]
    return pl.DataFrame(rows, schema=empty_jobs().schema)


def later(seconds: int, number: int, **fields: Any) -> Job:
    """Return a job as `job`, submitted, started and ended so much later."""
    shifted = {"submit": NOW + seconds, "start": NOW + seconds + 60, "end": NOW + seconds + 660}
    return job(number, **(shifted | fields))


# --- jobs that did not fail --------------------------------------------------------------------------------


def test_a_job_that_has_not_ended() -> None:
    pending = job(state="PENDING", outcome=None, start=None, end=None, exit_code=None)
    found = verdict(pending)
    assert (found.verdict, code(found)) == (RetryAction.CANNOT_SAY, "retry_of_live_job")
    assert found.verdict.exit_code == 3


def test_a_completed_job_is_not_retried() -> None:
    found = verdict(job(state="COMPLETED", outcome="completed", exit_code=0))
    assert (found.verdict, code(found)) == (RetryAction.DO_NOT_RETRY, "retry_of_completed_job")
    assert found.probability is None
    assert found.options == ()


def test_a_cancelled_job_is_not_retried() -> None:
    found = verdict(job(state="CANCELLED", outcome="cancelled", cancelled_by="ann"))
    assert (found.verdict, code(found)) == (RetryAction.DO_NOT_RETRY, "retry_of_cancelled_job")
    assert found.evidence[0].values == {"by_owner": True}


def test_an_unknown_end() -> None:
    assert verdict(job(state="ODD", outcome="unknown")).verdict is RetryAction.CANNOT_SAY


# --- memory ------------------------------------------------------------------------------------------------


def test_out_of_memory_gets_more_than_was_measured() -> None:
    found = verdict(job(**OOM, max_memory=7 * GIB))
    assert found.verdict is RetryAction.MORE_MEMORY
    assert found.memory is not None
    assert found.memory > 7 * GIB > 4 * GIB
    assert found.memory_per == "node"
    assert found.options == ("--mem=14G",)


def test_memory_is_counted_as_the_job_counted_it() -> None:
    per_cpu = job(**OOM, memory_asked=GIB, memory_per="cpu", cpus_asked=8, cpus_given=8)
    found = verdict(per_cpu)
    assert (found.memory, found.memory_per, found.options) == (2 * GIB, "cpu", ("--mem-per-cpu=2G",))


def test_a_forecast_above_doubling_is_believed_up_to_three_times() -> None:
    for needed, expected in ((10 * GIB, 10 * GIB), (100 * GIB, 12 * GIB), (5 * GIB, 8 * GIB)):
        found = verdict(job(**OOM), make_forecast=lambda n=needed: ResubmitForecast(memory=n))
        assert found.memory == expected


def test_memory_that_is_not_recorded() -> None:
    found = verdict(job(**OOM, memory_asked=None))
    assert (found.verdict, code(found)) == (RetryAction.CANNOT_SAY, "retry_memory_unknown")


def cluster(memory: int = 64 * GIB, time_max: int = 7200) -> KnownParts:
    nodes = [Node(cluster="c", name=f"n{i}", memory=memory, cpus=64, state="IDLE", partitions="main")
             for i in range(1, 5)]  # fmt: skip
    big = [Node(cluster="c", name="b1", memory=16 * memory, cpus=64, state="IDLE", partitions="long")]
    partitions = [
        Partition(cluster="c", name="main", state="UP", time_max=time_max, nodes="n[1-4]", is_default=True),
        Partition(cluster="c", name="long", state="UP", time_max=100 * time_max, nodes="b1"),
    ]
    return KnownParts(nodes=(*nodes, *big), partitions=partitions)


def test_no_node_has_more_memory() -> None:
    full = job(**OOM, memory_asked=60 * GIB, partition="main")
    found = verdict(full, machine=cluster())
    assert (found.verdict, code(found)) == (RetryAction.DO_NOT_RETRY, "retry_memory_exhausted")
    elsewhere = verdict(full, machine=cluster(), may_use=lambda: {"main", "long"})
    assert elsewhere.verdict is RetryAction.MORE_MEMORY
    assert elsewhere.partition == "long"
    assert elsewhere.options == ("--mem=120G", "--partition=long")
    unsafe = cluster()
    odd = replace(unsafe.partitions[1], name="x --wrap=id")
    unsafe = replace(unsafe, partitions=(unsafe.partitions[0], odd))
    assert verdict(full, machine=unsafe, may_use=lambda: {odd.name}).verdict is RetryAction.DO_NOT_RETRY


def test_a_bounded_raise_says_what_jobs_like_it_need() -> None:
    small = job(**OOM, memory_asked=4 * GIB)
    found = verdict(small, make_forecast=lambda: ResubmitForecast(memory=53 * GIB))
    assert found.options == ("--mem=12G",)
    text = filled(retries.TABLE[RetryCode.MORE_MEMORY], found.evidence[0].values, Reader())
    assert text.endswith(
        "3 times what it had, the most that is raised at once; jobs like this may need 53 GiB"
    )


def test_one_resubmission_is_the_only_one() -> None:
    values = {"tried": 1, "completed": 0, "cause": "memory"}
    text = filled(retries.TABLE[RetryCode.OF_USER], values, Reader("ann"))
    assert text == "ann's only resubmission did not complete with more memory after running out of memory"


def test_the_most_that_a_node_has() -> None:
    found = verdict(job(**OOM, memory_asked=40 * GIB, partition="main"), machine=cluster())
    assert found.options == ("--mem=64G",)
    assert found.evidence[0].values["basis"] == RaiseBasis.LARGEST
    needs_more = verdict(
        job(**OOM, memory_asked=40 * GIB, partition="main"),
        machine=cluster(),
        make_forecast=lambda: ResubmitForecast(memory=100 * GIB),
    )
    assert needs_more.verdict is RetryAction.DO_NOT_RETRY


# --- time --------------------------------------------------------------------------------------------------


def test_a_timeout_gets_more_time() -> None:
    found = verdict(job(**TIMEOUT))
    assert (found.verdict, found.time_limit) == (RetryAction.MORE_TIME, 7200)
    assert found.options == ("--time=02:00:00",)
    assert found.hours == pytest.approx(2.0)


def test_the_time_limit_of_the_partition() -> None:
    found = verdict(job(**TIMEOUT, partition="main"), machine=cluster(time_max=3600))
    assert (found.verdict, code(found)) == (RetryAction.DO_NOT_RETRY, "retry_time_exhausted")
    moved = verdict(
        job(**TIMEOUT, partition="main"), machine=cluster(time_max=3600), may_use=lambda: {"long"}
    )
    assert moved.options == ("--time=02:00:00", "--partition=long")


def test_a_timeout_without_a_known_limit() -> None:
    found = verdict(job(**TIMEOUT, time_limit=None))
    assert (found.verdict, code(found)) == (RetryAction.CANNOT_SAY, "retry_time_unknown")


# --- nodes and passing causes ------------------------------------------------------------------------------


def test_a_lost_node_is_excluded() -> None:
    found = verdict(job(**NODE_FAIL))
    assert (found.verdict, found.exclude, found.options) == (
        RetryAction.ANOTHER_NODE,
        ("n1",),
        ("--exclude=n1",),
    )


def test_of_many_nodes_only_the_sick_one_is_excluded() -> None:
    wide = job(**NODE_FAIL, nodes="n[1-8]", nodes_given=8)
    assert verdict(wide).verdict is RetryAction.RETRY
    assert verdict(wide).delay == DELAY
    sick = NodeHealth(
        cluster="c", node="n3", health=Health.SICK, state="IDLE", partitions="main", in_service=True
    )
    found = verdict(wide, machine=KnownParts(health=(sick,)))
    assert found.exclude == ("n3",)


def test_no_node_is_excluded_where_none_would_be_left() -> None:
    machine = replace(cluster(), nodes=cluster().nodes[:1])
    found = verdict(job(**NODE_FAIL, partition="main"), machine=machine)
    assert (found.verdict, found.exclude) == (RetryAction.RETRY, ())


def test_names_of_nodes_cannot_add_options() -> None:
    found = verdict(job(**NODE_FAIL, nodes="n1 --wrap=id"))
    assert found.options == ()
    assert found.exclude == ()


def test_a_passing_cause_waits_longer_each_time() -> None:
    lost = job(exit_code=107)
    assert verdict(lost).verdict is RetryAction.RETRY
    assert verdict(lost).delay == DELAY
    assert verdict(lost, chain=AttemptChain(attempts=2, same_way=2)).delay == 2 * DELAY
    assert DELAY << (MOST_ATTEMPTS - 2) <= LONGEST_DELAY
    last = verdict(lost, chain=AttemptChain(attempts=MOST_ATTEMPTS, same_way=2))
    assert (last.verdict, code(last)) == (RetryAction.DO_NOT_RETRY, "retry_too_many_attempts")


def test_a_preempted_job_is_retried_at_once() -> None:
    found = verdict(job(state="PREEMPTED", outcome="preempted", exit_code=0))
    assert (found.verdict, found.delay) == (RetryAction.RETRY, 0)


# --- errors of the program ---------------------------------------------------------------------------------


def test_an_error_that_stays_is_not_retried(tmp_path: Path) -> None:
    log = tmp_path / "out"
    log.write_text("ModuleNotFoundError: No module named 'torch'\n")
    failed = job()
    found = decide(RetrySituation(job=failed, report=explain(failed, log=log), experience=EXPECTED))
    assert (found.verdict, code(found)) == (RetryAction.DO_NOT_RETRY, "retry_needs_correction")
    assert found.family == "python_package"


def test_twice_the_same_way_is_not_retried() -> None:
    long_run = job(end=NOW + 4000, time_limit=7200)
    assert verdict(long_run).verdict is RetryAction.RETRY
    twice = verdict(long_run, chain=AttemptChain(attempts=2, same_way=2))
    assert (twice.verdict, code(twice)) == (RetryAction.DO_NOT_RETRY, "retry_failed_the_same_way")


def test_a_failure_at_once_is_not_worth_it_without_other_experience() -> None:
    found = verdict(job(end=NOW + 63))
    assert (found.verdict, code(found)) == (RetryAction.DO_NOT_RETRY, "retry_unlikely")
    assert found.probability is not None


# --- attempts and experience -------------------------------------------------------------------------------


def test_attempts_of_the_same_request_are_counted() -> None:
    other = later(2000, 3, name="other", user="ann")
    jobs = [later(0, 1), later(1000, 2), other, later(3000, 4)]
    chain = attempt_chain(history(*jobs[:3]), jobs[3])
    assert (chain.attempts, chain.same_way) == (3, 3)
    completed = later(1000, 2, outcome="completed", state="COMPLETED", exit_code=0)
    assert attempt_chain(history(jobs[0], completed), jobs[3]).attempts == 1
    another_code = later(1000, 2, exit_code=3)
    assert attempt_chain(history(jobs[0], another_code), jobs[3]).same_way == 1
    assert attempt_chain(history(), jobs[3], known=jobs[:2]).attempts == 3
    unrecorded = [replace(one, exit_code=None, exit_signal=None) for one in jobs]
    chain = attempt_chain(history(*unrecorded[:3]), unrecorded[3])
    assert (chain.attempts, chain.same_way) == (3, 1)


def test_a_job_that_started_before_the_failure_was_known_is_no_resubmission() -> None:
    together = [later(0, 1), later(10, 2), later(20, 3)]  # a bulk, submitted within seconds
    assert attempt_chain(history(*together[:2]), together[2]).attempts == 1
    week = 8 * 86_400
    assert attempt_chain(history(together[0]), later(week, 4)).attempts == 1


def test_more_time_is_tried_even_after_many_timeouts_with_the_same_limit() -> None:
    jobs = [later(5000 * i, i, **(TIMEOUT | {"end": NOW + 5000 * i + 3660})) for i in range(1, 9)]
    chain = attempt_chain(history(*jobs[:-1]), jobs[-1])
    assert (chain.attempts, chain.more_time) == (8, 0)
    assert verdict(jobs[-1], chain=chain).verdict is RetryAction.MORE_TIME
    raised = replace(chain, more_time=MOST_ATTEMPTS - 1)
    assert verdict(jobs[-1], chain=raised).verdict is RetryAction.DO_NOT_RETRY


def pairs(users: int, outcome: str, *, first: str = "failed", number: int = 100, **more: Any) -> list[Job]:
    """Return failed jobs of some users, each with a resubmission that ended with an outcome."""
    found = []
    for i in range(users):
        user, at = f"u{i}", 10_000 * i
        found += [later(at, number + 2 * i, user=user, outcome=first)]
        found += [later(at + 1000, number + 2 * i + 1, user=user, outcome=outcome, **more)]
    return found


def test_experience_moves_the_chance() -> None:
    good = RetryExperience.of(history(*pairs(20, "completed")))
    bad = RetryExperience.of(history(*pairs(20, "failed")))
    cause = RetryCause.PROGRAM, RequestChange.NONE
    chances = [one.chance(*cause, 2).probability for one in (good, EXPECTED, bad)]
    assert chances[0] > 0.8 > chances[1] > 0.15 > chances[2]
    assert good.chance(*cause, 2).cluster.tried == 20
    assert decide(replace(situation(job(end=NOW + 3000)), experience=bad)).verdict is RetryAction.DO_NOT_RETRY


def test_after_a_failure_at_once_the_stated_chance_is_that_of_the_same_script() -> None:
    at_once = [
        replace(one, end=one.start + 20) if one.outcome == "failed" and one.start is not None else one
        for one in pairs(20, "completed")
    ]
    same = [replace(one, script_hash="a") for one in at_once]
    cause = RetryCause.AT_ONCE, RequestChange.NONE
    unknown, known = (RetryExperience.of(history(*jobs)).chance(*cause, 2) for jobs in (at_once, same))
    assert unknown.probability == known.probability == known.unchanged > 0.8
    assert unknown.unchanged == pytest.approx(unknown.probability * UNCHANGED)
    later_failure = RetryExperience.of(history(*pairs(20, "completed")))
    chance = later_failure.chance(RetryCause.PROGRAM, RequestChange.NONE, 2)
    assert chance.unchanged == chance.probability
    found = decide(replace(situation(job(end=NOW + 80)), experience=RetryExperience.of(history(*at_once))))
    assert (found.cause, found.verdict) == ("at_once", RetryAction.RETRY), "it costs little to try"
    assert found.probability is not None
    assert found.probability < 0.2


def test_fewer_than_five_users_are_not_counted_together() -> None:
    few = RetryExperience.of(history(*pairs(4, "completed")))
    chance = few.chance(RetryCause.PROGRAM, RequestChange.NONE, 2, user="somebody")
    assert chance.cluster.tried == 0
    assert chance.probability == EXPECTED.chance(RetryCause.PROGRAM, RequestChange.NONE, 2).probability
    own = few.chance(RetryCause.PROGRAM, RequestChange.NONE, 2, user="u1")
    assert (own.user.tried, own.user.completed) == (1, 1)
    assert own.probability > chance.probability


def test_a_changed_script_is_no_merit_of_the_retry() -> None:
    changed = pairs(20, "completed", script_hash="b")
    changed = [replace(one, script_hash=one.script_hash or "a") for one in changed]
    assert RetryExperience.of(history(*changed)).chance(
        RetryCause.PROGRAM, RequestChange.NONE, 2
    ).probability == pytest.approx(EXPECTED.chance(RetryCause.PROGRAM, RequestChange.NONE, 2).probability)


@given(st.lists(st.booleans(), min_size=5, max_size=30), st.integers(0, 10))
def test_more_failures_never_raise_the_chance(completed: list[bool], extra: int) -> None:
    def experience(outcomes: list[bool]) -> float:
        jobs = []
        for i, good in enumerate(outcomes):
            jobs += pairs(1, "completed" if good else "failed", number=10 * i)
            jobs[-2:] = [replace(one, user=f"u{i}") for one in jobs[-2:]]
        return (
            RetryExperience.of(history(*jobs)).chance(RetryCause.PROGRAM, RequestChange.NONE, 2).probability
        )

    assert experience([*completed, *[False] * extra]) <= experience(completed) + 1e-12


def test_factors_follow_what_resubmissions_used() -> None:
    many = []
    for i in range(30):
        pair = pairs(
            1, "completed", first="out_of_memory", number=10 * i, max_memory=6 * GIB, memory_asked=16 * GIB
        )
        many += [replace(one, user=f"u{i}") for one in pair]
    experience = RetryExperience.of(history(*many))
    assert experience.memory_factor() == pytest.approx(1.5)
    assert experience.time_factor() is None
    found = decide(replace(situation(job(**OOM)), experience=experience))
    assert found.evidence[0].values["basis"] == RaiseBasis.RESUBMISSIONS
    assert found.memory == 6 * GIB


def test_changes_between_attempts() -> None:
    first = later(0, 1, **OOM)
    more: dict[str, Any] = {"memory_asked": 8 * GIB}
    jobs = [first, later(1000, 2, **more), later(2000, 3, **more, time_limit=7200), later(3000, 4)]
    found = resubmissions(history(*jobs))
    assert found["change"].to_list() == [None, "memory", "time", "less"]
    assert found["attempt"].to_list() == [1, 2, 3, 4]


def test_the_cause_of_a_record_is_that_of_the_column() -> None:
    ends: list[dict[str, Any]] = [OOM, TIMEOUT, NODE_FAIL]
    ends += [{"exit_code": 107}, {"end": NOW + 70}, {}, {"outcome": "preempted"}]
    jobs = [job(i, **one) for i, one in enumerate(ends)]
    column = history(*jobs).select(cause=cause_column())["cause"].to_list()
    assert column == [str(cause_of(one, explain(one).family)) for one in jobs]


# --- the answer --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [OOM, TIMEOUT, NODE_FAIL, {"exit_code": 107}, {"end": NOW + 63}, {}])
def test_json_follows_its_schema(end: dict[str, Any]) -> None:
    found = verdict(job(**end), chain=AttemptChain(attempts=2)).to_json()
    jsonschema.validate(json.loads(json.dumps(found)), retry_schema())
    assert found["schema_version"] == 1
    assert found["summary"]
    assert len(found["because"]) == len(found["evidence"])
    assert "None" not in " ".join([found["summary"], *found["because"]])


def test_the_schema_is_that_of_the_file() -> None:
    assert SCHEMA.read_text() == written(retry_schema()), "run tools/assessment_schema.py"
