"""While a long history is read, jobs are not assessed yet, but promoted models serve."""

from __future__ import annotations

from pathlib import Path

from forewarn.config import Config
from forewarn.operate.collector import Collector
from forewarn.operate.collector_round import RoundAssessments
from forewarn.store.opening import open_store
from tests.operate.fake_scheduler import FakeScheduler
from tests.operate.test_collect import ENDED, SINCE
from tests.sources.fake_slurmrestd import FakeTime


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
