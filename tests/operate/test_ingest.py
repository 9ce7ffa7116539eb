"""Files into the store: counts that add up, zones, and what the review of request fields keeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarn.config import Config, resolve
from forewarn.errors import BadRowError
from forewarn.features.kernel.layout import FEATURES
from forewarn.features.snapshot import SavedSnapshot, bring_up_to_date
from forewarn.job.outcomes import POLICIES
from forewarn.job.record import Job
from forewarn.operate.ingest_file import (
    IngestReport,
    apply_slurm_treatments,
    has_outdated_treatments,
    ingest,
    review_missing_fields,
    source_of,
)
from forewarn.sources.base import SourceOptions
from forewarn.store.base import ClusterFacts, Store
from forewarn.store.opening import open_store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(Config(home=tmp_path / "home"))
    yield store
    store.close()


def log(path: Path, *lines: str, zone: str | None = None) -> Path:
    header = ["; UnixStartTime: 0", f"; TimeZoneString: {zone}"] if zone else []
    path.write_text("\n".join([*header, *lines]) + "\n")
    return path


def line(number: int, *, submit: int = 0, cpus: int = 4, status: int = 1) -> str:
    return f"{number} {submit} 5 60 4 -1 -1 {cpus} 3600 -1 {status} 1 1 1 1 1 -1 -1"


def read(store: Store, path: Path, config: Config | None = None, **options: str) -> IngestReport:
    return ingest(store, source_of(f"swf:{path}", config or Config(), SourceOptions(**options)))  # type: ignore[arg-type]


def test_counts_add_up(store: Store, tmp_path: Path) -> None:
    path = log(tmp_path / "a.swf", line(1), "1 2 3", line(2, submit=9, status=0), line(1), line(2, submit=9))
    rejects = tmp_path / "rejects.jsonl"
    seen: list[int] = []
    report = ingest(
        store,
        source_of(f"swf:{path}", Config(), SourceOptions()),
        rejects=lambda: rejects,
        progress=seen.append,
    )
    assert (report.rows, report.new, report.same, report.bad) == (5, 2, 1, 2)
    assert seen[-1] == report.rows
    assert report.kinds == {"job": 3}
    assert report.outcomes == {"completed": 2, "failed": 1}
    assert (report.first_submit, report.last_submit) == (0, 9)
    assert report.rejects == rejects
    bad = [json.loads(text) for text in rejects.read_text().splitlines()]
    assert [(row["line"], row["field"]) for row in bad] == [(2, "line"), (5, "job_id")]
    assert store.count() == 2


@pytest.mark.parametrize(
    ("scheme", "text"),
    [
        (
            "swf",
            "1 0 5 100 4 -1 -1 4 3600 -1 1 1 1 1 1 1 -1 -1\n1 0 5 101 4 -1 -1 4 3600 -1 1 1 1 1 1 1 -1 -1\n",
        ),
        (
            "sacct",
            "JobID|Submit|Start|End|State\n"
            "61|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T00:02:00|NODE_FAIL\n"
            "61|2024-01-01T00:00:00|2024-01-01T00:04:00|2024-01-01T00:05:00|COMPLETED\n",
        ),
    ],
)
def test_two_ends_of_one_job_in_a_file(scheme: str, text: str, store: Store, tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(text)
    with pytest.raises(
        BadRowError, match=f":{len(text.splitlines())}: job_id: contradicts another row of this file"
    ):
        ingest(store, source_of(f"{scheme}:{path}", Config(), SourceOptions()))
    assert store.count() == 0


def test_the_first_bad_row_is_named_and_nothing_is_written(store: Store, tmp_path: Path) -> None:
    path = log(tmp_path / "a.swf", line(1), line(1, status=0), "1 2 3")
    with pytest.raises(BadRowError) as error:
        read(store, path)
    assert error.value.row.line == 2
    assert (store.count(), store.clusters()) == (0, {})


def test_a_configured_time_zone_wins_over_that_of_the_file(store: Store, tmp_path: Path) -> None:
    def zone() -> str:
        return store.clusters()["a"].timezone

    zurich = log(tmp_path / "a.swf", line(1), zone="Europe/Zurich")
    assert read(store, zurich).notes == []
    assert zone() == "Europe/Zurich"
    # Another file says something else: said, and left as it was.
    (tmp_path / "b").mkdir()
    tokyo = log(tmp_path / "b" / "a.swf", line(2), zone="Asia/Tokyo")
    (note,) = read(store, tokyo).notes
    assert "Asia/Tokyo" in note
    assert zone() == "Europe/Zurich"
    # The site says it: changed, and said.
    (note,) = read(store, tokyo, timezone="UTC").notes
    assert "it was Europe/Zurich" in note
    assert zone() == "UTC"
    # And so it stays.
    read(store, zurich)
    assert zone() == "UTC"


def test_the_cluster_s_table_says_how_its_status_is_read(store: Store, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('[clusters.ross]\nswf_status = "exit-code"\n')
    config = resolve({}, {"FOREWARN_CONFIG": str(tmp_path / "c.toml")}).config
    path = log(tmp_path / "ross.swf", line(1, status=0))
    assert read(store, path, config).outcomes == {"completed": 1}
    (tmp_path / "other").mkdir()
    assert read(store, log(tmp_path / "other.swf", line(1, status=0)), config).outcomes == {"failed": 1}


def test_a_field_whose_absence_tells_the_outcome_is_found_and_kept(store: Store, tmp_path: Path) -> None:
    good = [line(n, submit=n, cpus=8) for n in range(300)]
    telling = [line(n, submit=n, cpus=-1, status=0) for n in range(300, 400)]
    read(store, log(tmp_path / "a.swf", *good, *telling, zone="Europe/Zurich"))
    (finding,) = review_missing_fields(store, ["a"])
    assert (finding.field, finding.missing, finding.rate, finding.base) == ("cpus_asked", 100, 1.0, 0.0)
    facts = store.clusters()["a"]
    assert facts.fields["cpus_asked"] == {"fill": 8}
    assert facts.timezone == "Europe/Zurich"
    # The same review again has nothing to write, and an ingest keeps what it knows.
    assert review_missing_fields(store, ["a"]) == [finding]
    read(store, tmp_path / "a.swf")
    assert store.clusters()["a"] == facts


SACCT = (
    "JobID|User|Partition|QOS|Submit|Start|End|Timelimit|State|ReqCPUS|ReqMem|ReqTRES|SubmitLine",
    "7|ann|main|normal|1700000000|1700000010|1700000020|00:05:00|COMPLETED|4|120M|cpu=4,node=1|sbatch a",
    "8_[0-2]|ann|main|normal|1700000100|Unknown|Unknown|00:05:00|PENDING|4|120M|cpu=4,node=1|sbatch a",
)


def sacct(store: Store, path: Path, *lines: str) -> IngestReport:
    path.write_text("\n".join(lines) + "\n")
    return ingest(store, source_of(f"sacct:{path}", Config(), SourceOptions(cluster="c")))


def test_a_script_meets_the_history_of_a_file(store: Store, tmp_path: Path) -> None:
    """What a script has and accounting has not, or counts otherwise, is no part of the request."""
    sacct(store, tmp_path / "a.txt", *SACCT)
    policy = POLICIES["wasted"]
    bring_up_to_date(store, "c", policy)
    asked = Job(
        **{"cluster": "c", "job_id": "", "submit": 1_700_001_000, "user": "ann"},  # type: ignore[arg-type]
        **{"partition": "main", "qos": "normal", "time_limit": 300, "nodes_asked": 1},  # type: ignore[arg-type]
        **{"cpus_asked": 4, "tasks_asked": 4, "memory_asked": 30 << 20, "memory_per": "cpu"},  # type: ignore[arg-type]
    )
    row = SavedSnapshot(store, "c", asked.submit, policy).features([asked], "submit")[0]
    assert row[[feature.name for feature in FEATURES].index("user_request_ended")] == 1


def test_an_array_that_waits_is_its_tasks(store: Store, tmp_path: Path) -> None:
    """As they are known by when they end: else an array would wait for ever."""
    sacct(store, tmp_path / "a.txt", *SACCT)
    ended = (
        "8_{}|ann|main|normal|1700000100|1700000200|1700000210|00:05:00|FAILED|4|120M|cpu=4,mem=120M,node=1|x"
    )
    sacct(store, tmp_path / "b.txt", SACCT[0], *(ended.format(task) for task in range(3)))
    outcomes = {
        job: outcome
        for frame in store.scan(columns=["job_id", "outcome"])
        for job, outcome in frame.select("job_id", "outcome").iter_rows()
    }
    assert outcomes == {"7": "completed", "8_0": "failed", "8_1": "failed", "8_2": "failed"}


def test_a_task_that_has_just_started_is_itself(store: Store, tmp_path: Path) -> None:
    """For a moment sacct shows a task that runs, and the array that waits as if it still held that task."""
    runs = "8_0|ann|main|normal|1700000100|1700000150|Unknown|00:05:00|RUNNING|4|120M|cpu=4,node=1|sbatch a"
    sacct(store, tmp_path / "a.txt", SACCT[0], runs, SACCT[2])
    states = {
        job: state
        for frame in store.scan(columns=["job_id", "state"])
        for job, state in frame.select("job_id", "state").iter_rows()
    }
    assert states == {"8_0": "RUNNING", "8_1": "PENDING", "8_2": "PENDING"}


def test_what_an_older_version_read_is_found(store: Store, tmp_path: Path) -> None:
    """It described clusters of Slurm's files as any other."""
    sacct(store, tmp_path / "a.txt", *SACCT)
    read(store, log(tmp_path / "swf.swf", line(1)))
    assert not has_outdated_treatments(store, "c")
    facts = store.clusters()["c"]
    with store.writing() as writer:
        writer.describe_cluster("c", ClusterFacts())
    assert (has_outdated_treatments(store, "c"), has_outdated_treatments(store, "swf")) == (True, False)
    apply_slurm_treatments(store, "c")
    assert store.clusters()["c"] == facts
