"""The models that serve a cluster, each loaded when the first job needs it."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import RLock

from forewarn.assess.codes import NoteCode
from forewarn.errors import BundleError
from forewarn.evidence import Statement
from forewarn.features.slurm_field_differences import reading_changed
from forewarn.job.outcomes import POLICIES, FailurePolicy
from forewarn.job.phase import PHASES
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import JobTable
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.serving import ModelName, ServedModel, Serving

log = logging.getLogger(__name__)
# In which order models are asked: of a job whose user the first knows too little, the last may know the kind.
FEATURE_SETS = ("generic", "swf", "restricted")
Slot = tuple[str, str]  # phase, feature set


@dataclass(frozen=True, slots=True)
class Champion:
    """A model that serves."""

    name: ModelName
    version: int | None  # None: carried here as a folder, not by the registry
    bundle: Bundle

    @property
    def caveat(self) -> Statement | None:
        """Why to trust it less; None: its report found nothing against it."""
        if self.bundle.facts.may_serve:
            return None
        return Statement(NoteCode.AGAINST_REPORT, {"model": str(self.name), "version": self.version})

    def unfit(self, table: JobTable) -> Statement | None:
        """Why it cannot judge a table: fields are read otherwise than when it learnt. None: it can."""
        return reading_changed(self.bundle.facts.reading, table.reading)


class Champions:
    """What serves one cluster: by the pointers of a home, or the bundles that somebody was given.

    The pointers are read once, so that all that one of these says is of the same models; `refreshed` looks
    again. Any number of threads may ask.
    """

    def __init__(
        self,
        cluster: str,
        serving: Serving | None,
        bundles: tuple[Path, ...] = (),
        *,
        bundles_of: str | None = None,
    ) -> None:
        """`bundles_of` names the cluster that bundles were made on, where that is another one on purpose."""
        self.cluster, self._serving = cluster, serving
        self._lock = RLock()
        self._loaded: dict[Slot, Champion] = dict(_given(cluster, bundles, bundles_of))
        self._served = self._pointers = _served(serving, cluster)

    def get(self, phase: str, feature_set: str) -> Champion | None:
        """The model of a phase and feature set, its files held against their hashes; None: there is none."""
        slot = phase, feature_set
        served = self._served.get(slot)
        if slot in self._loaded or served is None or self._serving is None:
            return self._loaded.get(slot)
        with self._lock:
            if slot not in self._loaded:
                self._loaded[slot] = _load(self._serving, served)
            return self._loaded[slot]

    def serve_at(self, phase: str) -> bool:
        """Whether a model serves at a phase that knows users' histories."""
        return any(
            (phase, feature_set) in {*self._served, *self._loaded} for feature_set in FEATURE_SETS[:-1]
        )

    @property
    def policy(self) -> FailurePolicy:
        """What counts as failure to the models that serve; without any, what operators mean by it."""
        for phase in PHASES:
            for feature_set in FEATURE_SETS:
                if champion := self.get(phase, feature_set):
                    return POPULATIONS[champion.bundle.facts.population].policy
        return POLICIES["wasted"]

    def refreshed(self) -> Champions:
        """What serves now: itself where nothing was promoted since.

        A model that was promoted is loaded at once. Where its files are not what they should be, the one
        before it serves on.
        """
        if self._serving is None:
            return self
        try:
            served = _served(self._serving, self.cluster)
        except (BundleError, OSError) as error:
            log.warning(
                "which models serve %s cannot be read, those before serve on: %s", self.cluster, error
            )
            return self
        if served == self._pointers:
            return self
        made = Champions(self.cluster, None)
        made._serving, made._pointers = self._serving, served  # what is refused is not looked at again
        for slot, found in served.items():
            champion = (
                self._before(slot) if found == self._pointers.get(slot) else self._taken_up(slot, found)
            )
            if champion is not None:
                made._loaded[slot] = champion
        return made

    def _taken_up(self, slot: Slot, found: ServedModel) -> Champion | None:
        """A model that was promoted, if it can answer; else the one before it."""
        assert self._serving is not None
        try:
            return _load(self._serving, found)
        except (BundleError, OSError) as error:
            before = self._before(slot)
            log.warning(
                "%s version %s is refused, version %s serves on: %s",
                *(found.name, found.version, before.version if before else None, error),
            )
            return before

    def _before(self, slot: Slot) -> Champion | None:
        """What served until now; nothing where that cannot be loaded."""
        try:
            return self.get(*slot)
        except (BundleError, OSError) as error:
            log.warning("%s %s of %s cannot be loaded: %s", *slot, self.cluster, error)
            return None


def _served(serving: Serving | None, cluster: str) -> dict[Slot, ServedModel]:
    """What the pointers of a home say."""
    slots = [(phase, feature_set) for phase in PHASES for feature_set in FEATURE_SETS] if serving else []
    found = {slot: serving.served(ModelName(cluster, *slot)) for slot in slots} if serving else {}
    return {slot: served for slot, served in found.items() if served is not None}


def _load(serving: Serving, served: ServedModel) -> Champion:
    # By its id: another may be promoted between two looks at the pointer.
    bundle = Bundle.load(serving.copy_of(served.id))
    bundle.check_answers()
    return Champion(served.name, served.version, bundle)


def _given(
    cluster: str, bundles: tuple[Path, ...], bundles_of: str | None
) -> Iterator[tuple[Slot, Champion]]:
    for folder in bundles:
        bundle = Bundle.load(folder)
        name = ModelName.of(bundle.facts)
        if name.cluster != (bundles_of or cluster):
            raise BundleError(
                f"the model that was given was made on the cluster {name.cluster!r}, and the jobs are of "
                f"{bundles_of or cluster!r}: its users and limits are others. Export one of this "
                f"cluster; to use it all the same, set model_cluster = {name.cluster!r}"
            )
        yield (name.phase, name.feature_set), Champion(name, None, bundle)
