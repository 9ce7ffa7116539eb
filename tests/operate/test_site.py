"""The face for Python: what a site answers, in any number of threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

import forewarn
from forewarn.errors import BadRowError, NoGoodRowError, SourceError, StoreError, UsageError
from tests.serve.conftest import sacct_line, swf_line, write_sacct, write_swf

SUBMIT = "2024-01-10T08:00:00"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> forewarn.Site:
    for name in ("HOME", "CONFIG", "POLICY", "CLUSTER", "TIMEZONE"):
        monkeypatch.delenv(f"FOREWARN_{name}", raising=False)
    return forewarn.open(tmp_path / "home", cluster="alps")


@pytest.fixture
def history(tmp_path: Path) -> str:
    path = write_sacct(
        tmp_path / "history.txt",
        sacct_line("1", user="alice", state="COMPLETED"),
        sacct_line("2", user="bob", state="TIMEOUT", partition="gpu"),
        sacct_line(
            "3_1",
            state="FAILED",
            code="1:0",
            submit="2024-01-11T08:00:00",
            start="2024-01-11T08:10:00",
            end="2024-01-11T09:10:00",
        ),
        sacct_line("4", user="carol", state="PENDING", start="Unknown", end="Unknown"),
    )
    return f"sacct:{path}"


def test_settings_are_those_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWARN_POLICY", "papers")
    monkeypatch.setenv("FOREWARN_HOME", str(tmp_path / "other"))
    assert forewarn.open().config.home == tmp_path / "other"
    assert forewarn.open(str(tmp_path)).config.policy == "papers"
    assert forewarn.open(tmp_path, policy="wasted", known_delay=60).config.policy == "wasted"
    with pytest.raises(UsageError, match="polcy"):
        forewarn.open(tmp_path, polcy="wasted")
    with pytest.raises(UsageError, match="one of wasted, papers"):
        forewarn.open(tmp_path, policy="none")


def test_opening_makes_nothing(site: forewarn.Site) -> None:
    assert not site.config.home.exists()
    with pytest.raises(StoreError, match="no store in this folder"):
        site.jobs()
    assert not site.config.home.exists()


def test_ingest_tells_what_it_read(site: forewarn.Site, history: str) -> None:
    result = site.ingest(history, timezone="Europe/Berlin")
    assert (result.new, result.clusters) == (4, ("alps",))
    assert result.files[0].outcomes == {"completed": 1, "timeout": 1, "failed": 1}
    assert site.ingest(history, timezone="Europe/Berlin").new == 0
    (job,) = site.jobs(user="alice", state="completed")
    assert job == forewarn.Job(**{f: getattr(job, f) for f in job.__slots__})
    assert job.submit == int(datetime(2024, 1, 10, 7, tzinfo=UTC).timestamp())


def test_a_bad_call_of_ingest_is_refused(site: forewarn.Site, history: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a time zone such as"):
        site.ingest(history, timezone="Europe/Nowhere")
    with pytest.raises(UsageError, match="swf:FILE"):
        site.ingest(history, status="exit-code")
    assert not site.config.home.exists()
    with pytest.raises(SourceError):
        site.ingest(f"sacct:{tmp_path / 'missing.txt'}")


def test_bad_rows_end_it_or_are_put_aside(site: forewarn.Site, tmp_path: Path) -> None:
    bad = write_swf(tmp_path / "bad.swf", swf_line(1), "2 nonsense")
    with pytest.raises(BadRowError):
        site.ingest(f"swf:{bad}")
    result = site.ingest(f"swf:{bad}", skip_bad=True)
    assert (result.new, result.files[0].bad) == (1, 1)
    assert result.files[0].rejects is not None
    assert result.files[0].rejects.parent == site.config.home / "rejects"
    worse = write_swf(tmp_path / "worse.swf", "2 nonsense")
    with pytest.raises(NoGoodRowError, match="all 1 rows are bad"):
        site.ingest(f"swf:{worse}", rejects=tmp_path / "mine.jsonl")
    assert (tmp_path / "mine.jsonl").exists()


def test_jobs_are_chosen_in_sacct_s_words(site: forewarn.Site, history: str) -> None:
    site.ingest(history, timezone="Europe/Berlin")
    ids = {
        "user": (site.jobs(user="alice"), ["1", "3_1"]),
        "list": (site.jobs(user="alice,bob"), ["1", "2", "3_1"]),
        "several": (site.jobs(user=["bob", "carol"]), ["2", "4"]),
        "state": (site.jobs(state="TO,pending"), ["2", "4"]),
        "array": (site.jobs(job_id="3"), ["3_1"]),
        "partition": (site.jobs(partition="gpu", cluster="alps"), ["2"]),
        "nobody": (site.jobs(cluster="other"), []),
        "newest": (site.jobs(limit=1), ["3_1"]),
    }
    for name, (found, wanted) in ids.items():
        assert [job.job_id for job in found] == wanted, name
    assert site.count(user="alice") == 2
    assert site.count() == 4
    summary = site.summary(state="failed,timeout")
    assert (summary.jobs, summary.ended, summary.outcomes) == (2, 2, {"failed": 1, "timeout": 1})
    with pytest.raises(UsageError, match="nonsense"):
        site.jobs(state="nonsense")
    with pytest.raises(UsageError, match="'users'"):
        site.jobs(users="alice")  # type: ignore[call-arg]


def test_moments_are_texts_numbers_and_datetimes(site: forewarn.Site, history: str) -> None:
    site.ingest(history, timezone="Europe/Berlin")
    berlin = int(datetime(2024, 1, 10, 22, tzinfo=UTC).timestamp())  # 23:00 there
    for since in (
        "2024-01-10T23:00",
        berlin,
        datetime(2024, 1, 10, 23),
        datetime(2024, 1, 10, 22, tzinfo=UTC),
    ):
        assert [job.job_id for job in site.jobs(since=since)] == ["3_1"], since
        assert [job.job_id for job in site.jobs(until=since)] == ["1", "2", "4"], since
    assert site.jobs(since="now-7days") == []
    with pytest.raises(UsageError, match="not a time"):
        site.jobs(since="soon")


def test_a_frame_has_the_columns_asked_for(site: forewarn.Site, history: str) -> None:
    site.ingest(history)
    assert site.job_frame(["user", "job_id"], state="timeout").rows() == [("bob", "2")]
    everything = site.job_frame()
    assert everything.height == 4
    assert everything["known_at"].null_count() == 1
    nothing = site.job_frame(user="nobody")
    assert nothing.schema == everything.schema


def test_a_breakdown_counts_failures(site: forewarn.Site, history: str) -> None:
    site.ingest(history)
    found = site.breakdown("User")
    assert (found.by, found.policy, found.is_by_time) == ("user", "wasted", False)
    assert found.groups.rows() == [("alice", 2, 2, 1), ("bob", 1, 1, 1), ("carol", 1, 0, 0)]
    by_day = site.breakdown("day", user="alice")
    assert by_day.is_by_time
    assert by_day.groups["day"].to_list() == ["2024-01-10", "2024-01-11"]
    assert site.breakdown("account", user="nobody").groups.is_empty()
    with pytest.raises(UsageError, match="one field at a time"):
        site.breakdown("user,account")


def test_the_history_of_one_job(site: forewarn.Site, tmp_path: Path) -> None:
    running = sacct_line("7", state="RUNNING", end="Unknown")
    site.ingest(f"sacct:{write_sacct(tmp_path / 'early.txt', running)}")
    site.ingest(f"sacct:{write_sacct(tmp_path / 'late.txt', sacct_line('7', state='FAILED', code='1:0'))}")
    first, second = site.job_history("7")
    assert first.changed["state"] == "RUNNING"
    assert first.changed["user"] == "alice"
    assert second.changed["outcome"] == "failed"
    assert "user" not in second.changed
    assert site.job_history("7", cluster="alps") == [first, second]
    with pytest.raises(UsageError, match="no job 8"):
        site.job_history("8")


def test_a_closed_site_says_so(site: forewarn.Site, history: str) -> None:
    with site:
        site.ingest(history)
    with pytest.raises(UsageError, match="this site is closed"):
        site.jobs()


def test_threads_ask_while_history_arrives(site: forewarn.Site, tmp_path: Path) -> None:
    """Each answer is whole: all rows of a file or none."""
    files = [
        write_swf(tmp_path / f"{n}.swf", *(swf_line(100 * n + k, submit=1000 * n + k) for k in range(50)))
        for n in range(8)
    ]
    site.ingest(f"swf:{files[0]}")
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(lambda: (site.count(user="1"), len(site.jobs(user="1")))) for _ in range(40)]
        for file in files[1:]:
            site.ingest(f"swf:{file}")
    for counted, listed in (answer.result() for answer in asked):
        assert counted % 50 == 0
        assert listed % 50 == 0
        assert counted <= listed
    assert site.count() == 400


def test_two_threads_open_one_store(tmp_path: Path, history: str) -> None:
    forewarn.open(tmp_path / "home", cluster="alps").ingest(history)
    for _ in range(5):
        with forewarn.open(tmp_path / "home") as site, ThreadPoolExecutor(8) as pool:
            stores = list(pool.map(lambda _: site._workspace.reading(), range(16)))
            assert len({id(store) for store in stores}) == 1


def test_a_simulated_cluster_is_read_at_once(site: forewarn.Site) -> None:
    simulated = site.simulate("small", jobs=300, seed=3)
    assert simulated.summary.path.parent == site.config.home / "simulated"
    site.ingest(*simulated.sources)
    assert site.count() == 300
    frame = site.features("small")
    assert frame.height == 300
    assert {"partition", "qos", "user_last", "hour"} <= set(frame.columns)
    # Nothing of later: one job was moved to another partition while it waited.
    now = site.job_frame(["job_id", "partition"]).join(frame.select("job_id", then="partition"), on="job_id")
    assert now.filter(pl.col("partition") != pl.col("then")).rows() == [("1221", "long", "main")]
    restricted = site.features("small", phase="start", feature_set="restricted")
    assert restricted.height <= 300
    assert "user_last" not in restricted.columns
    assert frame["submit"].is_sorted()
    with pytest.raises(UsageError, match="no cluster 'daint'"):
        site.features("daint")


@pytest.mark.slow
def test_health_is_that_of_the_moment_asked_for(site: forewarn.Site, tmp_path: Path) -> None:
    simulated = site.simulate("small", jobs=300, machine=tmp_path)
    site.ingest(*simulated.sources, cluster="small")
    found = site.health(at="last", cluster="small")
    assert len(found.nodes) == 24
    assert found.exit_code == max(node.health.exit_code for node in found.nodes)
    assert (found.exclude is None) == (not found.sick)
    two = site.health("n[001-002]", at=found.at, cluster="small").nodes
    assert {node.node for node in two} == {"n001", "n002"}
    with pytest.raises(UsageError, match="no such node: x1"):
        site.health("x1", at=found.at, cluster="small")
    with pytest.raises(UsageError, match="its current state is unknown"):
        site.health(cluster="small")


def test_wrong_words_for_a_training_are_refused_at_once(site: forewarn.Site, history: str) -> None:
    site.ingest(history)
    with pytest.raises(UsageError, match="'trees'"):
        site.train("alps", families=["trees"])
    with pytest.raises(UsageError, match="'trialz'"):
        site.train("alps", trialz=3)
    with pytest.raises(UsageError, match="'theirs'"):
        site.train("alps", population="theirs")
    with pytest.raises(UsageError, match="no cluster 'daint'"):
        site.train("daint")
    with pytest.raises(UsageError, match=r"CLUSTER\.PHASE\.FEATURES"):
        site.model("alps")


def test_a_schema_of_nothing_is_that_of_jobs(site: forewarn.Site, history: str) -> None:
    site.ingest(history)
    assert site.job_frame(["submit"], user="nobody").schema == {"submit": pl.Int64}
