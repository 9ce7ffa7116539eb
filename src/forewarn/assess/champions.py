"""The champions of a cluster: the models that serve, each loaded when the first job needs it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import RLock
from typing import Any

from forewarn.assess.codes import NoteCode
from forewarn.errors import BundleError
from forewarn.evidence import Statement
from forewarn.features.slurm_field_differences import reading_changed
from forewarn.job.outcomes import POLICIES, FailurePolicy
from forewarn.job.phase import PHASES
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.operator_thresholds import (
    OperatorThresholds,
    PartitionThresholds,
    threshold_of,
)
from forewarn.learn.registry.serving import ModelName, ServedModel, Serving

log = logging.getLogger(__name__)
# The order in which models are tried: where the first has too little history of the user, the last may still
# know such jobs.
FEATURE_SETS = ("generic", "swf", "restricted")
Slot = tuple[str, str]  # phase, feature set


@dataclass(frozen=True, slots=True)
class Champion:
    """A model that serves."""

    name: ModelName
    version: int | None  # None: loaded from a folder, not from the registry
    bundle: Bundle
    thresholds: PartitionThresholds = field(default_factory=dict)  # set by operators

    def threshold(self, partitions: str | None) -> float:
        """Return the threshold for jobs of a partition: an operator's, else the bundle's own."""
        return threshold_of(partitions, self.thresholds, self.bundle.chosen.value)

    @property
    def caveat(self) -> Statement | None:
        """Why to trust the model less; None: its report has no objection."""
        if self.bundle.facts.may_serve:
            return None
        return Statement(NoteCode.AGAINST_REPORT, {"model": str(self.name), "version": self.version})

    def unfit(self, table: JobTable) -> Statement | None:
        """Return why the model cannot serve a table whose fields are treated otherwise than in its training.

        None where the treatments agree.
        """
        return reading_changed(self.bundle.facts.reading, table.reading)


class Champions:
    """The champions of one cluster: those that the pointers of a home name, or bundles loaded from folders.

    The pointers, and the thresholds that operators set, are read once, so that one instance always answers
    alike; `refreshed` reads them again. It is safe to use from many threads.
    """

    def __init__(
        self,
        cluster: str,
        serving: Serving | None,
        bundles: tuple[Path, ...] = (),
        *,
        bundles_of: str | None = None,
    ) -> None:
        """Load the bundles and read the pointers.

        `bundles_of` names the cluster that the bundles were trained on, where that is deliberately another.
        """
        self.cluster, self._serving = cluster, serving
        self._lock = RLock()
        self._thresholds = _operator_thresholds(serving, OperatorThresholds())
        self._loaded: dict[Slot, Champion] = {
            slot: self._with_thresholds(champion)
            for slot, champion in _from_folders(cluster, bundles, bundles_of)
        }
        self._served = self._pointers = _served(serving, cluster)

    def get(self, phase: str, feature_set: str) -> Champion | None:
        """Return the champion of a phase and feature set, its files checked against their hashes, or None."""
        slot = phase, feature_set
        served = self._served.get(slot)
        if slot in self._loaded or served is None or self._serving is None:
            return self._loaded.get(slot)
        with self._lock:
            if slot not in self._loaded:
                self._loaded[slot] = self._with_thresholds(_load(self._serving, served))
            return self._loaded[slot]

    def serve_at(self, phase: str) -> bool:
        """Check whether a model with features of user history serves a phase."""
        return any(
            (phase, feature_set) in {*self._served, *self._loaded} for feature_set in FEATURE_SETS[:-1]
        )

    @property
    def policy(self) -> FailurePolicy:
        """The failure policy of the champions; without any, `wasted`, which is what operators count."""
        for phase in PHASES:
            for feature_set in FEATURE_SETS:
                if champion := self.get(phase, feature_set):
                    return POPULATIONS[champion.bundle.facts.population].policy
        return POLICIES["wasted"]

    @property
    def identity(self) -> list[Any]:
        """Which versions serve with which thresholds, as JSON keeps it: it differs where answers may."""
        return [
            [str(one.name), one.version, one.id, _sorted(self._thresholds.of.get(one.name, {}))]
            for one in self._pointers.values()
        ]

    def refreshed(self) -> Champions:
        """Return the current champions: this instance where nothing was promoted and no threshold was set.

        A newly promoted model is loaded at once. Where its files are damaged, the one before it serves on.
        """
        if self._serving is None:
            return self
        try:
            served = _served(self._serving, self.cluster)
        except (BundleError, OSError) as error:
            log.warning(
                "cannot read which models serve %s, the loaded ones serve on: %s", self.cluster, error
            )
            return self
        thresholds = _operator_thresholds(self._serving, self._thresholds)
        if served == self._pointers and thresholds == self._thresholds:
            return self
        current = Champions(self.cluster, None)
        current._serving, current._pointers = self._serving, served  # a refused model is not tried again
        current._thresholds = thresholds
        if served == self._pointers:
            current._served = self._served
            with self._lock:
                loaded = dict(self._loaded)
            current._loaded = {slot: current._with_thresholds(one) for slot, one in loaded.items()}
            return current
        for slot, model in served.items():
            is_same = model == self._pointers.get(slot)
            champion = self._previous(slot) if is_same else self._promoted(slot, model)
            if champion is not None:
                current._loaded[slot] = current._with_thresholds(champion)
        return current

    def _with_thresholds(self, champion: Champion) -> Champion:
        thresholds = self._thresholds.of.get(champion.name, {})
        return champion if thresholds == champion.thresholds else replace(champion, thresholds=thresholds)

    def _promoted(self, slot: Slot, model: ServedModel) -> Champion | None:
        """Load a promoted model; return the one before it where that fails."""
        assert self._serving is not None
        try:
            return _load(self._serving, model)
        except (BundleError, OSError) as error:
            previous = self._previous(slot)
            log.warning(
                "%s version %s is refused, version %s serves on: %s",
                *(model.name, model.version, previous.version if previous else None, error),
            )
            return previous

    def _previous(self, slot: Slot) -> Champion | None:
        """Return the champion that served until now; None where it cannot be loaded."""
        try:
            return self.get(*slot)
        except (BundleError, OSError) as error:
            log.warning("%s %s of %s cannot be loaded: %s", *slot, self.cluster, error)
            return None


def _sorted(thresholds: PartitionThresholds) -> list[list[Any]]:
    return sorted([partition or "", value] for partition, value in thresholds.items())


def _served(serving: Serving | None, cluster: str) -> dict[Slot, ServedModel]:
    """Read the pointers of a home."""
    slots = [(phase, feature_set) for phase in PHASES for feature_set in FEATURE_SETS] if serving else []
    found = {slot: serving.served_model(ModelName(cluster, *slot)) for slot in slots} if serving else {}
    return {slot: served for slot, served in found.items() if served is not None}


def _operator_thresholds(serving: Serving | None, before: OperatorThresholds) -> OperatorThresholds:
    """Read the thresholds that operators set; those from before where the file is damaged or closed to us."""
    if serving is None:
        return before
    try:
        return OperatorThresholds.read(serving.models)
    except BundleError as error:
        log.warning("the thresholds that operators set are not read: %s", error)
        return before


def _load(serving: Serving, served: ServedModel) -> Champion:
    # By its id: another model may be promoted between two reads of the pointer.
    bundle = Bundle.load(serving.copy_of(served.id))
    bundle.check_answers()
    return Champion(served.name, served.version, bundle)


def _from_folders(
    cluster: str, bundles: tuple[Path, ...], bundles_of: str | None
) -> Iterator[tuple[Slot, Champion]]:
    for folder in bundles:
        bundle = Bundle.load(folder)
        name = ModelName.of(bundle.facts)
        if name.cluster != (bundles_of or cluster):
            raise BundleError(
                f"the model in {folder.name} was trained on cluster {name.cluster!r}, but the jobs are from "
                f"{bundles_of or cluster!r}, which has other users and limits. Export a model of this "
                f"cluster; to use this one anyway, set model_cluster = {name.cluster!r}"
            )
        yield (name.phase, name.feature_set), Champion(name, None, bundle)
