"""Why a job failed or waits: the cause follows from record, surroundings and log, and says how sure it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.assess.post_mortem.advice import ResubmitForecast, as_requested_now
from forewarn.assess.post_mortem.explain import explain
from forewarn.assess.post_mortem.find_job import find_job
from forewarn.assess.post_mortem.log_paths import filled, log_paths
from forewarn.assess.post_mortem.pending_reason_table import REASONS
from forewarn.assess.post_mortem.pending_reasons import in_words
from forewarn.assess.post_mortem.report import Confidence, PostMortem
from forewarn.config import Config
from forewarn.errors import UnknownJobError, UnreachableError, UsageError
from forewarn.job.columns import to_frame
from forewarn.job.outcomes import Outcome
from forewarn.job.record import Job, Node, Observation
from forewarn.sources.slurm.scheduler import JobDetails, StepRecord
from forewarn.store.base import Store
from forewarn.store.opening import open_store
from tests.operate.fake_scheduler import FakeScheduler
from tests.operate.fake_scheduler import job as row
from tests.sources.fake_slurmrestd import FakeTime

GIB = 1 << 30
NOW = 1_700_000_000


def job(number: object = 7, **fields: Any) -> Job:
    usual: dict[str, Any] = {
        "cluster": "c",
        "job_id": str(number),
        "submit": NOW,
        "user": "ann",
        "name": "fit",
        "nodes": "n1",
        "start": NOW + 60,
        "end": NOW + 660,
        "time_limit": 3600,
        "state": "FAILED",
        "outcome": "failed",
        "exit_code": 1,
        "exit_signal": 0,
        "memory_asked": 4 * GIB,
        "memory_per": "node",
        "nodes_given": 1,
    }
    return Job(**(usual | fields))


REFUSED = {"start": None, "nodes": None, "nodes_given": None, "end": NOW}


def ended(state: str, outcome: str, **fields: Any) -> Job:
    return job(state=state, outcome=outcome, **fields)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(Config(home=tmp_path / "store")) as opened:
        yield opened


def keep(store: Store, *records: Job | Node, seen_at: int | None = None) -> None:
    seen: dict[str, list[Observation]] = {"job": [], "node": []}
    for record in records:
        kind = "job" if isinstance(record, Job) else "node"
        at = seen_at or (record.end if isinstance(record, Job) and record.end else NOW)
        seen[kind].append(Observation(seen_at=at, source="test", reconstructed=kind == "job", record=record))
    with store.writing() as writer:
        for kind, found in seen.items():
            writer.observe(kind, to_frame(found, kind))


# --- the record -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "family", "confidence"),
    [
        (
            {"state": "OUT_OF_MEMORY", "outcome": "out_of_memory", "exit_code": 0, "exit_signal": 125},
            "out_of_memory",
            Confidence.CERTAIN,
        ),
        (
            {"state": "TIMEOUT", "outcome": "timeout", "exit_code": 0, "end": NOW + 3690},
            "time_limit",
            Confidence.CERTAIN,
        ),
        ({"state": "NODE_FAIL", "outcome": "node_fail"}, "node_failure", Confidence.CERTAIN),
        ({"state": "PREEMPTED", "outcome": "preempted"}, "preempted", Confidence.CERTAIN),
        ({"state": "DEADLINE", "outcome": "deadline", "start": None}, "deadline", Confidence.CERTAIN),
        (
            {"state": "CANCELLED", "outcome": "cancelled", "cancelled_by": "ann"},
            "cancelled",
            Confidence.CERTAIN,
        ),
        (
            {"state": "CANCELLED", "outcome": "cancelled", "end": NOW + 60 + 3600},
            "time_limit",
            Confidence.VERY_LIKELY,
        ),
        (
            {
                "state": "CANCELLED",
                "outcome": "cancelled",
                "start": None,
                "reason": "DependencyNeverSatisfied",
            },
            "dependency",
            Confidence.CERTAIN,
        ),
        ({"exit_code": 139}, "crash", Confidence.VERY_LIKELY),
        ({"exit_code": 0, "exit_signal": 11}, "crash", Confidence.VERY_LIKELY),
        (
            {"exit_code": 0, "exit_signal": 11, "reason": "JobLaunchFailure"},
            "crash",
            Confidence.VERY_LIKELY,
        ),
        # As 24.11 keeps a job that it refused: the controller tells 0:1 and why, accounting only 1:0.
        (
            {**REFUSED, "exit_code": 0, "exit_signal": 1, "reason": "BadConstraints"},
            "refused",
            Confidence.CERTAIN,
        ),
        ({**REFUSED, "exit_code": 1}, "refused", Confidence.VERY_LIKELY),
        ({"exit_code": 11}, None, Confidence.UNKNOWN),  # the program's own: sacct's 11 is read as 139
        ({"exit_code": 124}, "own_time_limit", Confidence.LIKELY),
        ({"outcome": "timeout"}, "own_time_limit", Confidence.CERTAIN),  # of a step, FAILED itself
        ({"outcome": "out_of_memory"}, "out_of_memory", Confidence.CERTAIN),
        (
            {
                "state": "CANCELLED",
                "outcome": "cancelled",
                "start": None,
                "submit_line": "sbatch --dependency=afterok:6 a.sh",
            },
            "dependency",
            Confidence.VERY_LIKELY,
        ),
        ({"exit_code": 127}, "command_missing", Confidence.LIKELY),
        ({"exit_code": 126}, "not_executable", Confidence.LIKELY),
        ({"exit_code": 107}, "file_system", Confidence.LIKELY),
        (
            {"exit_code": 0, "exit_signal": 53, "reason": "RaisedSignal:53(Real-time_signal_19)"},
            "launch",
            Confidence.CERTAIN,
        ),
        ({"exit_code": 137, "max_memory": 4 * GIB}, "out_of_memory", Confidence.VERY_LIKELY),
        ({"exit_code": 137, "max_memory": 3 * GIB}, "out_of_memory", Confidence.POSSIBLE),
        ({"exit_code": 137, "max_memory": 1 * GIB}, "killed", Confidence.LIKELY),
        ({"exit_code": 137}, "killed", Confidence.LIKELY),
        ({"exit_code": 0, "exit_signal": 9}, "killed", Confidence.LIKELY),
        ({"exit_code": 9}, None, Confidence.UNKNOWN),
        ({"exit_code": 1}, None, Confidence.UNKNOWN),
        ({"exit_code": 2}, "usage", Confidence.POSSIBLE),
        ({"exit_code": None, "exit_signal": None}, None, Confidence.UNKNOWN),
    ],
)
def test_the_record_alone(fields: dict[str, Any], family: str | None, confidence: Confidence) -> None:
    report = explain(job(**fields))
    assert (report.family, report.confidence) == (family, confidence), report.cause
    assert report.what_to_do
    assert report.phase == "ended"


def test_an_unknown_cause_is_not_invented() -> None:
    report = explain(job(end=NOW + 65))
    assert report.family is None
    assert "The record does not show the cause" in report.cause
    assert "failed within 5 seconds" in report.cause
    assert report.kind == "user"


def test_a_refused_job_was_ended_by_no_signal() -> None:
    report = explain(job(**REFUSED, exit_code=0, exit_signal=1, reason="BadConstraints"))
    assert not any("SIGHUP" in fact.what for fact in report.evidence)
    assert "no node" in report.cause
    assert "Request less memory" in report.what_to_do[0]


def test_a_failure_at_once_is_no_sign_of_a_missing_thing_where_the_cause_is_known() -> None:
    soon = {"end": NOW + 61}
    killed = StepRecord(name="0", state="OUT_OF_MEMORY", exit_code=0, exit_signal=125)
    for report in (
        explain(job(**soon, outcome="out_of_memory")),
        explain(job(**soon), details=JobDetails(steps=(killed,))),
        explain(job(**soon, exit_code=139)),
        explain(
            job(**soon),
            details=JobDetails(steps=(StepRecord(name="0", state="CANCELLED", exit_code=0, exit_signal=9),)),
        ),
    ):
        assert not any("failed within" in fact.what for fact in report.evidence), report
        assert "failed within" not in report.cause


def test_a_limit_of_its_own_is_not_raised_by_asking_for_more_time() -> None:
    for report in (explain(job(exit_code=124)), explain(job(outcome="timeout"))):
        assert not any("#SBATCH --time" in what for what in report.what_to_do)
        assert "srun --time" in report.what_to_do[0]


def test_a_step_that_died_of_a_signal_is_called_cancelled() -> None:
    crashed = StepRecord(name="0", state="CANCELLED", exit_code=0, exit_signal=11)
    report = explain(job(exit_code=1), details=JobDetails(steps=(crashed,)))
    assert report.family == "crash"
    ended_with_the_job = StepRecord(name="0", state="CANCELLED", exit_code=0, exit_signal=15)
    assert explain(job(exit_code=1), details=JobDetails(steps=(ended_with_the_job,))).family is None


def test_a_completed_job_did_not_fail() -> None:
    report = explain(ended("COMPLETED", "completed", exit_code=0))
    assert report.cause == "The job did not fail: its state in Slurm is COMPLETED"
    assert report.what_to_do == ()


def test_advice_has_the_job_s_own_numbers() -> None:
    report = explain(ended("OUT_OF_MEMORY", "out_of_memory", exit_signal=125, max_memory=4 * GIB))
    assert "`#SBATCH --mem=8G`" in report.what_to_do[0]
    by_cpu = ended("OUT_OF_MEMORY", "out_of_memory", memory_per="cpu", memory_asked=GIB, cpus_given=4)
    assert "`#SBATCH --mem-per-cpu=2G`" in explain(by_cpu).what_to_do[0]
    report = explain(ended("TIMEOUT", "timeout", end=NOW + 60 + 3600))
    assert "`#SBATCH --time=02:00:00`" in report.what_to_do[0]
    assert "`#SBATCH --exclude=n1`" in explain(ended("NODE_FAIL", "node_fail")).what_to_do[0]


def test_advice_follows_the_forecast_where_there_is_one() -> None:
    killed = ended("OUT_OF_MEMORY", "out_of_memory", exit_signal=125, max_memory=4 * GIB)
    late = ended("TIMEOUT", "timeout", end=NOW + 60 + 3600)

    def advised(one: Job, **predicted: float) -> str:
        return explain(one, forecast=lambda: ResubmitForecast(**predicted)).what_to_do[0]

    assert advised(killed, memory=11.2 * GIB) == (
        "It had 4 GiB per node; 11.2 GiB is sufficient for 95% of jobs like this: `#SBATCH --mem=11776M`."
    )
    assert "rule of thumb: `#SBATCH --mem=8G`" in advised(killed), "there is no forecast"
    assert "rule of thumb: `#SBATCH --mem=8G`" in advised(killed, memory=3 * GIB), "it needed more than that"
    assert "1:40:00 is sufficient for 90% of jobs like this: `#SBATCH --time=01:40:00`" in advised(
        late, seconds=5_900.0
    )
    assert "rule of thumb: `#SBATCH --time=02:00:00`" in advised(late)
    by_cpu = replace(killed, memory_per="cpu", memory_asked=GIB, cpus_given=4, memory_given=None)
    assert "`#SBATCH --mem-per-cpu=3G`" in advised(by_cpu, memory=12.0 * GIB)


def test_there_is_no_forecast_where_it_does_not_matter() -> None:
    calls: list[str] = []

    def forecast() -> ResubmitForecast:
        calls.append("forecast")
        return ResubmitForecast()

    explain(ended("NODE_FAIL", "node_fail"), forecast=forecast)
    assert calls == [], "it takes a second"


def test_an_ended_job_as_a_request() -> None:
    one = as_requested_now(ended("OUT_OF_MEMORY", "out_of_memory", max_memory=4 * GIB), NOW + 9)
    fields = (one.submit, one.user, one.memory_asked, one.start, one.nodes, one.outcome, one.max_memory)
    assert fields == (NOW + 9, job().user, job().memory_asked, None, None, None, None)


def test_idle_cpus_are_noticed() -> None:
    report = explain(ended("TIMEOUT", "timeout", end=NOW + 3660, cpus_given=8, cpu_time=20.0))
    assert any("CPU efficiency <1% on 8 CPUs" in fact.what for fact in report.evidence)


def test_steps_tell_more_than_the_script() -> None:
    steps = (
        StepRecord(name="batch", state="FAILED", exit_code=1, exit_signal=0),
        StepRecord(
            name="0", state="OUT_OF_MEMORY", exit_code=0, exit_signal=125, nodes="n1", command="solver"
        ),
        StepRecord(name="1", state="COMPLETED", exit_code=0, exit_signal=0),
    )
    report = explain(job(), details=JobDetails(steps=steps))
    assert (report.family, report.confidence) == ("out_of_memory", Confidence.VERY_LIKELY)
    assert any("step 0 (solver): OUT_OF_MEMORY" in fact.what for fact in report.evidence)


_TEXT = st.none() | st.sampled_from(["", "n[1-3]", "n1", "broken[", "Dependency", "TimeLimit", "x" * 500])
_NUMBER = st.none() | st.sampled_from([0, 1, 2, 9, 53, 125, 127, 139, 255, 3600, 0xFFFFFFFF, 1 << 50])

_TEXTS = ("state", "reason", "name", "submit_line", "work_dir", "memory_per", "nodes")
_NUMBERS = (
    *("exit_code", "exit_signal", "derived_exit_code", "time_limit", "memory_asked", "max_memory"),
    *("cpus_given", "cpu_time", "nodes_given", "suspended", "array_task_id", "raw_id"),
)


@given(
    st.fixed_dictionaries(
        {"outcome": st.sampled_from([None, *map(str, Outcome)])},
        optional=dict.fromkeys(_TEXTS, _TEXT)
        | {"start": st.none() | st.just(NOW), "end": st.none() | st.integers(NOW, NOW + 10**6)}
        | dict.fromkeys(_NUMBERS, _NUMBER),
    )
)
def test_any_record_has_an_answer(fields: dict[str, Any]) -> None:
    report = explain(job(**fields), at=NOW + 5000)
    assert report.cause
    assert report.phase in ("pending", "running", "ended")
    report.to_json()


# --- the log --------------------------------------------------------------------------------------------


def with_log(tmp_path: Path, text: str, **fields: Any) -> PostMortem:
    (tmp_path / "slurm-7.out").write_text(text)
    return explain(job(work_dir=str(tmp_path), **fields))


def test_the_log_says_what_it_was(tmp_path: Path) -> None:
    after = "srun: error: n1: task 0: Exited with exit code 1\n"
    report = with_log(tmp_path, f"hello\nModuleNotFoundError: No module named 'torch'\n{after}")
    assert (report.family, report.confidence) == ("python_package", Confidence.VERY_LIKELY)
    assert "Python does not find the package torch" in report.cause
    assert [(line.line, line.follow_up) for line in report.log] == [(2, False), (3, True)]
    assert report.logs[0].read


def test_a_log_and_an_exit_code_that_agree_are_surer(tmp_path: Path) -> None:
    text = "slurm_script: line 7: samtools: command not found\n"
    assert with_log(tmp_path, text, exit_code=1).confidence is Confidence.LIKELY
    assert with_log(tmp_path, text, exit_code=127).confidence is Confidence.VERY_LIKELY


def test_a_warning_does_not_outweigh_the_scheduler(tmp_path: Path) -> None:
    text = "rm: cannot remove 'old': No such file or directory\nworking\n"
    report = with_log(tmp_path, text, state="TIMEOUT", outcome="timeout", end=NOW + 3700, exit_code=0)
    assert report.family == "time_limit"


def test_completed_with_an_error_in_the_log(tmp_path: Path) -> None:
    report = with_log(
        tmp_path,
        "FileNotFoundError: [Errno 2] No such file: 'a'\n",
        state="COMPLETED",
        outcome="completed",
        exit_code=0,
    )
    assert "but its log has an error" in report.cause
    assert report.confidence is Confidence.POSSIBLE
    assert "set -e" in report.what_to_do[0]


def test_the_report_lists_where_it_looked(tmp_path: Path) -> None:
    report = explain(job(work_dir=str(tmp_path)))
    assert [(file.path, file.read) for file in report.logs] == [(str(tmp_path / "slurm-7.out"), False)]
    assert report.logs[0].why_not == "no such file or directory"
    assert report.logs[0].guessed


def test_a_log_that_is_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        explain(job(), log=tmp_path / "nothing")


def test_output_and_error_in_one_file_are_read_once(tmp_path: Path) -> None:
    (tmp_path / "a.out").write_text("MemoryError\n")
    (tmp_path / "a.err").symlink_to(tmp_path / "a.out")
    details = JobDetails(outputs=(str(tmp_path / "a.err"), str(tmp_path / "a.out")))
    assert len(explain(job(), details=details).log) == 1


@pytest.mark.parametrize(
    ("fields", "script", "expected"),
    [
        ({}, None, ["/w/slurm-7.out"]),
        ({"job_id": "5_3", "array_job_id": 5, "array_task_id": 3, "raw_id": 9}, None, ["/w/slurm-5_3.out"]),
        (
            {},
            "#!/bin/bash\n#SBATCH -o out/%x-%j.log -e /e/%u.%N.err\nsrun x\n",
            ["/e/ann.n1.err", "/w/out/fit-7.log"],
        ),
        ({}, "#!/bin/bash\n#SBATCH --output=a.log\nsrun -o b.log x\n#SBATCH -o late\n", ["/w/a.log"]),
        ({"submit_line": "sbatch --output c.log job.sh"}, "#!/bin/bash\n#SBATCH -o a.log\n", ["/w/c.log"]),
        ({"submit_line": "sbatch -oc%%d.log job.sh"}, None, ["/w/c%d.log"]),
        ({"submit_line": "sbatch -o '/dev/null' job.sh"}, None, []),
        ({"work_dir": None}, None, []),
        ({"submit_line": "sbatch -o 'broken job.sh"}, None, ["/w/'broken"]),
    ],
)
def test_where_the_output_is(fields: dict[str, Any], script: str | None, expected: list[str]) -> None:
    assert [str(path) for path in log_paths(job(**({"work_dir": "/w"} | fields)), script=script)] == expected


def test_what_slurm_tells_of_the_output_wins() -> None:
    outputs = ["", "/w/%x.%A_%a.out", "/w/%x.%A_%a.out"]
    assert [str(p) for p in log_paths(job(work_dir="/w"), outputs=outputs, script="#SBATCH -o x")] == [
        "/w/fit.7_4294967294.out"
    ]
    assert filled("\\%j.out", job()) == "%j.out"


# --- surroundings ---------------------------------------------------------------------------------------


def test_a_node_that_went_down(store: Store) -> None:
    broken = Node(cluster="c", name="n1", state="DOWN", reason="Not responding", reason_at=NOW + 650)
    keep(store, broken, Node(cluster="c", name="n2", state="DOWN", reason_at=NOW + 650), seen_at=NOW + 660)
    report = explain(job(), store)
    assert (report.family, report.confidence) == ("node_failure", Confidence.VERY_LIKELY)
    assert any("n1 became DOWN" in fact.what and "Not responding" in fact.what for fact in report.evidence)
    assert not any("n2" in fact.what for fact in report.evidence)


def test_a_node_that_rebooted(store: Store) -> None:
    keep(store, Node(cluster="c", name="n1", state="IDLE", boot=NOW + 700), seen_at=NOW + 90_000)
    assert "n1 rebooted" in explain(job(), store).cause


def test_a_node_that_went_down_on_another_day(store: Store) -> None:
    broken = Node(cluster="c", name="n1", state="DOWN", reason="disk", reason_at=NOW - 5000, boot=NOW - 9000)
    keep(store, broken, seen_at=NOW - 5000)
    assert explain(job(), store).family is None


def test_a_sick_node_and_a_lost_file_system(store: Store) -> None:
    lost = others(2, 2, at=NOW - 7000, nodes="n[1-2]", exit_code=5) + others(
        3, 3, at=NOW + 5000, exit_code=107
    )
    keep(store, *lost)
    assert explain(job(exit_code=107), store).family == "file_system", "as many elsewhere"
    keep(store, *others(3, 3, at=NOW - 3000, nodes="n1", exit_code=107))
    report = explain(job(exit_code=107), store)
    assert report.family == "node_failure"
    expected = "5 other jobs on the same nodes had system failures within 6 hours of its end, elsewhere 3"
    assert any(fact.what == expected for fact in report.evidence)
    assert explain(job(exit_code=1), store).family is None, "that is its own"


def others(
    count: int,
    users: int,
    *,
    at: int,
    outcome: str = "failed",
    nodes: str = "n9",
    exit_code: int = 1,
    ran: int = 500,
) -> list[Job]:
    return [
        job(
            1000 + at % 997 * 50 + n,
            user=f"u{n % users}",
            end=at,
            outcome=outcome,
            nodes=nodes,
            exit_code=exit_code,
            submit=NOW - n - 20_000,
            start=at - ran - n,
        )
        for n in range(count)
    ]


def test_an_outage_is_nobody_s_fault(store: Store) -> None:
    keep(store, *others(12, 5, at=NOW + 655))
    report = explain(job(), store)
    assert report.family == "outage"
    (fact,) = [fact for fact in report.evidence if fact.source == "cluster"]
    assert "12 jobs of 5 other users" in fact.what
    assert fact in explain(job(), store, sees_all=False).evidence


def test_few_others_are_not_counted_for_a_reader_who_may_not_see_them(store: Store) -> None:
    keep(store, *others(8, 4, at=NOW + 655, nodes=str(job().nodes)))
    texts = {
        sees_all: [one.what for one in explain(job(), store, sees_all=sees_all).evidence]
        for sees_all in (True, False)
    }
    assert any("of 4 other users" in one for one in texts[True])
    assert len(texts[True]) == len(texts[False])
    assert "Other jobs on the same nodes failed within 10 minutes of its end" in texts[False]
    assert "Jobs of other users that had run for a while failed within a minute of its end" in texts[False]
    assert not any("8" in one or "other users," in one for one in texts[False])


@pytest.mark.parametrize(
    "ends",
    [
        others(12, 1, at=NOW + 655),  # one user's array
        others(12, 5, at=NOW + 655, outcome="completed"),
        others(12, 5, at=NOW + 655 - 3000),
        others(12, 5, at=NOW + 655, exit_code=107),  # of another kind than this one
        others(12, 5, at=NOW + 655, ran=5),  # all began a moment before: of mistakes of their own
        [one for minute in range(0, 80000, 300) for one in others(6, 5, at=NOW + 655 - minute)],  # as always
    ],
)
def test_no_outage(store: Store, ends: list[Job]) -> None:
    keep(store, *ends)
    assert explain(job(), store).family is None


def test_others_on_the_same_node_are_counted_and_not_named(store: Store) -> None:
    keep(store, *others(6, 3, at=NOW + 400, nodes="n[1-2]"))
    report = explain(job(), store)
    (fact,) = [fact for fact in report.evidence if "same nodes" in fact.what]
    assert "6 of 6 other jobs" in fact.what
    assert "u0" not in str(report.to_json())


# --- jobs that have not ended ---------------------------------------------------------------------------


def waiting(reason: str | None, number: int | str = 7, **more: Any) -> Job:
    usual: dict[str, Any] = {"outcome": None, "start": None, "end": None, "nodes": None, "exit_code": None}
    return job(number, state="PENDING", reason=reason, **usual | more)


def test_a_job_that_waits() -> None:
    report = explain(waiting("Priority"), details=JobDetails(start_estimate=NOW + 9000), at=NOW + 1800)
    assert report.phase == "pending"
    assert report.cause == "The job is pending: jobs of higher priority are ahead of it"
    assert report.start_estimate == NOW + 9000
    assert any("Slurm's own estimate" in fact.what and "in 2 hours" in fact.what for fact in report.evidence)
    assert any("pending for 30 minutes" in fact.what for fact in report.evidence)


def test_an_estimate_that_has_passed_is_none() -> None:
    report = explain(waiting("Resources"), details=JobDetails(start_estimate=NOW), at=NOW + 1800)
    assert report.start_estimate is None


@pytest.mark.parametrize("reason", list(REASONS))
def test_every_reason_has_words(reason: str) -> None:
    report = explain(waiting(reason), at=NOW)
    assert "Slurm's reason is" not in report.cause
    assert "JOBID" not in str(report.what_to_do)


@pytest.mark.parametrize(
    ("reason", "words", "never"),
    [
        ("QOSMaxJobsPerUserLimit", "its QOS limits the jobs per user, and the limit is reached", False),
        ("AssocGrpCPUMinutesLimit", "the CPU minutes of its account are used up", False),
        (
            "AssocGrpNodeLimit",
            "its account limits the nodes of all its jobs together, and the limit is reached",
            False,
        ),
        ("AssocMaxJobsLimit", "its account limits the jobs per user, and the limit is reached", False),
        ("QOSGrpGRES", "its QOS limits the GPUs or other devices of all its jobs together", False),
        ("QOSMaxWallDurationPerJobLimit", "it will not start like this", True),
        ("QOSMaxMemoryPerUser", "its QOS limits the memory per user, and the limit is reached", False),
        ("MaxJobsPerAccount", "the cluster limits the jobs per account, and the limit is reached", False),
        ("QOSMinGRES", "it requests fewer GPUs or other devices than its QOS requires", True),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-3]", "(n[1-3])", False),
        (
            "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
            "are down",
            False,
        ),
        ("SomethingNew_in_Slurm", "Slurm's reason is SomethingNew in Slurm", False),
        ("", "gives no reason", False),
    ],
)
def test_reasons(reason: str, words: str, never: bool) -> None:
    explained = in_words(reason)
    assert words in explained.words
    assert explained.never is never


def test_a_job_that_runs(tmp_path: Path) -> None:
    running = job(state="RUNNING", outcome=None, end=None, exit_code=None, work_dir=str(tmp_path))
    report = explain(running, at=NOW + 60 + 1800, risk=0.42)
    assert (report.phase, report.cause, report.risk) == ("running", "The job is running", 0.42)
    assert any(fact.what == "run time 0:30:00 of a limit of 1:00:00 (50%)" for fact in report.evidence)
    assert any(fact.what == "42% risk of failure" for fact in report.evidence)
    (tmp_path / "slurm-7.out").write_text("CUDA error: out of memory\n")
    assert "its log has an error" in explain(running, at=NOW + 1800).cause


def test_a_bare_kill_says_nothing_of_memory() -> None:
    report = explain(job(exit_code=137))
    assert report.cause == (
        "The job was ended by a signal: exit code 137, which is signal 9 (SIGKILL: "
        "it was killed from outside)"
    )
    assert report.kind == "user"
    assert not any("memory" in text for text in (report.cause, *report.what_to_do))


# --- which job is meant ---------------------------------------------------------------------------------


def test_the_store_is_asked_first(store: Store) -> None:
    keep(store, job(7))
    scheduler = FakeScheduler(FakeTime())
    assert find_job("7", store, scheduler).job == job(7)
    assert scheduler.calls == ["details 7"], "an ended job does not change"


class DetailsOf(FakeScheduler):
    """A cluster that has details of the job with any id, which is somebody's."""

    owner: str | None = None

    def details(self, job_id: str) -> JobDetails:
        step = StepRecord(name="0", state="RUNNING", nodes="n1", command="secret-solver")
        return replace(super().details(job_id), user=self.owner, outputs=("/home/bob/x",), steps=(step,))


