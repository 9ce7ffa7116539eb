"""Scripts as `sacct -B` prints them."""

from __future__ import annotations

from collections.abc import Sequence

from forewarn.job.columns import to_frame
from forewarn.job.record import Job, Observation
from forewarn.sources.sacct.scripts import read_scripts, with_scripts

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
        Job(cluster="c", job_id="4", submit=0, submit_line="sbatch b"),
        Job(cluster="c", job_id="5", submit=0, submit_line="srun python x.py"),
        Job(cluster="c", job_id="6", submit=0),
    ]
    frame = to_frame(Observation(seen_at=0, source="s", reconstructed=True, record=job) for job in jobs)
    asked: list[str] = []

    def ask(ids: Sequence[str]) -> dict[str, str]:
        asked.extend(ids)
        return {job: "#!/bin/sh\nmodule load gcc\n" for job in ids if job.startswith("3_")}

    told = with_scripts(frame, ask)
    assert asked == ["3_8", "4"]
    assert told["script_modules"].to_list() == ["gcc"] * 9 + [None] * 3
    assert told["script_hash"].drop_nulls().n_unique() == 1
    assert told["script_language"].to_list()[9:] == [None, "python", None]
    assert told.columns == frame.columns
