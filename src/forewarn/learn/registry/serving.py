"""Which bundle serves here: a small file that points at a verified copy, so that serving needs no MLflow.

HOME/models/serving/alps.submit.generic.json    the champion's version, id and folder
HOME/models/cache/<id>/                         its bundle
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

from forewarn.errors import BundleError, UsageError
from forewarn.files import write_file
from forewarn.learn.registry.manifest import Facts, Manifest, json_text

PREFIX = "forewarn"
UNUSED_FOR = (
    86400  # seconds after which a copy that nothing points at is removed; a reader may still be at it
)
_AGAIN = "`forewarn models sync` fetches it again"


@dataclass(frozen=True, slots=True, order=True)
class ModelName:
    """There is one model for each cluster, phase and feature set.

    >>> name = ModelName.parse("alps.submit.generic")
    >>> name.registered
    'forewarn.alps.submit.generic'
    """

    cluster: str
    phase: str
    feature_set: str

    def __str__(self) -> str:
        return f"{self.cluster}.{self.phase}.{self.feature_set}"

    @classmethod
    def of(cls, facts: Facts) -> ModelName:
        """The name under which a bundle is registered."""
        return cls(facts.cluster, facts.phase, facts.feature_set)

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """As people write it. A cluster's name may have dots in it, the others have none."""
        parts = text.removeprefix(f"{PREFIX}.").rsplit(".", 2)
        if len(parts) != 3 or not all(parts):
            raise UsageError(
                f"not a model's name: {text!r}. It is CLUSTER.PHASE.FEATURES, such as alps.submit.generic; "
                "`forewarn models list` shows those that there are"
            )
        return cls(*parts)

    @property
    def quoted(self) -> str:
        """For MLflow and file names, which forbid some characters.

        >>> ModelName("a/b: c.d", "submit", "swf").quoted
        'a%2Fb%3A%20c%2Ed.submit.swf'
        """
        parts = (self.cluster, self.phase, self.feature_set)
        return ".".join(quote(part, safe="").replace(".", "%2E").replace("~", "%7E") for part in parts)

    @property
    def registered(self) -> str:
        """In the registry."""
        return f"{PREFIX}.{self.quoted}"

    @classmethod
    def from_registered(cls, text: str) -> ModelName | None:
        """The name behind one of the registry, or None where that is not Forewarn's.

        >>> ModelName.from_registered("forewarn.a%2Eb.start.swf")
        ModelName(cluster='a.b', phase='start', feature_set='swf')
        """
        parts = text.split(".")
        if len(parts) != 4 or parts[0] != PREFIX:
            return None
        return cls(*map(unquote, parts[1:]))


@dataclass(frozen=True, slots=True)
class ServedModel:
    """What a pointer says."""

    name: ModelName
    version: int
    id: str


class Serving:
    """The pointers and the copies of one home."""

    def __init__(self, models: Path) -> None:
        self._pointers = models / "serving"
        self._copies = models / "cache"

    def copy_of(self, bundle_id: str) -> Path:
        """Where the verified copy of a bundle lies, or would."""
        return self._copies / bundle_id

    def served(self, name: ModelName) -> ServedModel | None:
        """The version that serves, if any."""
        path = self._pointers / f"{name.quoted}.json"
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            found = ServedModel(ModelName(*value["model"]), value["version"], value["id"])
            well = found.name == name and re.fullmatch(r"[0-9a-f]{64}", found.id) is not None
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            well = False
        if not well:
            raise BundleError(f"{path}: does not say which model serves. {_AGAIN}")
        return found

    def champion(self, name: ModelName) -> Path | None:
        """The bundle that serves, its manifest the one that was promoted; `Bundle.load` checks the files."""
        served = self.served(name)
        if served is None:
            return None
        folder = self.copy_of(served.id)
        try:
            found = Manifest.read(folder).id
        except BundleError as error:
            raise BundleError(f"{error}. {_AGAIN}") from None
        if found != served.id:
            raise BundleError(f"{folder}: holds another bundle than the one promoted. {_AGAIN}")
        return folder

    def point(self, name: ModelName, version: int, bundle_id: str) -> None:
        """Let a version serve, whose copy is there."""
        with suppress(BundleError):  # what it said before no longer matters
            before = self.served(name)
            if before and self.copy_of(before.id).exists():
                os.utime(self.copy_of(before.id))  # from now on unused
        self._pointers.mkdir(parents=True, exist_ok=True)
        model = [name.cluster, name.phase, name.feature_set]
        folder = f"{self._copies.name}/{bundle_id}"
        text = json_text({"model": model, "version": version, "id": bundle_id, "folder": folder})
        write_file(self._pointers / f"{name.quoted}.json", text, private=True)

    def names(self) -> Iterator[ModelName]:
        """The models that have a pointer here."""
        for path in sorted(self._pointers.glob("*.json")):
            name = ModelName.from_registered(f"{PREFIX}.{path.stem}")
            if name:
                yield name

    def tidy(self, now: float | None = None) -> None:
        """Remove copies that nothing has pointed at for a day; the registry still has them."""
        used = set()
        for name in self.names():
            with suppress(BundleError):
                served = self.served(name)
                used.add(served.id if served else "")
        oldest = (time.time() if now is None else now) - UNUSED_FOR
        for copy in self._copies.glob("*"):
            if copy.name not in used and copy.stat().st_mtime < oldest:
                shutil.rmtree(copy, ignore_errors=True)
