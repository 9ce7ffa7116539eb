"""`forewarn thresholds` as an operator meets it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.job.record import Job
from forewarn.learn.registry.operator_thresholds import FILE
from forewarn.learn.registry.serving import Serving
from forewarn.store.opening import open_store
from tests.assess.served import promote, small_bundle
from tests.operate.job_homes import write_assessments, write_jobs
from tests.serve.conftest import Forewarn

NOW = int(time.time())
MODEL = "alps.submit.generic"


def ended(number: int) -> Job:
    submit = NOW - 9000 + number
    return Job(
        cluster="alps",
        job_id=str(number),
        submit=submit,
        partition="gpu" if number % 2 else "main",
        outcome="failed" if number < 4 else "completed",
        end=submit + 60,
    )


@pytest.fixture
def site(home: Path) -> Path:
    """A home with a model that serves and assessments of ten jobs, of which four failed."""
    jobs = [ended(n) for n in range(10)]
    with open_store(Config(home=home)) as store:
        write_jobs(store, jobs)
        write_assessments(
            store,
            (
                {"cluster": "alps", "job_id": job.job_id, "submit": job.submit, "made_at": job.submit + 1}
                | {"model": f"{MODEL}/3", "probability": 0.9 - int(job.job_id) / 10, "threshold": 0.5}
                for job in jobs
            ),
        )
    promote(Serving(home / "models"), small_bundle(), 3)
    return home


def test_set_list_and_reset(forewarn: Forewarn, site: Path) -> None:
    listed = forewarn("thresholds", "list", "--json").json
    assert [(one["model"], one["partition"], one["is_set"]) for one in listed] == [(MODEL, None, False)]
    done = forewarn("thresholds", "set", MODEL, "0.55", "-r", "fewer alarms")
    assert done.code == 0
    assert "the threshold is 0.550" in done.err
    after = next(line for line in done.out.splitlines() if line.strip().startswith("after"))
    # Minutes of assessments say nothing about a day.
    assert after.split()[1:] == ["0.550", "n/a", "4", "4", "100.0%", "100.0%"]
    assert "10 jobs assessed, 10 ended, 4 of them failed" in done.err
    shown = forewarn("thresholds", "list")
    assert "fewer alarms" in shown.out
    changed = forewarn("thresholds", "reset", MODEL, "--json").json
    assert (changed["before"], changed["after"]) == (0.55, listed[0]["own_threshold"])


def test_a_preview_sets_nothing(forewarn: Forewarn, site: Path) -> None:
    done = forewarn("thresholds", "set", MODEL, "0.2", "-p", "gpu", "--preview")
    assert (done.code, "would be 0.200" in done.err) == (0, True)
    assert not forewarn("thresholds", "list", "--json").json[0]["is_set"]
    assert not (site / "models" / "serving" / FILE).exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("set", MODEL, "1.5"), "from 0 to 1"),
        (("set", MODEL, "nan"), "from 0 to 1"),
        (("set", MODEL, "much"), "not a valid float"),
        (("set", "alps.start.generic", "0.5"), "no model alps.start.generic serves"),
        (("set", MODEL, "0.5", "-p", "moon"), "no partition 'moon'; choose from gpu, main"),
        (("reset", MODEL), "no threshold is set"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    forewarn: Forewarn, site: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = forewarn("thresholds", *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_damaged_file_is_repaired(forewarn: Forewarn, site: Path) -> None:
    forewarn("thresholds", "set", MODEL, "0.55")
    (site / "models" / "serving" / FILE).write_text("{")
    broken = forewarn("thresholds", "list")
    assert (broken.code, "forewarn thresholds repair" in broken.err) == (7, True)
    assert "written again" in forewarn("thresholds", "repair").err
    assert "nothing to repair" in forewarn("thresholds", "repair").err
    assert forewarn("thresholds", "list", "--json").json[0]["threshold"] == 0.55


def test_a_home_without_models_says_so(forewarn: Forewarn, home: Path) -> None:
    with open_store(Config(home=home)):
        pass
    assert "no model serves yet" in forewarn("thresholds", "list").err


def test_the_help_has_examples(forewarn: Forewarn) -> None:
    assert "forewarn thresholds set alps.submit.generic 0.35" in forewarn("thresholds", "--help").out
