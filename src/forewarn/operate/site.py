"""The face for Python: one site, and all that can be asked of it.

Each method hands on to a function of this room; nothing is decided here. Heavy parts are imported by the
methods that need them, so that opening a site is quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from forewarn.config import Config, resolve, settings
from forewarn.errors import UsageError
from forewarn.operate.workspace import Workspace
from forewarn.progress import Watch, unwatched

if TYPE_CHECKING:
    import polars as pl

    from forewarn.job.moments import Moment
    from forewarn.job.record import Job
    from forewarn.learn.registry import Synced
    from forewarn.learn.versions import Version
    from forewarn.operate.benchmarking import BenchmarkResult
    from forewarn.operate.breakdown import Breakdown
    from forewarn.operate.comparison import ComparisonResult
    from forewarn.operate.evaluation import EvaluationResult
    from forewarn.operate.ingestion import IngestResult
    from forewarn.operate.job_history import JobChange
    from forewarn.operate.model import Model
    from forewarn.operate.models import ModelDetails, ModelList, Promotion
    from forewarn.operate.nodes import HealthResult
    from forewarn.operate.profiling import ProfilesResult
    from forewarn.operate.queries import JobFilters, JobSummary
    from forewarn.operate.simulation import Simulated
    from forewarn.operate.training import TrainingResult


def open_site(home: str | Path | None = None, **given: Any) -> Site:
    """Open a site: its home folder, and settings over those of environment and file.

    Parameters
    ----------
    home
        The folder that holds all state; None: FOREWARN_HOME, else ``~/.local/share/forewarn``.
    given
        Settings by their names in `Config`: cluster, timezone, policy, slurmrestd, …
    """
    if unknown := set(given).difference(settings(Config)):
        raise UsageError(f"no setting {sorted(unknown)[0]!r}; there are {', '.join(settings(Config))}")
    return Site(resolve({"home": home, **given}).config)


class Site:
    """A cluster's home: its history, its models, and what they tell. Make one with `forewarn.open`.

    Any number of threads may use it at once. Close it, or use it in a ``with`` block.
    """

    def __init__(self, config: Config) -> None:
        self._workspace = Workspace(config)

    @property
    def config(self) -> Config:
        """The settings in force."""
        return self._workspace.config

    def close(self) -> None:
        """Let go of all files."""
        self._workspace.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Site {self.config.home}>"

    # --- history ------------------------------------------------------------------------------------

    def ingest(
        self,
        *sources: str,
        cluster: str | None = None,
        timezone: str | None = None,
        fields: Sequence[str] | None = None,
        status: str | None = None,
        skip_bad: bool = False,
        rejects: str | Path | None = None,
        watch: Watch = unwatched,
    ) -> IngestResult:
        """Read sources like ``sacct:history.txt`` into the store: see `ingestion.ingest_sources`."""
        from forewarn.operate.ingestion import ingest_sources

        return ingest_sources(
            self._workspace,
            *sources,
            cluster=cluster,
            timezone=timezone,
            fields=fields,
            status=status,
            skip_bad=skip_bad,
            rejects=None if rejects is None else Path(rejects),
            watch=watch,
        )

    def simulate(
        self,
        scenario: str = "default",
        *,
        jobs: int | None = None,
        seed: int = 1,
        output: str | Path | None = None,
        form: str = "parquet",
        machine: str | Path | None = None,
        watch: Watch = unwatched,
    ) -> Simulated:
        """Make up a history whose failures have known causes; `ingest(*result.sources)` reads it."""
        from forewarn.operate.simulation import simulate

        return simulate(
            self.config,
            scenario=scenario,
            jobs=jobs,
            seed=seed,
            output=None if output is None else Path(output),
            form=form,
            machine=None if machine is None else Path(machine),
            watch=watch,
        )

    def jobs(self, *, limit: int | None = None, **which: Unpack[JobFilters]) -> list[Job]:
        """List jobs, oldest first: all, or the newest `limit`.

        Of a user, account, partition, state, job_id or cluster (one, several, or a list as "alice,bob"),
        submitted from `since` on, before `until`: "now-7days", "2024-05-01", Unix seconds or a datetime.
        """
        from forewarn.job.columns import JOB_SCHEMA, to_records
        from forewarn.job.record import Job

        return list(to_records(self.job_frame([*JOB_SCHEMA], limit=limit, **which), Job))

    def job_frame(
        self,
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
        **which: Unpack[JobFilters],
    ) -> pl.DataFrame:
        """List jobs as a frame, chosen as in `jobs`: these columns, or all of a job and `known_at`."""
        from forewarn.operate.queries import query_of

        store = self._workspace.reading()
        return query_of(store, **which).frame(store, columns, limit)

    def count(self, **which: Unpack[JobFilters]) -> int:
        """Count jobs, chosen as in `jobs`."""
        from forewarn.operate.queries import query_of

        store = self._workspace.reading()
        return query_of(store, **which).count(store)

    def summary(self, **which: Unpack[JobFilters]) -> JobSummary:
        """Count jobs, chosen as in `jobs`, by how they ended."""
        from forewarn.operate.queries import query_of, summarise

        store = self._workspace.reading()
        return summarise(store, query_of(store, **which))

    def breakdown(self, by: str, **which: Unpack[JobFilters]) -> Breakdown:
        """Count jobs and failures, chosen as in `jobs`, by a field, or by day, week or month."""
        from forewarn.operate.breakdown import break_down
        from forewarn.operate.queries import query_of

        store = self._workspace.reading()
        return break_down(store, query_of(store, **which), by, self.config.policy)

    def job_history(self, job_id: str, *, cluster: str | None = None) -> list[JobChange]:
        """List what was seen of one job, and when."""
        from forewarn.operate.job_history import job_history

        return job_history(self._workspace.reading(), job_id, (cluster,) if cluster else ())

    def features(
        self,
        cluster: str | None = None,
        *,
        phase: str = "submit",
        feature_set: str = "generic",
        watch: Watch = unwatched,
    ) -> pl.DataFrame:
        """Compute what was knowable of each job at a moment, as `Model` takes it: one row a job."""
        from forewarn.operate.features import feature_frame

        return feature_frame(self._workspace, cluster, phase=phase, feature_set=feature_set, watch=watch)

    def health(
        self,
        *nodes: str,
        cluster: str | None = None,
        partition: str | None = None,
        at: Moment | None = None,
    ) -> HealthResult:
        """Judge which nodes are sick or suspect; `at` is a moment, or "last": that of the newest record."""
        from forewarn.operate.nodes import judge_nodes

        return judge_nodes(self._workspace, *nodes, cluster=cluster, partition=partition, at=at)

    # --- learning -----------------------------------------------------------------------------------

    def train(
        self,
        cluster: str | None = None,
        *,
        phase: str = "submit",
        feature_set: str = "generic",
        families: Sequence[str] | None = None,
        trials: int = 20,
        source: str | None = None,
        policy: str | None = None,
        watch: Watch = unwatched,
        **more: Any,
    ) -> TrainingResult:
        """Search, calibrate, judge and register a model: see `training.train` for `more`."""
        from forewarn.operate.training import train

        return train(
            self._workspace,
            cluster,
            source=source,
            phase=phase,
            policy=policy,
            watch=watch,
            feature_set=feature_set,
            families=families,
            trials=trials,
            **more,
        )

    def evaluate(
        self,
        model: str,
        *which: int | str,
        since: Moment | None = None,
        until: Moment | None = None,
        seed: int = 0,
        watch: Watch = unwatched,
    ) -> EvaluationResult:
        """Judge versions of a model on jobs that none of them has learnt from."""
        from forewarn.operate.evaluation import evaluate

        return evaluate(self._workspace, model, *which, since=since, until=until, seed=seed, watch=watch)

    def bench(
        self,
        source: str | None = None,
        *,
        phases: Sequence[str] = ("submit", "start"),
        watch: Watch = unwatched,
        **more: Any,
    ) -> BenchmarkResult:
        """Measure on one log how well failure can be predicted: see `benchmarking.bench` for `more`."""
        from forewarn.operate.benchmarking import bench

        return bench(self._workspace, source, phases=phases, watch=watch, **more)

    def compare(
        self, source: str | None = None, *, watch: Watch = unwatched, **more: Any
    ) -> ComparisonResult:
        """Compare the ways to deal with few failures: see `comparison.compare` for `more`."""
        from forewarn.operate.comparison import compare

        return compare(self._workspace, source, watch=watch, **more)

    def profiles(self, source: str | None = None, *, watch: Watch = unwatched, **more: Any) -> ProfilesResult:
        """Find the few kinds of jobs that there are: see `profiling.find_profiles` for `more`."""
        from forewarn.operate.profiling import find_profiles

        return find_profiles(self._workspace, source, watch=watch, **more)

    # --- models -------------------------------------------------------------------------------------

    def models(self) -> ModelList:
        """List the registered models, the newest version first."""
        from forewarn.operate.models import list_models

        return list_models(self._workspace)

    def model(self, name: str, which: int | str = "champion") -> Model:
        """Give a model to predict with, such as "alps.submit.generic"; `which` is a number or an alias."""
        from forewarn.operate.models import load_model

        return load_model(self._workspace, name, which)

    def show_model(self, name: str, which: int | str = "champion") -> ModelDetails:
        """Read what a version learnt from, how good it was, and what is in its bundle."""
        from forewarn.operate.models import show_model

        return show_model(self._workspace, name, which)

    def promote(self, name: str, which: int | str = "challenger") -> Promotion:
        """Make a version the champion: it serves from now on."""
        from forewarn.operate.models import promote

        return promote(self._workspace, name, which)

    def rollback(self, name: str) -> Version:
        """Make the champion before this one the champion again."""
        from forewarn.operate.models import rollback

        return rollback(self._workspace, name)

    def export_model(self, name: str, output: str | Path, which: int | str = "champion") -> Version:
        """Write a version's bundle as a folder, or as one file that ends in .tar.gz."""
        from forewarn.operate.models import export_model

        return export_model(self._workspace, name, Path(output), which)

    def import_model(self, path: str | Path) -> Version | None:
        """Register a bundle that was exported; None where the registry cannot be reached."""
        from forewarn.operate.models import import_model

        return import_model(self._workspace, Path(path))

    def sync_models(self) -> Synced:
        """Register what waits, and let the registry's champions serve here."""
        from forewarn.operate.models import sync_models

        return sync_models(self._workspace)