@pytest.mark.parametrize(("owner", "is_shown"), [("bob", False), ("USER", True), (None, True)])
def test_details_of_another_user_s_job_with_the_same_id_are_not_shown(
    store: Store, owner: str | None, is_shown: bool
) -> None:
    """Slurm uses ids again: the store has the caller's old job, Slurm a new one of somebody else."""
    keep(store, job(7))
    scheduler = DetailsOf(FakeTime())
    scheduler.owner = job(7).user if owner == "USER" else owner
    found = find_job("7", store, scheduler)
    assert found.job == job(7)
    assert bool(found.details.steps or found.details.outputs) is is_shown


def test_slurm_knows_what_the_store_does_not(store: Store) -> None:
    scheduler = FakeScheduler(FakeTime(), live=[row(8, NOW, reason="Priority")])
    assert find_job("8", store, scheduler).job.reason == "Priority"
    with pytest.raises(UsageError, match="no job 9 in the store or in Slurm"):
        find_job("9", store, scheduler)


def test_slurm_that_is_away_is_no_end(store: Store) -> None:
    keep(store, waiting("Priority"))
    scheduler = FakeScheduler(FakeTime())
    scheduler.goes("slurmctld")
    found = find_job("7", store, scheduler)
    assert found.job.state == "PENDING"
    assert "could not be queried" in found.notes[0]
    scheduler.away["slurmctld"] = UnreachableError("no socket")
    with pytest.raises(UsageError, match="no socket"):
        find_job("99", store, scheduler)


