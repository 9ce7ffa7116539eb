"""While a long history is read, live jobs are looked at, though not assessed yet; promoted models serve."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl

from forewarn.config import Config
from forewarn.operate.collector import LONG, Collector
from forewarn.operate.collector_round import RoundAssessments
from forewarn.sources.slurm.scheduler import HistoryPart
from forewarn.store.opening import open_store
from tests.operate.fake_scheduler import FakeScheduler, job
from tests.operate.test_collect import ENDED, HOUR, SINCE
from tests.sources.fake_slurmrestd import NOW, FakeTime


class CalledAssessor:
    """A live assessor that lists its calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def assess_round(self, at: int) -> RoundAssessments:
        """Assess nothing."""
        self.calls.append("assess")
        return RoundAssessments()

    def follow_models(self) -> None:
        """Follow nothing."""
        self.calls.append("models")


def test_models_are_followed_in_every_round(tmp_path: Path) -> None:
    slurm, assessor = FakeScheduler(FakeTime(), ended=list(ENDED)), CalledAssessor()
    with open_store(Config(home=tmp_path)) as store:
        collector = Collector(
            store, slurm, since=SINCE, clock=slurm.time.clock, most_jobs=10, live_assessor=assessor
        )
        rounds = list(collector.once())
    assert [one.behind for one in rounds] == [True, True, True, False]
    assert assessor.calls == ["models", "models", "models", "assess"]


class SlowHistory(FakeScheduler):
    """A cluster whose accounting takes ten seconds for each part; a job is submitted meanwhile."""

    def history(self, since: int, until: int | None = None, *, steps: bool = True) -> Iterator[HistoryPart]:
        for part in super().history(since, until, steps=steps):
            self.time.now += 10
            if len(self.live) < 2 and self.time.now >= NOW + 20:
                self.live.append(job(1001, int(self.time.now)))
            yield part


def test_live_jobs_are_looked_at_between_parts_of_a_slow_history(tmp_path: Path) -> None:
    """A round ends after half a minute of it; nothing is lost by that, and nothing is read twice."""
    slurm = SlowHistory(FakeTime(), ended=list(ENDED), live=[job(1000, NOW - 60)])
    known: list[set[str]] = []
    with open_store(Config(home=tmp_path)) as store:
        for this_round in Collector(store, slurm, since=SINCE, clock=slurm.time.clock).once():
            assert not this_round.behind or this_round.seconds <= LONG + 20  # and a part
            jobs = {key for frame in store.scan(columns=["job_id"]) for (key,) in frame.iter_rows()}
            known.append(jobs & {"1000", "1001"})
        ended = store.observations("job", {"cluster": "c"}).filter(pl.col("outcome").is_not_null())
    assert len(known) >= 3
    assert known[0] == {"1000"}
    assert known[1] == {"1000", "1001"}  # long before the history is read
    assert sorted(ended["job_id"]) == sorted(row["job_id"] for row in ENDED)
    assert set(slurm.given.values()) == {1}
    assert slurm.calls.count("jobs") == len(known)


def test_a_slow_database_is_read_to_the_end(tmp_path: Path) -> None:
    """Near the present no round ends early: it would begin again at the same place for ever."""
    slurm = SlowHistory(FakeTime(), ended=list(ENDED), window=60, piece=1)
    with open_store(Config(home=tmp_path)) as store:
        rounds = list(Collector(store, slurm, since=SINCE, clock=slurm.time.clock).once())
        later = Collector(store, slurm, clock=slurm.time.clock)
        slurm.time.now += HOUR
        slurm.ended += [job(2000 + n, NOW, end=int(slurm.time.now) - 60 * n) for n in range(20)]
        (last,) = later.once()
    assert not rounds[-1].behind
    assert last.seconds > LONG
    assert (last.behind, last.new_jobs) == (False, 20)
