"""`forewarn compare`, and the history that commands of the learning room read: a file or the store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pytest

from forewarn.learn.families.base import Params
from forewarn.learn.families.xgboost import XgboostFamily
from forewarn.operate import compare as comparison
from forewarn.serve.cli.commands.compare import WORDS
from forewarn.sources.simulator import simulate
from tests.serve.conftest import Forewarn, sacct_line, swf_line, write_sacct, write_swf

pytestmark = pytest.mark.slow


class Quick(XgboostFamily):
    """The real one with few trees."""

    defaults: ClassVar[Params] = {**XgboostFamily.defaults, "rounds": 15, "eta": 0.2}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "family_of", lambda _: Quick())
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    simulate("small", 1500, 3, path, "parquet")
    return path


@pytest.mark.usefixtures("quick")
def test_a_file_is_compared_and_leaves_nothing_behind(
    forewarn: Forewarn, log: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = forewarn("compare", f"parquet:{log}", "--population", "papers")
    assert result.code == 0, result.err
    for words in WORDS.values():
        assert sum(line.startswith(words) for line in result.out.splitlines()) == 2
    assert "everything but completed is a failure" in result.out
    assert "ROC-AUC" in result.out
    assert "± of 5 samples" in result.out
    assert not home.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("quick")
def test_the_store_gives_the_same_as_the_file(forewarn: Forewarn, log: Path) -> None:
    assert forewarn("ingest", f"parquet:{log}").code == 0
    how = ("--json", "--phase", "start", "--features", "restricted", "--seed", 5)
    of_store, of_file = forewarn("compare", *how).json, forewarn("compare", f"parquet:{log}", *how).json
    assert of_store == of_file
    assert of_store["policy"] == "wasted"
    assert [way["way"] for way in of_store["ways"]] == list(WORDS)
    assert 0 < of_store["test"]["base_rate"] < 1


def test_ten_jobs_and_one_class_are_too_little(forewarn: Forewarn, tmp_path: Path) -> None:
    ten = write_swf(tmp_path / "ten.swf", *(swf_line(n, submit=n * 100) for n in range(10)))
    result = forewarn("compare", f"swf:{ten}")
    assert result.code == 7
    assert "too few jobs to learn from" in result.err
    fine = write_swf(tmp_path / "fine.swf", *(swf_line(n, submit=n * 100) for n in range(400)))
    result = forewarn("compare", f"swf:{fine}", "--population", "papers")
    assert result.code == 7
    assert "ended well in the population `papers`" in result.err
    assert "Traceback" not in result.err


def test_which_cluster_is_asked_for_where_there_are_several(forewarn: Forewarn, tmp_path: Path) -> None:
    assert forewarn("compare").code == 5  # no store yet
    for name in ("alps", "jura"):
        lines = (sacct_line(str(n)) for n in range(30))
        assert forewarn("ingest", "-M", name, f"sacct:{write_sacct(tmp_path / name, *lines)}").code == 0
    result = forewarn("compare")
    assert result.code == 2
    assert "the store has several clusters; choose from alps, jura" in result.err
    result = forewarn("compare", "-M", "nowhere")
    assert result.code == 2
    assert "no cluster 'nowhere' in the store; choose from alps, jura" in result.err
    assert "alps: " in forewarn("compare", "-M", "alps").err


def test_bad_rows_of_a_file_are_left_out_with_a_word(forewarn: Forewarn, tmp_path: Path) -> None:
    rows = [swf_line(n, submit=n * 100) for n in range(10)]
    some = write_swf(tmp_path / "some.swf", *rows, "11 what is this")
    assert f"skipped 1 of 11 rows as bad, the first: {some}:13: " in forewarn("compare", f"swf:{some}").err
    none = write_swf(tmp_path / "none.swf", "1 what is this", "2 and this")
    result = forewarn("compare", f"swf:{none}")
    assert result.code == 4
    assert f"all 2 rows are bad, the first: {none}:3: " in result.err
    empty = write_swf(tmp_path / "empty.swf")
    result = forewarn("compare", f"swf:{empty}")
    assert result.code in (3, 4), result.err


def test_a_status_needs_a_file_to_be_read(forewarn: Forewarn, tmp_path: Path) -> None:
    assert forewarn("compare", "--status", "exit-code").code == 2
    rows = (swf_line(n, submit=n * 100, status=int(n % 40 > 0)) for n in range(400))
    log = write_swf(tmp_path / "log.swf", *rows)
    result = forewarn(
        "compare", f"swf:{log}", "--status", "0=completed,1=completed", "--population", "papers"
    )
    assert "all 240 jobs of the block `train` ended well" in result.err
