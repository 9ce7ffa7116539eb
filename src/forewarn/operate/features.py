"""Compute the features of a cluster's jobs, as a Parquet file or as a frame for a model."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from forewarn.errors import UsageError
from forewarn.features.batch import read_inputs
from forewarn.features.inputs import treated
from forewarn.features.table import FeatureTableSummary, feature_frames, schema_of, write_features
from forewarn.job.outcomes import POLICIES
from forewarn.job.phase import Phase
from forewarn.learn.data.encoders import CATEGORIES
from forewarn.operate.workspace import Workspace
from forewarn.progress import ShowProgress, no_progress
from forewarn.store.base import Store

_KEY = ("cluster", "job_id", "submit")


def write_feature_table(
    workspace: Workspace,
    output: Path,
    cluster: str | None = None,
    *,
    phase: str = Phase.SUBMIT,
    feature_set: str = "generic",
    watch: ShowProgress = no_progress,
) -> FeatureTableSummary:
    """Write the features of one cluster's jobs, or of all, to a Parquet file."""
    if not output.parent.is_dir():
        raise UsageError(f"--output: {output}: folder {output.parent} does not exist")
    store = workspace.reading()
    if cluster is not None and cluster not in (clusters := store.clusters()):
        raise UsageError(f"--cluster: no cluster {cluster!r} in the store; choose from {', '.join(clusters)}")
    with watch(f"features at {phase}") as progress:
        return write_features(
            store,
            output,
            cluster=cluster,
            phase=phase,
            feature_set=feature_set,
            policy=POLICIES[workspace.config.policy],
            progress=progress,
        )


def feature_frame(
    workspace: Workspace,
    cluster: str | None = None,
    *,
    phase: str = Phase.SUBMIT,
    feature_set: str = "generic",
    watch: ShowProgress = no_progress,
) -> pl.DataFrame:
    """Compute the features of a cluster's jobs: one row per job, in the order of their submit or start.

    Further columns are cluster, job_id, submit, and the categories that a model uses (partition, qos, …). In
    phase ``start``, jobs that never started have no row.
    """
    schema = schema_of(phase, feature_set)
    store, name = workspace.reading(), workspace.cluster(cluster)
    inputs = read_inputs(store, name, POLICIES[workspace.config.policy], phase=phase)
    with watch(f"features at {phase}") as progress:
        frames = list(feature_frames(inputs, phase, feature_set, progress))
    features = pl.concat([pl.DataFrame(schema=schema), *frames])
    categories = _categories(store, name, CATEGORIES[feature_set])
    return features.join(categories, on=_KEY, how="left", maintain_order="left")


def _categories(store: Store, cluster: str, names: tuple[str, ...]) -> pl.DataFrame:
    """Read the categories as they were at each job's submit, with the cluster's field treatments applied."""
    facts = store.clusters()[cluster]
    frames = store.scan("job", view="submit", cluster=cluster, columns=[*_KEY, *names])
    return pl.concat([treated(frame, facts).select(*_KEY, *names) for frame in frames])
