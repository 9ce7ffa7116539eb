"""The models that serve a cluster, each loaded when the first job needs it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forewarn.learn.bundle import Bundle
from forewarn.learn.serving import ModelName, Serving


@dataclass(frozen=True, slots=True)
class Champion:
    """A model that serves."""

    name: ModelName
    version: int | None  # None: carried here as a folder, not by the registry
    bundle: Bundle


class Champions:
    """What serves one cluster: by the pointers of a home, or the bundles that somebody was given."""

    def __init__(self, cluster: str, serving: Serving | None, bundles: tuple[Path, ...] = ()) -> None:
        self.cluster, self._serving = cluster, serving
        self._given: dict[tuple[str, str], Champion] = {}
        self._loaded: dict[str, Champion] = {}  # by the bundle's id: another may be promoted while we run
        for folder in bundles:
            bundle = Bundle.load(folder)
            name = ModelName.of(bundle.facts)
            self._given[name.phase, name.feature_set] = Champion(name, None, bundle)

    def get(self, phase: str, feature_set: str) -> Champion | None:
        """The model of a phase and feature set, its files held against their hashes; None: there is none."""
        if (phase, feature_set) in self._given:
            return self._given[phase, feature_set]
        name = ModelName(self.cluster, phase, feature_set)
        served = self._serving.served(name) if self._serving else None
        if served is None or self._serving is None:
            return None
        if served.id not in self._loaded:
            # By its id: another may be promoted between two looks at the pointer.
            bundle = Bundle.load(self._serving.copy_of(served.id))
            self._loaded[served.id] = Champion(name, served.version, bundle)
        return self._loaded[served.id]

    def serve_at(self, phase: str) -> bool:
        """Whether a model serves at a phase that knows users' histories."""
        return any(self.get(phase, feature_set) for feature_set in FEATURE_SETS[:-1])


# In which order models are asked: of a job whose user the first knows too little, the last may know the kind.
FEATURE_SETS = ("generic", "swf", "restricted")
