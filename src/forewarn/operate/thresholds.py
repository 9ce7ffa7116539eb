"""Thresholds per model and partition that operators set: list, set, reset, and what a change means in alerts.

A value is kept twice. `people.db` holds who set it, when and why, with an audit line for every change. What
is in force is a file beside the pointers of the models that serve (`learn/registry/operator_thresholds.py`):
every process that assesses reads that, also one that may not read `people.db`, and setting a value waits for
no writer of observations. The file is always written whole from `people.db`, one process at a time.
"""

from __future__ import annotations

import math
import os
import pwd
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from forewarn.errors import BundleError, StoreBusyError, StoreError, UsageError
from forewarn.learn.registry.operator_thresholds import OperatorThresholds, threshold_of
from forewarn.learn.registry.serving import ModelName, Serving
from forewarn.operate.access.audit import write_audit_line
from forewarn.operate.access.identity import Identity, Role
from forewarn.operate.served_models import model_figures
from forewarn.operate.threshold_effect import ThresholdEffect, threshold_effect
from forewarn.operate.workspace import Workspace
from forewarn.store.base import Store
from forewarn.store.opening import open_people_store
from forewarn.store.people import Entry, PeopleStore

LONGEST_REASON = 500  # characters
_WAIT = 10.0  # seconds for another process that sets a threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdSetting:
    """The threshold of a model, for all partitions or for one: the value in force and who set it."""

    model: ModelName
    partition: str | None  # None: all partitions that have none of their own
    value: float  # in force
    own: float  # the bundle's
    rule: str  # by which the bundle's was chosen
    version: int  # that serves
    is_set: bool  # by an operator; False: it is the bundle's
    set_by: str | None = None  # None also where this process may not read who it was
    set_at: int | None = None
    reason: str | None = None
    set_for_version: int | None = None  # the version that served then

    @property
    def is_of_another_version(self) -> bool:
        """Whether another version serves now than when the threshold was set."""
        return self.set_for_version is not None and self.set_for_version != self.version

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "model": str(self.model),
            "partition": self.partition,
            "threshold": self.value,
            "own_threshold": self.own,
            "rule": self.rule,
            "version": self.version,
            "is_set": self.is_set,
            "set_by": self.set_by,
            "set_at": self.set_at,
            "reason": self.reason,
            "set_for_version": self.set_for_version,
            "is_of_another_version": self.is_of_another_version,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdChange:
    """A change of a threshold: the value before and after, and what it means for the last month's jobs."""

    model: ModelName
    partition: str | None
    before: float
    after: float
    effect: ThresholdEffect

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return {
            "model": str(self.model),
            "partition": self.partition,
            "before": self.before,
            "after": self.after,
            "effect": self.effect.to_json(),
        }


def list_thresholds(workspace: Workspace, cluster: str | None = None) -> tuple[ThresholdSetting, ...]:
    """List the threshold of every model that serves, then those that were set for its partitions."""
    serving = _serving(workspace)
    in_force, entries = OperatorThresholds.read(serving.models), _entries(workspace)
    settings: list[ThresholdSetting] = []
    for name in serving.names():
        if cluster is None or name.cluster == cluster:
            settings += _settings(serving, name, in_force, entries)
    return tuple(settings)


def set_threshold(
    workspace: Workspace,
    model: str,
    value: float,
    *,
    by: Identity,
    partition: str | None = None,
    reason: str | None = None,
    address: str | None = None,
    at: int | None = None,
) -> ThresholdChange:
    """Set the threshold of a model, for all partitions or one; the last month's alerts come with the answer.

    It is in force for commands at once, in long-lived processes within a second or so.
    """
    name, value = ModelName.parse(model), check_threshold(value)
    return _change(workspace, name, partition, value, by=by, reason=reason, address=address, at=at)