def test_of_an_array_the_task_that_failed(store: Store) -> None:
    keep(
        store,
        *(
            job(
                f"5_{task}",
                array_job_id=5,
                array_task_id=task,
                outcome="failed" if task == 2 else "completed",
            )
            for task in range(4)
        ),
    )
    found = find_job("5", store, None)
    assert found.job.job_id == "5_2"
    assert found.notes == ("job 5 has 4 parts: 1 did not complete, 0 have not ended; this is 5_2",)
    assert find_job("5_1", store, None).job.outcome == "completed"
    scheduler = FakeScheduler(FakeTime())
    find_job("5", store, scheduler)
    assert scheduler.calls == ["details 5_2"], "where its output is, and its steps"


def test_an_array_that_waits_is_counted_once(store: Store) -> None:
    """The collector stored its tasks; Slurm shows those that wait as one record."""
    usual: dict[str, Any] = {"array_job_id": 5, "state": "PENDING", "reason": "Priority"}
    keep(
        store,
        *(waiting("Priority", f"5_{task}", array_job_id=5, array_task_id=task) for task in range(1, 7)),
    )
    runs = row("5_1", NOW, **usual | {"state": "RUNNING", "start": NOW + 5, "array_task_id": 1})
    for live, chosen in (
        ([row("5_[1-6]", NOW, array_tasks="1-6", **usual)], "5_1"),
        ([runs, row("5_[2-6]", NOW, array_tasks="2-6", **usual)], "5_1"),
    ):
        scheduler = FakeScheduler(FakeTime(), live=live)
        found = find_job("5", store, scheduler)
        assert found.job.job_id == chosen
        assert found.notes == ("job 5 has 6 parts: 0 did not complete, 6 have not ended; this is 5_1",)
    found = find_job("5_3", store, scheduler)
    assert (found.job.job_id, found.notes) == ("5_3", ())
    assert scheduler.calls[-1] == "details 5_[2-6]", "as Slurm knows it"


