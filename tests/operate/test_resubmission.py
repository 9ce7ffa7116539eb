"""A job that is submitted again requests what it did the first time, with the changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.assess.assessment import Change
from forewarn.errors import UsageError
from forewarn.job.record import Job
from forewarn.operate.resubmission import options_of_line, repeated_submission
from forewarn.sources.slurm.job_requests import LOGIN_ENVIRONMENT

SCRIPT = "#!/bin/bash\n#SBATCH --mem=60 -t 3\nsrun ./a\n"
JOB = Job(
    cluster="alps",
    job_id="7",
    submit=1000,
    user="ann",
    account="physics",
    name="solve",
    work_dir="/w/sub",
    partition="long",
    qos="normal",
    nodes_asked=1,
    tasks_asked=2,
    cpus_asked=8,
    memory_asked=40 << 20,
    memory_per="cpu",
    time_limit=600,
    defaulted="account,qos",
)


def change(option: str, value: str) -> Change:
    return Change(option=option, before=None, after=value)


def test_the_command_line_counts() -> None:
    job = replace(JOB, submit_line="sbatch --wait -M alps -D sub -p long -t 10 --exclusive a.sh 1 2")
    again = repeated_submission([job], SCRIPT, [change("mem", "80M")], tasks=None)
    assert (again.partition, again.time_limit, again.memory_per_node) == ("long", 600, 80 << 20)
    assert (again.exclusive, again.work_dir, again.name) == (True, "/w/sub", "solve")
    assert again.environment == LOGIN_ENVIRONMENT
    assert (again.tasks, again.account) == (None, None), "the site decides again"


def test_without_a_command_line_the_record_counts() -> None:
    again = repeated_submission([JOB], SCRIPT, [], tasks=None)
    assert (again.partition, again.time_limit, again.tasks, again.cpus_per_task) == ("long", 600, 2, 4)
    assert (again.memory_per_cpu, again.memory_per_node) == (40 << 20, None)
    assert (again.account, again.qos, again.nodes, again.array) == (None, None, None, None)


@pytest.mark.parametrize("line", [None, "sbatch --mem-per-cpu=40M a.sh"])
def test_memory_of_another_kind_replaces_what_was_requested(line: str | None) -> None:
    job = replace(JOB, submit_line=line)
    for script in (SCRIPT, "#!/bin/bash\nsrun ./a\n"):
        again = repeated_submission([job], script, [change("mem", "1G"), change("time", "20")], tasks=None)
        assert (again.memory_per_node, again.memory_per_cpu, again.time_limit) == (1 << 30, None, 1200)


@pytest.mark.parametrize("line", [None, "sbatch -a 1-9 a.sh", "sbatch a.sh"])
def test_one_task_of_an_array_is_submitted_alone(line: str | None) -> None:
    task = replace(JOB, job_id="7_2", array_job_id=7, array_task_id=2, submit_line=line)
    for script in (SCRIPT, SCRIPT.replace("-t 3", "-t 3 --array=0-3")):
        assert repeated_submission([task], script, [], tasks="2").array == "2"


def test_a_whole_array_is_submitted_again() -> None:
    tasks = [replace(JOB, job_id=f"7_{n}", array_job_id=7, array_task_id=n) for n in (3, 2)]
    waiting = replace(JOB, job_id="7_[4-9%2]", array_job_id=7, array_tasks="4-9%2")
    assert repeated_submission([waiting], SCRIPT, [], tasks=None).array == "4-9%2"
    assert repeated_submission(tasks, SCRIPT, [], tasks=None).array == "3,2"
    in_script = SCRIPT.replace("-t 3", "--array=0-3")
    assert repeated_submission(tasks, in_script, [], tasks=None).array == "0-3"


def test_options_that_cannot_be_passed_on_are_named() -> None:
    job = replace(JOB, submit_line="sbatch --begin=now+1hour --bogus a.sh")
    with pytest.raises(UsageError, match=r"bogus.*begin"):
        repeated_submission([job], SCRIPT, [], tasks=None)


def test_command_lines() -> None:
    assert options_of_line("sbatch --wrap 'sleep 1' -t 5") == ("--time=5",)
    assert options_of_line("sbatch 'a") == ()
    assert options_of_line("sbatch") == ()
    assert options_of_line("srun -n 2 a.out -n 3") == ("--ntasks=2",)
    assert options_of_line("sbatch --bogus x.sh") == ("--bogus",)
