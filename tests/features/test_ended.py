"""How many jobs have ended is how many the policy counts: not those in flight, nor those left out."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from forewarn.config import Config
from forewarn.features.labels import fails
from forewarn.features.online import OnlineFeatures
from forewarn.features.snapshot import SavedSnapshot
from forewarn.job.outcomes import POLICIES
from forewarn.store.opening import open_store
from tests.features.histories import history


@pytest.mark.parametrize("name", POLICIES)
def test_jobs_that_ended(tmp_path: Path, name: str) -> None:
    frame, policy = history(400), POLICIES[name]
    with open_store(Config(home=tmp_path / "home")) as store:
        with store.writing() as writer:
            writer.observe("job", frame.drop("known_at"))
        with store.writing() as writer:
            OnlineFeatures.from_history(store, "c", policy).save(writer)
        ended = frame.select(fails(policy).is_not_null().sum()).item()
        assert 0 < ended < frame.filter(pl.col("outcome") != "unknown").height + (name == "papers")
        assert ended < store.count(cluster="c")
        at = int(frame["submit"].to_numpy().max()) + 10**6
        assert SavedSnapshot(store, "c", at, policy).ended == ended
