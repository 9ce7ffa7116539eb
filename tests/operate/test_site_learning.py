"""The methods of a site that train and evaluate models, on a simulated cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

import forewarn
from forewarn.errors import UsageError

JOBS = 5000  # about the fewest from which a model can be trained


@pytest.mark.slow
def test_a_model_is_trained_evaluated_and_compared(
    registry_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One test, as the simulation and the training take most of the time."""
    for name in ("HOME", "CONFIG", "POLICY", "CLUSTER", "TIMEZONE", "TRACKING", "MODEL"):
        monkeypatch.delenv(f"FOREWARN_{name}", raising=False)
    with forewarn.open(registry_home) as site:
        simulated = site.simulate("small", jobs=JOBS)
        site.ingest(*simulated.sources)
        training = site.train("small", families=["online"])
        assert (str(training.name), training.version, training.aliases) == (
            "small.submit.generic",
            1,
            ("champion",),
        )
        assert training.report.exists()
        assert [member.family for member in training.members] == ["online"]
        with pytest.raises(UsageError, match="the model was trained on jobs submitted before"):
            site.evaluate("small.submit.generic", since="2000-01-01")

        profiles = site.profiles(cluster="small")
        assert (profiles.cluster, profiles.population) == ("small", "wasted")
        assert len(profiles.description["profiles"]) > 1

        benchmark = site.bench(cluster="small", phases=["submit"], families=["online"])
        assert (benchmark.log, benchmark.population, list(benchmark.phases)) == (
            "small",
            "papers",
            ["submit"],
        )
        assert 0 < benchmark.phases["submit"]["roc_auc"] < 1

        comparison = site.compare(cluster="small")
        assert (comparison.log, comparison.phase, comparison.family) == ("small", "submit", "xgboost")
        assert len(comparison.ways) > 2
        assert 0 < comparison.failed < comparison.jobs

        later = site.simulate("small", jobs=3 * JOBS, output=registry_home / "later.parquet")
        site.ingest(*later.sources)
        evaluation = site.evaluate("small.submit.generic", 1)
        assert evaluation.lead is None, "one version has nothing to compare with"
        (only,) = evaluation.versions
        assert (only.version.version, evaluation.jobs > 1000) == (1, True)
        assert evaluation.since == training.model._bundle.facts.learnt_until
