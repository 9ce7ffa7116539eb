"""Blocks in order of time, and the jobs whose outcomes were known at a cut."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from forewarn.errors import NotEnoughError, UsageError
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.split import check_settled, settled_rows, split
from forewarn.learn.data.table import JobTable


def test_blocks_follow_one_another(table: JobTable) -> None:
    parts = split(table)
    blocks = (parts.train, parts.search, parts.calibrate, parts.test)
    for before, after in itertools.pairwise(blocks):
        assert table.submit[before].max() <= table.submit[after].min()
    assert sum(len(block) for block in blocks) == table.labelled.sum()


def test_phases_are_split_at_the_same_jobs(table: JobTable, start_table: JobTable) -> None:
    """A job is in the same block at submit and at start."""
    at_submit, at_start = split(table), split(start_table)
    assert len(start_table.submit) < len(table.submit)  # some never started
    assert at_start.cuts == at_submit.cuts
    started = set(table.about.filter(table.about["start"].is_not_null())["job_id"])
    first = set(table.about["job_id"].gather(at_submit.test))
    assert set(start_table.about["job_id"].gather(at_start.test)) == first & started


def test_training_sees_what_was_known_at_the_cut_only(table: JobTable) -> None:
    parts = split(table)
    cut = parts.cuts[0]
    rows = settled_rows(table, parts.train, cut)
    assert 0 < len(rows) < len(parts.train)
    assert table.known_at[rows].max() < cut


def test_the_jobs_before_the_gap_are_no_shorter_than_all(table: JobTable) -> None:
    """Just before a cut only short jobs are known; before the gap the known jobs are like all others."""
    run_time = table.about["run_time"].fill_null(0).to_numpy()
    rows = np.flatnonzero(table.labelled)
    all_known, before_gap = [], []
    for cut in np.quantile(table.submit, np.linspace(0.4, 0.95, 30)).astype(int):
        learnt = settled_rows(table, rows, cut)
        end = table.submit[learnt].max()
        near = rows[(table.submit[rows] > end) & (table.submit[rows] < cut)]
        known = near[table.known_at[near] < cut]
        all_known.append(run_time[known].mean() - run_time[near].mean())
        day_before = rows[(table.submit[rows] > end - 86400) & (table.submit[rows] <= end)]
        before_gap.append(run_time[np.intersect1d(day_before, learnt)].mean() - run_time[day_before].mean())
    assert np.mean(all_known) < 0
    assert abs(np.mean(before_gap)) < abs(np.mean(all_known)) / 4


def test_ten_jobs_are_too_few(table: JobTable) -> None:
    with pytest.raises(NotEnoughError, match="too few jobs"):
        split(table.rows(np.arange(10)))


def test_ends_that_were_all_known_late(table: JobTable) -> None:
    """As if a collector first ran when all jobs had ended: more such history would not help."""
    late = dataclasses.replace(table, known_at=np.full_like(table.known_at, table.known_at.max()))
    parts = split(late)
    known = settled_rows(late, parts.train, parts.cuts[0])
    with pytest.raises(NotEnoughError, match=r"too short.*Train again when it is longer"):
        check_settled(late, "train", parts.train, known)


def test_no_jobs_at_all(table: JobTable) -> None:
    with pytest.raises(NotEnoughError, match="no jobs"):
        split(table.rows(np.arange(0)))


def test_one_class_only(table: JobTable) -> None:
    with pytest.raises(NotEnoughError, match="ended well"):
        split(table.rows(table.fails == 0))


def test_shares_must_add_up(table: JobTable) -> None:
    with pytest.raises(UsageError, match="add up to 1"):
        split(table, (0.5, 0.1, 0.1, 0.1))


def test_populations_leave_out_what_they_say(table: JobTable) -> None:
    started = table.about["start"].is_not_null().to_numpy()
    ran = table.about["run_time"].fill_null(0).to_numpy()
    assert POPULATIONS["papers"].mask(table.about).all()
    assert (POPULATIONS["papers-started"].mask(table.about) == started).all()
    assert (POPULATIONS["papers-2min"].mask(table.about) == (started & (ran >= 120))).all()
