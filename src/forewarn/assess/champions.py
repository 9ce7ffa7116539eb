"""The models that serve a cluster, each loaded when the first job needs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forewarn.assess.codes import NoteCode
from forewarn.errors import BundleError
from forewarn.evidence import Statement
from forewarn.features.told import reading_changed
from forewarn.learn.bundle import Bundle
from forewarn.learn.serving import ModelName, Serving
from forewarn.learn.table import Table


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

    def unfit(self, table: Table) -> Statement | None:
        """Why it cannot judge a table: fields are read otherwise than when it learnt. None: it can."""
        return reading_changed(self.bundle.facts.reading, table.reading)


class Champions:
    """What serves one cluster: by the pointers of a home, or the bundles that somebody was given."""

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
        self._given: dict[tuple[str, str], Champion] = {}
        # With the bundle's id: another may be promoted while we run, and takes the place of the one before.
        self._loaded: dict[ModelName, tuple[str, Champion]] = {}
        for folder in bundles:
            bundle = Bundle.load(folder)
            name = ModelName.of(bundle.facts)
            if name.cluster != (bundles_of or cluster):
                raise BundleError(
                    f"the model that was given was made on the cluster {name.cluster!r}, and the jobs are of "
                    f"{bundles_of or cluster!r}: its users and limits are others. Export one of this "
                    f"cluster; to use it all the same, set model_cluster = {name.cluster!r}"
                )
            self._given[name.phase, name.feature_set] = Champion(name, None, bundle)

    def get(self, phase: str, feature_set: str) -> Champion | None:
        """The model of a phase and feature set, its files held against their hashes; None: there is none."""
        if (phase, feature_set) in self._given:
            return self._given[phase, feature_set]
        name = ModelName(self.cluster, phase, feature_set)
        served = self._serving.served(name) if self._serving else None
        if served is None or self._serving is None:
            return None
        loaded = self._loaded.get(name)
        if loaded is None or loaded[0] != served.id:
            # By its id: another may be promoted between two looks at the pointer.
            bundle = Bundle.load(self._serving.copy_of(served.id))
            loaded = self._loaded[name] = served.id, Champion(name, served.version, bundle)
        return loaded[1]

    def serve_at(self, phase: str) -> bool:
        """Whether a model serves at a phase that knows users' histories."""
        return any(self.get(phase, feature_set) for feature_set in FEATURE_SETS[:-1])


# In which order models are asked: of a job whose user the first knows too little, the last may know the kind.
FEATURE_SETS = ("generic", "swf", "restricted")
