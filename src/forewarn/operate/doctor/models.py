"""Checks of the registry and of the models that serve."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from forewarn.config import Config
from forewarn.errors import BundleError, ForewarnError, MissingExtraError
from forewarn.formatting import count, rough_duration
from forewarn.learn.registry.manifest import Manifest
from forewarn.learn.registry.registry import Registry
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.learn.registry.tracking import without_password
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sources.slurm.clock import Clock

OLD = 30 * 86400  # seconds after which a model should have learnt from newer jobs


def registry(config: Config) -> Iterator[DoctorFinding]:
    """Check that MLflow answers, where a server is configured, or that its database in the home is whole."""
    registered = Registry(config.home, config.tracking)
    if config.tracking is not None:
        place = without_password(config.tracking)
        try:
            versions = registered.versions()
        except MissingExtraError as error:
            message = f"{place}: not checked. Serving needs no registry; training does: {error}"
            yield DoctorFinding("registry", Severity.WARNING, message)
        except ForewarnError as error:
            message = f"{error}. Models that serve continue to; new ones wait until it answers"
            yield DoctorFinding("registry", Severity.PROBLEM, message)
        else:
            message = f"{place}: answers, {count(len(versions), 'version')} of models"
            yield DoctorFinding("registry", Severity.FINE, message)
    elif (database := config.home / "models/mlflow.db").exists():
        try:
            # Read-only, and without MLflow, which takes seconds to import.
            with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.Error as error:
            verdict = str(error)
        if verdict == "ok":
            yield DoctorFinding("registry", Severity.FINE, f"{database}: whole")
        else:
            message = f"{database}: {verdict}; restore it: `forewarn store restore`"
            yield DoctorFinding("registry", Severity.PROBLEM, message)
    if waiting := registered.waiting():
        message = f"{count(len(waiting), 'trained model')} not registered yet: `forewarn models sync`"
        yield DoctorFinding("registry", Severity.WARNING, message)


def models(config: Config, clock: Clock) -> Iterator[DoctorFinding]:
    """Check each model that serves: hashes of its bundle, the report's verdict, the age of its data."""
    serving = Serving(config.home / "models")
    names = list(serving.names())
    if not names:
        has_history = (config.home / "forewarn.db").exists()
        yield DoctorFinding(
            "model",
            Severity.WARNING if has_history else Severity.FINE,
            "no model serves yet: `forewarn train`"
            if has_history
            else "no history and no model yet: `forewarn ingest` or `forewarn collect`, then `train`",
        )
    for name in names:
        try:
            yield _model(serving, name, clock)
        except (BundleError, OSError) as error:
            yield DoctorFinding("model", Severity.PROBLEM, f"{name}: {error}")


def _model(serving: Serving, name: ModelName, clock: Clock) -> DoctorFinding:
    served, folder = serving.served_model(name), serving.champion(name)
    if served is None or folder is None:  # removed a moment ago
        return DoctorFinding("model", Severity.UNKNOWN, f"{name}: not checked: it serves no longer")
    facts = Manifest.verify(folder).facts
    label = f"{name} version {served.version}"
    age = clock.now() - (facts.learnt_until or facts.created)
    if not facts.may_serve:
        message = f"{label}: its report found it no better than a simple rule; see `forewarn models show`"
        return DoctorFinding("model", Severity.WARNING, message)
    if age > OLD:
        message = f"{label}: its newest job is from {rough_duration(age)} ago: `forewarn train`"
        return DoctorFinding("model", Severity.WARNING, message)
    return DoctorFinding(
        "model", Severity.FINE, f"{label} serves; its newest job is from {rough_duration(max(age, 0))} ago"
    )
