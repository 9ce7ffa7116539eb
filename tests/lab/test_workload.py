"""The workload's programs end as they should, and its people learn."""

from __future__ import annotations

import random
import shutil

import pytest

from lab.cgroups import can_limit_memory
from lab.cluster import Lab
from lab.jobs import records, submit, wait_ended
from lab.workload.people import make_people
from lab.workload.scenes import SCENES
from lab.workload.session import PROGRAMS

# Those that are wrong only by time (a limit, a preemption) are left to `lab.endings`, which waits anyway.
WRONG = {
    "heat": "FAILED",
    "analyse": "FAILED",
    "assemble": "OUT_OF_MEMORY" if can_limit_memory() else "FAILED",
    "coupled": "FAILED",
    "write": "FAILED",
    "prepare": "FAILED",
    "sweep": "FAILED",
}


def test_every_program_ends_as_it_should(lab: Lab) -> None:
    shutil.copytree(PROGRAMS, lab.state / "home/site", dirs_exist_ok=True)
    luck = random.Random(1)
    right, wrong = {}, {}
    for name, scene in SCENES.items():
        if name not in ("simulate", "scavenge"):  # up to half a minute each, of sleep
            request = scene(luck, False)
            right[name] = submit(lab, "dave", *request.options, script=request.script)
        if name in WRONG:
            request = scene(luck, True)
            wrong[name] = submit(lab, "erin", *request.options, script=request.script)
    wait_ended(lab, [*right.values(), *wrong.values()])
    for name, job in right.items():
        assert {record.state for record in records(lab, [job])} == {"COMPLETED"}, name
    for name, job in wrong.items():
        assert WRONG[name] in {record.state for record in records(lab, [job])}, name


def test_the_seed_decides() -> None:
    first, second, other = (
        [person.next_request() for person in make_people(seed) for _ in range(20)] for seed in (1, 1, 2)
    )
    assert first == second
    assert first != other


def test_every_program_has_somebody() -> None:
    assert {program for person in make_people(3) for program in person.programs} == set(SCENES)


@pytest.mark.parametrize("seed", range(5))
def test_people_learn(seed: int) -> None:
    person = make_people(seed)[0]
    person.carelessness = 0.9

    def mistakes() -> int:
        mistake_count = 0
        for _ in range(100):
            program, _ = person.next_request()
            mistake_count += program in person.wrong_now
            person.hears_of(program, failed=program in person.wrong_now)
        return mistake_count

    assert mistakes() > mistakes()