def test_of_a_requeued_job_the_last_run(store: Store) -> None:
    keep(store, job(7, outcome="preempted"), job(7, submit=NOW + 5000, start=NOW + 5001, end=NOW + 5002))
    found = find_job("7", store, None)
    assert found.job.submit == NOW + 5000
    assert "requeued" in found.notes[0]


def test_the_same_id_on_two_clusters(store: Store) -> None:
    keep(store, job(7), job(7, cluster="d"))
    with pytest.raises(UsageError, match="name one"):
        find_job("7", store, None)
    assert find_job("7", store, None, cluster="d").job.cluster == "d"


def test_a_job_that_the_caller_may_not_see_does_not_exist(store: Store) -> None:
    """Its id may have been used again, or on another cluster; and nothing tells it from an unknown one."""
    own, later = job(7, user="ann"), NOW + 5000
    others = job(7, user="ben", submit=later, start=later + 1, end=later + 2)
    keep(store, own, others, job(7, cluster="d", user="ben"), job(8, user="ben"))
    scheduler = FakeScheduler(FakeTime(), live=[row(10, NOW, user="ben")])
    found = find_job("7", store, scheduler, may_see=lambda one: one.user == "ann")
    assert (found.job, found.notes) == (own, ())
    texts = set()
    for number in (8, 9, 10):
        with pytest.raises(UnknownJobError) as unknown:
            find_job(str(number), store, scheduler, may_see=lambda one: one.user == "ann")
        texts.add(str(unknown.value).replace(str(number), "ID"))
    assert texts == {"no job ID in the store or in Slurm"}
