"""The Python interface: a site, with one method for each thing that Forewarn can do.

Each method calls a function of this package, which decides all. Heavy modules are imported by the methods
that need them, so that opening a site is fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

from forewarn.config import Config, all_settings, resolve
from forewarn.errors import UsageError
from forewarn.job.phase import PHASES, Phase
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowProgress, no_progress

if TYPE_CHECKING:
    import polars as pl

    from forewarn.assess.assessment import Assessment
    from forewarn.assess.post_mortem.report import PostMortem
    from forewarn.assess.retry.verdict import RetryVerdict
    from forewarn.job.moments import Moment
    from forewarn.job.record import Job
    from forewarn.learn.registry.registry import SyncResult
    from forewarn.learn.registry.versions import Version
    from forewarn.operate.bench import BenchmarkResult
    from forewarn.operate.breakdown import Breakdown
    from forewarn.operate.collector import Collector
    from forewarn.operate.compare import ComparisonResult
    from forewarn.operate.evaluate import EvaluationResult
    from forewarn.operate.health_result import HealthResult
    from forewarn.operate.ingest import IngestResult
    from forewarn.operate.job_history import JobChange
    from forewarn.operate.job_list import JobListFilters, JobListPage
    from forewarn.operate.job_page import JobPage
    from forewarn.operate.live_result import LiveResult
    from forewarn.operate.model import Model
    from forewarn.operate.models import ModelDetails, ModelList, Promotion
    from forewarn.operate.profiles import ProfilesResult
    from forewarn.operate.queries import JobFilters, JobSummary
    from forewarn.operate.served_models import ServedModelList
    from forewarn.operate.simulate import SimulationResult
    from forewarn.operate.thresholds import ThresholdChange, ThresholdSetting
    from forewarn.operate.train import TrainingResult
    from forewarn.operate.trends import Trend
    from forewarn.operate.upkeep.backup import BackupResult
    from forewarn.operate.upkeep.erase import ErasureResult
    from forewarn.operate.upkeep.info import StoreInfo
    from forewarn.operate.upkeep.prune import PruneResult


def open_site(home: str | Path | None = None, **overrides: Any) -> Site:
    """Open a site by its home folder, with settings that override environment and config file.

    Parameters
    ----------
    home
        The folder with all state; None: FOREWARN_HOME, else ``~/.local/share/forewarn``.
    overrides
        Settings by their names in `Config`: cluster, timezone, policy, slurmrestd, …
    """
    if unknown := set(overrides).difference(all_settings()):
        raise UsageError(f"no setting {sorted(unknown)[0]!r}; choose from {', '.join(all_settings())}")
    return Site(resolve({"home": home, **overrides}).config)


class Site:
    """A home with the history of one or more clusters and their models. Open one with `forewarn.open`.

    Any number of threads may use it at once. Close it, or use it in a ``with`` block.
    """

    def __init__(self, config: Config, workspace: Workspace | None = None) -> None:
        """Create a site; a service lends its workspace, which it closes itself."""
        self._workspace = workspace or Workspace(config, long_lived=True)

    @property
    def config(self) -> Config:
        """The settings in force."""
        return self._workspace.config

    def close(self) -> None:
        """Close the store and all files."""
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
        watch: ShowProgress = no_progress,
    ) -> IngestResult:
        """Read sources like ``sacct:history.txt`` into the store: see `operate.ingest.ingest_sources`."""
        from forewarn.operate.ingest import ingest_sources

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
        watch: ShowProgress = no_progress,
    ) -> SimulationResult:
        """Simulate a history whose failures have known causes; `ingest(*result.sources)` reads it."""
        from forewarn.operate.simulate import simulate

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

        Filters are user, account, partition, state, job_id and cluster (one value, several, or a list such as
        "alice,bob"), and the time of submission, from `since` on and before `until`: "now-7days",
        "2024-05-01", Unix seconds or a datetime.
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
        """List jobs as a frame, filtered as in `jobs`, with these columns, or with all and `known_at`."""
        from forewarn.operate.queries import query_of

        store = self._workspace.reading()
        return query_of(store, **which).frame(store, columns, limit)

    def count(self, **which: Unpack[JobFilters]) -> int:
        """Count jobs, filtered as in `jobs`."""
        from forewarn.operate.queries import query_of

        store = self._workspace.reading()
        return query_of(store, **which).count(store)

    def summary(self, **which: Unpack[JobFilters]) -> JobSummary:
        """Count jobs by outcome, filtered as in `jobs`."""
        from forewarn.operate.queries import query_of, summarise

        store = self._workspace.reading()
        return summarise(store, query_of(store, **which))

    def breakdown(self, by: str, **which: Unpack[JobFilters]) -> Breakdown:
        """Count jobs and failures by a field, or by day, week or month, filtered as in `jobs`."""
        from forewarn.operate.breakdown import break_down
        from forewarn.operate.queries import query_of

        store = self._workspace.reading()
        return break_down(store, query_of(store, **which), by, self.config.policy)

    def job_history(self, job_id: str, *, cluster: str | None = None) -> list[JobChange]:
        """List the observations of one job: what changed, and when."""
        from forewarn.operate.job_history import job_history

        return job_history(self._workspace.reading(), job_id, (cluster,) if cluster else ())

    def job_list(
        self,
        *,
        order: str = "hours_at_risk",
        descending: bool | None = None,
        limit: int = 100,
        after: str | None = None,
        **which: Unpack[JobListFilters],
    ) -> JobListPage:
        """List live and recent jobs with their newest assessment, page by page: see `JobList.page`."""
        return self._workspace.job_list().page(
            order=order, descending=descending, limit=limit, after=after, **which
        )

    def job(self, job_id: str, *, cluster: str | None = None, submit: int | None = None) -> JobPage:
        """Read one job: record, observations, assessments over time, and whether they were right."""
        from forewarn.operate.job_page import job_page

        store, policy = self._workspace.reading(), self.config.policy
        return job_page(store, job_id, policy=policy, cluster=cluster, submit=submit)

    def trend(self, by: str | None = None, *, every: str = "week", **which: Unpack[JobFilters]) -> Trend:
        """Compute failure rates and wasted hours over time: see `Trends.trend`."""
        return self._workspace.trends().trend(by, every=every, **which)

    def features(
        self,
        cluster: str | None = None,
        *,
        phase: str = Phase.SUBMIT,
        feature_set: str = "generic",
        watch: ShowProgress = no_progress,
    ) -> pl.DataFrame:
        """Compute the features of each job at its submit or start, as `Model` needs them: one row per job."""
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

    # --- answers --------------------------------------------------------------------------------------

    def check(
        self,
        script: str | Path,
        *,
        user: str | None = None,
        cluster: str | None = None,
        at: Moment | None = None,
        options: Sequence[str] = (),
        ask_slurm: bool = True,
    ) -> Assessment:
        """Check a script before it is submitted: see `operate.check_scripts.check_scripts`."""
        from forewarn.operate.check_scripts import check_scripts

        result = check_scripts(
            self._workspace, script, user=user, cluster=cluster, at=at, options=options, ask_slurm=ask_slurm
        )
        return result.checked[0].assessment

    @overload
    def assess(self, jobs: Job, *, full: bool = True, at: Moment | None = None) -> Assessment: ...

    @overload
    def assess(
        self, jobs: Iterable[Job], *, full: bool = False, at: Moment | None = None
    ) -> list[Assessment]: ...

    def assess(
        self, jobs: Job | Iterable[Job], *, full: bool | None = None, at: Moment | None = None
    ) -> Assessment | list[Assessment]:
        """Assess a job, or many in the given order; a job that has ended as if it were submitted again now.

        One job is assessed in full, with reasons, similar jobs and advice; many in brief, unless `full`.
        """
        from forewarn.job.moments import unix_seconds
        from forewarn.job.record import Job
        from forewarn.operate.assess_jobs import assess_jobs

        unix_time = None if at is None else unix_seconds(at)
        if isinstance(jobs, Job):
            (assessment,) = assess_jobs(self._workspace, [jobs], full=full is not False, at=unix_time)
            return assessment
        return assess_jobs(self._workspace, jobs, full=bool(full), at=unix_time)

    def predict(
        self, *job_ids: str, pending: bool = False, running: bool = False, user: str | None = None
    ) -> LiveResult:
        """Assess pending and running jobs of the configured Slurm in brief: these ids, or all that match."""
        from forewarn.operate.live_jobs import assess_live_jobs

        return assess_live_jobs(self._workspace, job_ids, pending=pending, running=running, user=user)

    def advise(self, *job_ids: str) -> LiveResult:
        """Assess pending and running jobs of the configured Slurm in full, with advice as commands to run."""
        from forewarn.operate.live_jobs import assess_live_jobs

        return assess_live_jobs(self._workspace, job_ids, full=True)

    def explain(
        self, job_id: str, *, cluster: str | None = None, log: str | Path | None = None
    ) -> PostMortem:
        """Explain why a job failed or is pending, from its record, its nodes and its output."""
        from forewarn.operate.explain import explain_job

        output = None if log is None else Path(log)
        return explain_job(self._workspace, job_id, cluster=cluster, log=output).report

    def retry(
        self, job_id: str, *, cluster: str | None = None, log: str | Path | None = None
    ) -> RetryVerdict:
        """Judge whether and how to submit an ended job again: what to change, the chance, the evidence."""
        from forewarn.operate.retry import retry_job

        output = None if log is None else Path(log)
        return retry_job(self._workspace, job_id, cluster=cluster, log=output)

    def retry_of(self, job: Job, *, at: Moment | None = None) -> RetryVerdict:
        """Judge whether and how to submit a job again by its record, as `retry` does by its id."""
        from forewarn.job.moments import unix_seconds
        from forewarn.operate.retry import retry_of

        return retry_of(self._workspace, job, at=None if at is None else unix_seconds(at))

    def collecting(
        self, *, since: Moment | None = None, assess: bool | None = None
    ) -> AbstractContextManager[Collector]:
        """Collect from the configured Slurm: ``with site.collecting() as collector: …``.

        `collector.once()` and `collector.forever(interval)` yield the counts of each round;
        `collector.stop()` ends them, from any thread.
        """
        from forewarn.job.moments import unix_seconds
        from forewarn.operate.collect import collecting

        begin = None if since is None else unix_seconds(since)
        return collecting(self.config, since=begin, assess=assess)

    def assessments(
        self,
        *,
        cluster: str | None = None,
        job_id: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
    ) -> list[Assessment]:
        """List the saved assessments of live jobs, oldest first."""
        from forewarn.operate.stored_assessments import read_assessments

        return read_assessments(
            self._workspace.reading(), cluster=cluster, job_id=job_id, since=since, until=until
        )

    # --- learning -----------------------------------------------------------------------------------

    def train(
        self,
        cluster: str | None = None,
        *,
        phase: str = Phase.SUBMIT,
        feature_set: str = "generic",
        families: Sequence[str] | None = None,
        trials: int = 20,
        source: str | None = None,
        population: str | None = None,
        watch: ShowProgress = no_progress,
        **more: Any,
    ) -> TrainingResult:
        """Search, calibrate, evaluate and register a model: see `operate.train.train` for `more`."""
        from forewarn.operate.train import train

        return train(
            self._workspace,
            cluster,
            source=source,
            phase=phase,
            population=population,
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
        watch: ShowProgress = no_progress,
    ) -> EvaluationResult:
        """Evaluate versions of a model on jobs that none of them was trained on."""
        from forewarn.operate.evaluate import evaluate

        return evaluate(self._workspace, model, *which, since=since, until=until, seed=seed, watch=watch)

    def bench(
        self,
        source: str | None = None,
        *,
        phases: Sequence[str] = PHASES,
        watch: ShowProgress = no_progress,
        **more: Any,
    ) -> BenchmarkResult:
        """Measure on one log how well failure can be predicted: see `operate.bench.bench` for `more`."""
        from forewarn.operate.bench import bench

        return bench(self._workspace, source, phases=phases, watch=watch, **more)

    def compare(
        self, source: str | None = None, *, watch: ShowProgress = no_progress, **more: Any
    ) -> ComparisonResult:
        """Compare ways to deal with class imbalance: see `operate.compare.compare` for `more`."""
        from forewarn.operate.compare import compare

        return compare(self._workspace, source, watch=watch, **more)

    def profiles(
        self, source: str | None = None, *, watch: ShowProgress = no_progress, **more: Any
    ) -> ProfilesResult:
        """Find the typical profiles of jobs: see `operate.profiles.find_profiles` for `more`."""
        from forewarn.operate.profiles import find_profiles

        return find_profiles(self._workspace, source, watch=watch, **more)

    # --- models -------------------------------------------------------------------------------------

    def models(self) -> ModelList:
        """List the registered models, the newest version first."""
        from forewarn.operate.models import list_models

        return list_models(self._workspace)

    def served_models(self, cluster: str | None = None) -> ServedModelList:
        """List the models that serve, with their figures on later jobs; needs no registry."""
        from forewarn.operate.served_models import list_served_models

        return list_served_models(self._workspace, cluster)

    def thresholds(self, cluster: str | None = None) -> tuple[ThresholdSetting, ...]:
        """List the threshold of each model that serves, and those that were set for partitions."""
        from forewarn.operate.thresholds import list_thresholds

        return list_thresholds(self._workspace, cluster)

    def set_threshold(
        self, model: str, value: float, *, partition: str | None = None, reason: str | None = None
    ) -> ThresholdChange:
        """Set the threshold of a model, for all partitions or one; with its effect on last month's alerts."""
        from forewarn.operate.thresholds import local_operator, set_threshold

        by = local_operator()
        return set_threshold(self._workspace, model, value, by=by, partition=partition, reason=reason)

    def reset_threshold(
        self, model: str, *, partition: str | None = None, reason: str | None = None
    ) -> ThresholdChange:
        """Remove a threshold that was set, so that the bundle's own is in force again."""
        from forewarn.operate.thresholds import local_operator, reset_threshold

        by = local_operator()
        return reset_threshold(self._workspace, model, by=by, partition=partition, reason=reason)

    def preview_threshold(self, model: str, value: float, *, partition: str | None = None) -> ThresholdChange:
        """Compute what a threshold would mean for the last month's alerts, without setting it."""
        from forewarn.operate.thresholds import preview_threshold

        return preview_threshold(self._workspace, model, value, partition=partition)

    def model(self, name: str, which: int | str = "champion") -> Model:
        """Return a model to predict with, such as "alps.submit.generic"; `which` is a number or an alias."""
        from forewarn.operate.models import load_model

        return load_model(self._workspace, name, which)

    def show_model(self, name: str, which: int | str = "champion") -> ModelDetails:
        """Read a version's training data, figures and bundle contents."""
        from forewarn.operate.models import show_model

        return show_model(self._workspace, name, which)

    def promote(self, name: str, which: int | str = "challenger") -> Promotion:
        """Make a version the champion, which serves from now on."""
        from forewarn.operate.models import promote

        return promote(self._workspace, name, which)

    def rollback(self, name: str) -> Version:
        """Make the previous champion the champion again; repeat it to go back further."""
        from forewarn.operate.models import rollback

        return rollback(self._workspace, name)

    def export_model(self, name: str, output: str | Path, which: int | str = "champion") -> Version:
        """Write a version's bundle as a folder, or as one file if the name ends in .tar.gz."""
        from forewarn.operate.models import export_model

        return export_model(self._workspace, name, Path(output), which)

    def import_model(self, path: str | Path) -> Version | None:
        """Register an exported bundle; return None if the registry cannot be reached."""
        from forewarn.operate.models import import_model

        return import_model(self._workspace, Path(path))

    def sync_models(self) -> SyncResult:
        """Register waiting bundles, and let the registry's champions serve in this home."""
        from forewarn.operate.models import sync_models

        return sync_models(self._workspace)

    # --- upkeep ---------------------------------------------------------------------------------------

    def store_info(self) -> StoreInfo:
        """Count what the home holds, with sizes and versions."""
        from forewarn.operate.upkeep.info import store_info

        return store_info(self._workspace)

    def prune(self, *, history_kept: int | None = None, dry_run: bool = False) -> PruneResult:
        """Delete what is older than the settings say; `history_kept`, in days, replaces that setting."""
        from forewarn.operate.upkeep.prune import prune

        return prune(self._workspace, history_kept=history_kept, dry_run=dry_run)

    def erase_user(self, user: str, *, future: bool = False, dry_run: bool = False) -> ErasureResult:
        """Erase a user; with `future`, also refuse jobs that the user submits later."""
        from forewarn.operate.upkeep.erase import erase_user

        return erase_user(self._workspace, user, future=future, dry_run=dry_run)

    def backup(self, target: str | Path) -> BackupResult:
        """Save the home into one file (.tar.gz), while others write to it."""
        from forewarn.operate.upkeep.backup import backup

        return backup(self.config, Path(target))
