"""Tests of scripts as `sacct -B` prints them."""

from __future__ import annotations

from collections.abc import Sequence

from forewarn.job.columns import to_frame
from forewarn.job.record import Job, Observation
from forewarn.job.sbatch.script_facts import ScriptFacts, script_facts
from forewarn.sources.sacct.scripts import Scripts, read_scripts

LINE = "-" * 80


def test_scripts_follow_each_other() -> None:
    text = f"Batch Script for 1\n{LINE}\n#!/bin/sh\n{LINE}\ntrue\nBatch Script for 2\n{LINE}\nNONE\n"
    assert read_scripts(text) == {"1": f"#!/bin/sh\n{LINE}\ntrue\n"}
    assert read_scripts("") == {}


def test_one_task_is_asked_for_all_of_an_array() -> None:
    jobs = [
        *(
            Job(cluster="c", job_id=f"3_{n}", submit=0, array_job_id=3, submit_line="sbatch a")
            for n in range(9)
        ),
        Job(cluster="c", job_id="4", submit=0, submit_line="/usr/bin/sbatch"),  # its script from stdin
        Job(cluster="c", job_id="5", submit=0, submit_line="srun python x.py"),
        Job(cluster="c", job_id="6", submit=0),
    ]
    frame = to_frame(Observation(seen_at=0, source="s", reconstructed=True, record=job) for job in jobs)
    asked: list[str] = []

    def ask(ids: Sequence[str]) -> dict[str, ScriptFacts]:
        asked.extend(ids)
        return {job: script_facts("#!/bin/sh\nmodule load gcc\n") for job in ids if job.startswith("3_")}

    scripts = Scripts(ask)
    result = scripts.add_facts(frame)
    assert asked == ["3_8", "4"]
    assert scripts.add_facts(frame).equals(result)
    assert asked == ["3_8", "4"], "a collector reads the last minutes again: their scripts it has"
    assert result["script_modules"].to_list() == ["gcc"] * 9 + [None] * 3
    assert result["script_hash"].drop_nulls().n_unique() == 1
    assert result["script_language"].to_list()[9:] == [None, "python", None]
    assert result.columns == frame.columns


def test_what_is_left_of_an_array_is_asked_for_by_its_number() -> None:
    """A list of tasks is not an id: slurmrestd refuses a request with one as a whole."""
    jobs = [
        Job(cluster="c", job_id="3", submit=0, submit_line="sbatch a"),
        Job(cluster="c", job_id="4_[2-9]", submit=0, array_job_id=4, submit_line="sbatch b"),
    ]
    frame = to_frame(Observation(seen_at=0, source="s", reconstructed=True, record=job) for job in jobs)
    asked: list[str] = []

    def ask(ids: Sequence[str]) -> dict[str, ScriptFacts]:
        asked.extend(ids)
        return {job: script_facts("#!/bin/sh\nmodule load gcc\n") for job in ("3", "4_[2-9]")}

    scripts = Scripts(ask)
    assert scripts.add_facts(frame)["script_modules"].to_list() == ["gcc", "gcc"]
    assert asked == ["3", "4"]
    scripts.add_facts(frame)
    assert asked == ["3", "4"], "once"