def reset_threshold(
    workspace: Workspace,
    model: str,
    *,
    by: Identity,
    partition: str | None = None,
    reason: str | None = None,
    address: str | None = None,
    at: int | None = None,
) -> ThresholdChange:
    """Remove a threshold that was set, so that the model's, or the bundle's own, is in force again."""
    return _change(
        workspace, ModelName.parse(model), partition, None, by=by, reason=reason, address=address, at=at
    )


def preview_threshold(
    workspace: Workspace, model: str, value: float, *, partition: str | None = None, at: int | None = None
) -> ThresholdChange:
    """Compute what a threshold would mean for the last month's jobs, without setting it."""
    name, value = ModelName.parse(model), check_threshold(value)
    serving, store = _serving(workspace), workspace.reading()
    check_partition(store, name.cluster, partition)
    in_force = OperatorThresholds.read(serving.models)
    own = model_figures(serving, name).threshold.value
    before = threshold_of(partition, in_force.of.get(name, {}), own)
    effect = _effect(workspace, name, partition, in_force, before, value, at)
    return ThresholdChange(model=name, partition=partition, before=before, after=value, effect=effect)


def mirror_thresholds(workspace: Workspace) -> bool:
    """Write the thresholds in force again from `people.db` where they differ; return whether they did.

    For a process that starts: one that died between the two writes left them different.
    """
    with _people(workspace) as people, _alone(workspace):
        serving, wanted = _serving(workspace), _wanted(people)
        try:
            if OperatorThresholds.read(serving.models) == wanted:
                return False
        except BundleError:
            pass  # damaged: it is replaced
        wanted.write(serving.models)
    return True


def local_operator() -> Identity:
    """Return who runs this process: whoever may write the home is its operator."""
    number = os.getuid()
    try:
        user = pwd.getpwuid(number).pw_name
    except KeyError:  # a container without a name for it
        user = str(number)
    return Identity(user=user, role=Role.OPERATOR, method="local")


