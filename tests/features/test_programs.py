"""What a user's earlier jobs of a name ran: as of a moment, equal in batch and online, never a job's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import StoreError
from forewarn.features.batch import ORDER, events_of, read_inputs, walk
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.state import START, SUBMIT, new_state
from forewarn.features.online import OnlineFeatures
from forewarn.features.programs import PROGRAM, EarlierPrograms
from forewarn.features.slurm_field_differences import with_slurm_treatments
from forewarn.features.snapshot import SavedSnapshot, bring_up_to_date, is_current
from forewarn.job.columns import to_frame, to_records
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job, Observation, ProgramRun
from forewarn.operate.online_state import FollowedState
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_store
from tests.features.histories import history

POLICY = POLICIES["wasted"]
NAMES = [feature.name for feature in L.FEATURES]


def run(
    job: str, start: int, end: int | None, application: str | None = "lmp", run_id: str = ""
) -> ProgramRun:
    return ProgramRun(
        cluster="c",
        run_id=run_id or f"{job} {start} {application}",
        job_id=job,
        application=application,
        start=start,
        end=end,
    )


def write_runs(store: Store, *runs: ProgramRun) -> None:
    seen = [
        Observation(seen_at=r.end or r.start or 0, source="xalt", reconstructed=True, record=r) for r in runs
    ]
    with store.writing() as writer:
        writer.observe("program", to_frame(seen, "program"))


def write_jobs(store: Store, *jobs: Job) -> None:
    seen = [Observation(seen_at=j.submit, source="s", reconstructed=True, record=j) for j in jobs]
    with store.writing() as writer:
        writer.observe("job", to_frame(seen))
        writer.describe_cluster("c", with_slurm_treatments(ClusterFacts()))


def job(job_id: str, submit: int, end: int | None = None, **facts: object) -> Job:
    known = {"user": "ann", "name": "fit_1"} | facts
    return Job(cluster="c", job_id=job_id, submit=submit, end=end, **known)  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(Config(home=tmp_path / "home", known_delay=60))


def asked(programs: EarlierPrograms, at: int, user: str = "ann", name: str | None = "fit_2") -> str | None:
    return programs.of(job("99", at, user=user, name=name))


def test_it_is_known_to_later_jobs_of_this_user_and_name_only(store: Store) -> None:
    write_jobs(store, job("1", 100, 300))
    write_runs(store, run("1", 150, 200), run("1", 150, 290, None))
    programs = EarlierPrograms.read(store, "c")
    assert [asked(programs, at) for at in (100, 200, 201)] == [None, None, "lmp"]
    assert asked(programs, 500, user="bob") is None
    assert asked(programs, 500, name="other") is None
    assert asked(programs, 500, name=None) is None


def test_the_program_that_took_longest_so_far(store: Store) -> None:
    write_jobs(store, job("1", 100, 900))
    eight = replace(run("1", 300, 320, "solve"), tasks=8)
    write_runs(store, run("1", 110, 140, "prepare"), eight, run("1", 400, 500, "plot"))
    programs = EarlierPrograms.read(store, "c")
    assert [asked(programs, at) for at in (141, 321, 501)] == ["prepare", "solve", "solve"]


def test_a_run_is_of_the_job_that_had_its_number_then(store: Store) -> None:
    """Ids wrap, requeued jobs keep theirs, and a task of an array has one of its own."""
    write_jobs(
        store,
        job("1", 100, 300, name="old"),
        job("1", 1000, 1300, name="new"),
        job("7_3", 100, 300, raw_id=9, name="array"),
    )
    write_runs(store, run("1", 1010, 1020), run("9", 150, 160, "vasp"), run("1", 500, 600, "stray"))
    programs = EarlierPrograms.read(store, "c")
    assert asked(programs, 5000, name="old") is None
    assert asked(programs, 5000, name="new") == "lmp"
    assert asked(programs, 5000, name="array") == "vasp"
    assert programs.unmatched == {"1": 500}


def test_nothing_is_read_where_there_are_no_programs(store: Store) -> None:
    write_jobs(store, job("1", 100, 300))
    programs = EarlierPrograms.read(store, "c")
    frame = next(iter(store.scan(cluster="c")))
    assert programs.with_column(frame) is frame
    assert asked(programs, 500) is None


# --- a whole history ---------------------------------------------------------------------------------


def some_runs(jobs: pl.DataFrame, seed: int = 0) -> list[ProgramRun]:
    """For most jobs that started, a run or three within their time."""
    draw = np.random.default_rng(seed)
    runs: list[ProgramRun] = []
    for one in to_records(jobs, Job):
        if one.start is None or draw.random() < 0.2:
            continue
        for number in range(int(draw.integers(1, 4))):
            start = one.start + int(draw.integers(0, 50))
            end = start + int(draw.integers(1, 900)) if draw.random() < 0.9 else None
            number_ = str(one.raw_id or one.job_id)
            runs.append(run(number_, start, end, f"app{draw.integers(0, 4)}", f"{one.job_id} {number}"))
    return runs


def jobs_with_numbers(count: int = 600) -> pl.DataFrame:
    frame = history(count)
    raw = pl.when(pl.col("job_id").str.contains("_")).then(pl.int_range(pl.len()) + 100_000)
    # Few names, so that jobs have predecessors.
    name = pl.concat_str(pl.lit("Run-"), pl.int_range(pl.len()) % 3).str.replace_all("[12]", "x")
    return frame.with_columns(raw_id=raw, name=pl.when(pl.col("name").is_not_null()).then(name))


def stored(path: Path, jobs: pl.DataFrame, runs: list[ProgramRun]) -> Store:
    store = open_store(Config(home=path, known_delay=60))
    with store.writing() as writer:
        writer.observe("job", jobs.drop("known_at"))
        writer.describe_cluster("c", with_slurm_treatments(ClusterFacts("Europe/Berlin")))
    if runs:
        write_runs(store, *runs)
    return store


@pytest.fixture(scope="module")
def jobs() -> pl.DataFrame:
    return jobs_with_numbers()


def batch(store: Store, phase: str) -> np.ndarray:
    inputs = read_inputs(store, "c", POLICY, phase=phase)
    kind = SUBMIT if phase == "submit" else START
    return np.concatenate([v for _, _, v in walk(new_state(), inputs, events_of(inputs), emitted=kind)])


def test_a_frame_and_one_job_get_the_same(tmp_path: Path, jobs: pl.DataFrame) -> None:
    store = stored(tmp_path / "home", jobs, some_runs(jobs))
    programs = EarlierPrograms.read(store, "c")
    shuffled = jobs.sample(fraction=1, shuffle=True, seed=1)
    one_by_one = [programs.of(one) for one in to_records(shuffled, Job)]
    assert programs.with_column(shuffled)[PROGRAM].to_list() == one_by_one
    assert len({*one_by_one}) == 5, "four programs, and none"


@pytest.mark.slow
def test_batch_and_online_are_the_same(tmp_path: Path, jobs: pl.DataFrame) -> None:
    store = stored(tmp_path / "home", jobs, some_runs(jobs))
    views = {
        view: list(to_records(pl.concat(store.scan(view=view, cluster="c")).sort(*ORDER), Job))
        for view in ("submit", "start", "now")
    }
    events = events_of(read_inputs(store, "c", POLICY, phase="submit"))
    online = OnlineFeatures("c", POLICY, store.clusters()["c"], EarlierPrograms.read(store, "c"))
    rows: dict[int, list[np.ndarray]] = {SUBMIT: [], START: []}
    for i, (t, kind, j) in enumerate(zip(events.times, events.kinds, events.jobs, strict=True)):
        if i == len(events.times) // 2:
            with store.writing() as writer:
                online.save(writer)
            online = OnlineFeatures.load(store, "c", POLICY)
        if kind == SUBMIT:
            rows[SUBMIT].append(online.submit(views["submit"][j]))
        elif kind == START:
            rows[START].append(online.start(views["start"][j]))
        else:
            online.ended(views["now"][j], int(t))
    for phase, kind in (("submit", SUBMIT), ("start", START)):
        walked = batch(store, phase)
        np.testing.assert_allclose(np.array(rows[kind]), walked, rtol=1e-9, atol=1e-9)
        assert np.nanmax(walked[:, NAMES.index("script_ended")]) > 10
    bring_up_to_date(store, "c", POLICY)
    new = replace(views["now"][-1], job_id="99999", submit=online.at + 10**5, start=None, end=None)
    present = SavedSnapshot(store, "c", new.submit, POLICY).features([new], "submit")[0]
    known = np.isfinite(present)
    np.testing.assert_allclose(present[known], online.submit(new)[known], rtol=1e-9, atol=1e-9)
    assert known[NAMES.index("script_last")]


@pytest.mark.parametrize("phase", ["submit", "start"])
def test_no_feature_sees_a_run_that_became_known_later(
    tmp_path: Path, jobs: pl.DataFrame, phase: str
) -> None:
    """Its own never: that becomes known after the submit. Two thirds of the future's runs are other ones."""
    runs = some_runs(jobs)
    t = int(jobs["submit"][jobs.height // 2])
    other = [
        r if (r.end or r.start or 0) <= t else replace(r, application="another", end=None, start=t + 5)
        for number, r in enumerate(runs)
        if (r.end or r.start or 0) <= t or number % 3
    ]
    before, after = (
        batch(stored(tmp_path / name, jobs, some), phase) for name, some in (("one", runs), ("two", other))
    )
    order = jobs.sort("submit", pl.col("job_id").str.len_chars(), "job_id")
    if phase == "submit":
        early = (order["submit"] <= t).to_numpy()
        assert (before[~early] != after[~early]).any(), "the check can fail"
    else:
        times = order.filter(pl.col("start").is_not_null())["start"].sort()
        early = (times <= t).to_numpy()
    np.testing.assert_array_equal(after[early], before[early])


def test_without_programs_nothing_changes(tmp_path: Path, jobs: pl.DataFrame) -> None:
    with_them, without = (
        batch(stored(tmp_path / name, jobs, runs), "submit")
        for name, runs in (("one", some_runs(jobs)), ("two", []))
    )
    # Slurm's scripts are hidden: there is no history by script, unless programs stand for them.
    place = NAMES.index("script_ended")
    assert np.nanmax(np.nan_to_num(without[:, place])) == 0
    assert (np.nan_to_num(with_them[:, place]) > 0).sum() > 100


def test_a_state_from_before_an_ingest_is_rebuilt(tmp_path: Path, jobs: pl.DataFrame) -> None:
    runs = some_runs(jobs)
    store = stored(tmp_path / "home", jobs, [])
    followed = FollowedState(store, "c", POLICY, saves=True)
    at = int(jobs["submit"].max()) + 10**5  # type: ignore[arg-type]
    followed.follow(at)
    assert is_current(store, "c", POLICY)
    assert not followed.follow(at + 1).rebuilt
    write_runs(store, *runs[:-1])
    assert not is_current(store, "c", POLICY)
    with pytest.raises(StoreError):
        SavedSnapshot(store, "c", at, POLICY)
    assert followed.follow(at + 2).rebuilt
    assert is_current(store, "c", POLICY)
    assert not followed.follow(at + 3).rebuilt


def test_a_job_that_comes_after_its_runs_is_matched(tmp_path: Path, jobs: pl.DataFrame) -> None:
    store = stored(tmp_path / "home", jobs, [])
    last = int(jobs["submit"].max())  # type: ignore[arg-type]
    write_runs(store, run("77777", last + 150, last + 160, "late"))
    followed = FollowedState(store, "c", POLICY, saves=True)
    followed.follow(last + 10_000)
    write_jobs(store, job("77777", last + 100, last + 300, start=last + 120, outcome="completed"))
    assert followed.follow(last + 10_001).rebuilt
    assert followed.features is not None
    assert asked(followed.features.programs, last + 10_002) == "late"
    assert not followed.follow(last + 10_003).rebuilt


def test_a_job_that_runs_does_not_see_its_own_record(store: Store) -> None:
    """Asked about after its program ended: what counts is what was known at its submit."""
    own = job("2", 1000, None, start=1010)
    write_jobs(store, job("1", 100, 300, outcome="completed", start=110), own)
    write_runs(store, run("1", 150, 200, "earlier"))
    bring_up_to_date(store, "c", POLICY)
    before = SavedSnapshot(store, "c", 2000, POLICY).features([own], "start")[0]
    write_runs(store, run("2", 1020, 1030, "own"))
    bring_up_to_date(store, "c", POLICY)
    for phase in ("submit", "start"):
        row = SavedSnapshot(store, "c", 2000, POLICY).features([own], phase)[0]
        assert np.isfinite(row[NAMES.index("script_in_flight")])
    np.testing.assert_array_equal(SavedSnapshot(store, "c", 2000, POLICY).features([own], "start")[0], before)