def check_threshold(value: Any) -> float:
    """Return a threshold as a number; `UsageError` if it is not a number from 0 to 1."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not 0 <= value <= 1:
        raise UsageError(
            f"not a threshold: {value!r}. Give a probability from 0 to 1: every job from it on gets an alert "
            "(0: all jobs, 1: none)"
        )
    return float(value)


def check_partition(store: Store, cluster: str, partition: str | None) -> None:
    """Raise `UsageError` for a partition that neither Slurm nor any job of the cluster has named."""
    if partition is None:
        return
    known = {name for frame in store.scan("partition", cluster=cluster) for name in frame["name"]}
    if partition in known:
        return
    for frame in store.scan(cluster=cluster, columns=["partition"]):
        known |= {part for names in frame["partition"].drop_nulls().unique() for part in names.split(",")}
    if partition not in known:
        names = ", ".join(sorted(known)) or "none is known"
        raise UsageError(f"{cluster} has no partition {partition!r}; choose from {names}")


def _change(
    workspace: Workspace,
    name: ModelName,
    partition: str | None,
    value: float | None,
    *,
    by: Identity,
    reason: str | None,
    address: str | None,
    at: int | None,
) -> ThresholdChange:
    if reason is not None and len(reason) > LONGEST_REASON:
        raise UsageError(f"the reason has {len(reason)} characters; write at most {LONGEST_REASON}")
    if not by.user:
        raise UsageError("a threshold is set by somebody: name the user")
    at = workspace.now() if at is None else at
    serving = _serving(workspace)
    figures = model_figures(serving, name)
    if value is not None:  # what was set for a partition that is gone can still be reset
        check_partition(workspace.reading(), name.cluster, partition)
    key = _key(name, partition)
    with _people(workspace) as people, _alone(workspace):
        in_force = _wanted(people)
        if value is None and people.get("threshold", key) is None:
            where = f" for partition {partition}" if partition else ""
            raise UsageError(f"no threshold is set for {name}{where}; `forewarn thresholds list` shows all")
        own = figures.threshold.value
        before = threshold_of(partition, in_force.of.get(name, {}), own)
        # The audit line first: rather a line of a change that failed than a change without one.
        write_audit_line(
            people,
            by,
            "reset-threshold" if value is None else "set-threshold",
            str(name) if partition is None else f"{name} in partition {partition}",
            details={"before": before, "after": value, "reason": reason},
            address=address,
        )
        if value is None:
            people.remove("threshold", key)
        else:
            model = [name.cluster, name.phase, name.feature_set]
            entry = {"model": model, "partition": partition, "value": value, "by": by.user, "reason": reason}
            people.put("threshold", key, {**entry, "version": figures.served.version}, at=at)
        now = _wanted(people)
        now.write(serving.models)
    after = threshold_of(partition, now.of.get(name, {}), own)
    effect = _effect(workspace, name, partition, in_force, before, after, at)
    return ThresholdChange(model=name, partition=partition, before=before, after=after, effect=effect)


def _effect(
    workspace: Workspace,
    name: ModelName,
    partition: str | None,
    in_force: OperatorThresholds,
    before: float,
    after: float,
    at: int | None,
) -> ThresholdEffect:
    set_apart = frozenset(other for other in in_force.of.get(name, {}) if other is not None)
    population = model_figures(_serving(workspace), name).facts.population
    return threshold_effect(
        workspace.reading(),
        name,
        before=before,
        after=after,
        population=population,
        partition=partition,
        apart=set_apart,
        at=workspace.now() if at is None else at,
    )


def _settings(
    serving: Serving, name: ModelName, in_force: OperatorThresholds, entries: dict[str, Entry]
) -> Iterator[ThresholdSetting]:
    try:
        figures = model_figures(serving, name)
    except BundleError:
        return  # `list_served_models` reports it
    of_model, own = in_force.of.get(name, {}), figures.threshold
    for partition in (None, *sorted(one for one in of_model if one is not None)):
        entry = entries.get(_key(name, partition)) if partition in of_model else None
        who = {} if entry is None else entry.value
        yield ThresholdSetting(
            model=name,
            partition=partition,
            value=of_model.get(partition, own.value),
            own=own.value,
            rule=own.rule,
            version=figures.served.version,
            is_set=partition in of_model,
            set_by=who.get("by"),
            set_at=None if entry is None else entry.at,
            reason=who.get("reason"),
            set_for_version=who.get("version"),
        )


def _wanted(people: PeopleStore) -> OperatorThresholds:
    """Return the thresholds that `people.db` holds."""
    wanted: dict[ModelName, dict[str | None, float]] = {}
    for entry in people.entries("threshold"):
        name = ModelName(*entry.value["model"])
        wanted.setdefault(name, {})[entry.value["partition"]] = float(entry.value["value"])
    return OperatorThresholds(wanted)


def _entries(workspace: Workspace) -> dict[str, Entry]:
    """Return who set what, by key; nothing where this process may not read it."""
    try:
        with _people(workspace) as people:
            return {entry.key: entry for entry in people.entries("threshold")}
    except (StoreError, OSError):
        return {}


def _key(name: ModelName, partition: str | None) -> str:
    # A partition's name has no colon before it; a model's name is quoted.
    return name.quoted if partition is None else f"{name.quoted}:{partition}"


@contextmanager
def _people(workspace: Workspace) -> Iterator[PeopleStore]:
    with closing(open_people_store(workspace.config)) as people:
        yield people


@contextmanager
def _alone(workspace: Workspace) -> Iterator[None]:
    """Hold the right to write the file of thresholds, among all processes of the home."""
    store, until = workspace.writing(), time.monotonic() + _WAIT
    while (claim := store.claim("thresholds")) is None:
        if time.monotonic() > until:
            home = workspace.config.home
            raise StoreBusyError(f"{home}: another process is setting a threshold; try again")
        time.sleep(0.02)
    with claim:
        yield


def _serving(workspace: Workspace) -> Serving:
    return Serving(workspace.config.home / "models")
