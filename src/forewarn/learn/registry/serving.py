"""The bundles that serve in a home: pointers to verified copies, so that serving needs no MLflow.

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
UNUSED_FOR = 86400  # seconds after which an unused copy is removed; a process may still be reading it before
_AGAIN = "`forewarn models sync` fetches it again"


@dataclass(frozen=True, slots=True, order=True)
class ModelName:
    """The name of a model: there is one for each cluster, phase and feature set.

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
        """Return the name of a bundle's model."""
        return cls(facts.cluster, facts.phase, facts.feature_set)

    @classmethod
    def parse(cls, text: str) -> ModelName:
        """Parse a name as people write it. A cluster's name may contain dots, the other parts not."""
        parts = text.removeprefix(f"{PREFIX}.").rsplit(".", 2)
        if len(parts) != 3 or not all(parts):
            raise UsageError(
                f"not a model's name: {text!r}. A name is CLUSTER.PHASE.FEATURES, such as "
                "alps.submit.generic; `forewarn models list` shows all"
            )
        return cls(*parts)

    @property
    def quoted(self) -> str:
        """The name for MLflow and for files, which forbid some characters.

        >>> ModelName("a/b: c.d", "submit", "swf").quoted
        'a%2Fb%3A%20c%2Ed.submit.swf'
        """
        parts = (self.cluster, self.phase, self.feature_set)
        return ".".join(quote(part, safe="").replace(".", "%2E").replace("~", "%7E") for part in parts)

    @property
    def registered(self) -> str:
        """The name in the registry."""
        return f"{PREFIX}.{self.quoted}"

    @classmethod
    def from_registered(cls, text: str) -> ModelName | None:
        """Parse a name of the registry; None for a model of another program.

        >>> ModelName.from_registered("forewarn.a%2Eb.start.swf")
        ModelName(cluster='a.b', phase='start', feature_set='swf')
        """
        parts = text.split(".")
        if len(parts) != 4 or parts[0] != PREFIX:
            return None
        return cls(*map(unquote, parts[1:]))


@dataclass(frozen=True, slots=True)
class ServedModel:
    """The content of a pointer: which version of a model serves."""

    name: ModelName
    version: int
    id: str


class Serving:
    """The pointers and the copies of bundles of one home."""

    def __init__(self, models: Path) -> None:
        self.models = models
        self._pointers = models / "serving"
        self._copies = models / "cache"

    def copy_of(self, bundle_id: str) -> Path:
        """Return the folder for the verified copy of a bundle, whether it exists or not."""
        return self._copies / bundle_id

    def served_model(self, name: ModelName) -> ServedModel | None:
        """Return the version that serves, or None. Raises `BundleError` for a damaged pointer."""
        path = self._pointers / f"{name.quoted}.json"
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
            served = ServedModel(ModelName(*value["model"]), value["version"], value["id"])
            valid = served.name == name and re.fullmatch(r"[0-9a-f]{64}", served.id) is not None
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            valid = False
        if not valid:
            raise BundleError(f"{path}: does not name the model that serves. {_AGAIN}")
        return served

    def serves_since(self, name: ModelName) -> int:
        """Return since when the version serves in this home, in Unix seconds."""
        return int((self._pointers / f"{name.quoted}.json").stat().st_mtime)

    def champion(self, name: ModelName) -> Path | None:
        """Return the folder of the bundle that serves, or None.

        The manifest is checked to be the promoted one; `Bundle.load` checks the files.
        """
        served = self.served_model(name)
        if served is None:
            return None
        folder = self.copy_of(served.id)
        try:
            manifest_id = Manifest.read(folder).id
        except BundleError as error:
            raise BundleError(f"{error}. {_AGAIN}") from None
        if manifest_id != served.id:
            raise BundleError(f"{folder}: holds another bundle than the promoted one. {_AGAIN}")
        return folder

    def point(self, name: ModelName, version: int, bundle_id: str) -> None:
        """Make a version serve whose copy exists."""
        with suppress(BundleError):  # a damaged pointer is replaced
            before = self.served_model(name)
            if before and self.copy_of(before.id).exists():
                os.utime(self.copy_of(before.id))  # the time since when it is unused
        self._pointers.mkdir(parents=True, exist_ok=True)
        model = [name.cluster, name.phase, name.feature_set]
        folder = f"{self._copies.name}/{bundle_id}"
        text = json_text({"model": model, "version": version, "id": bundle_id, "folder": folder})
        write_file(self._pointers / f"{name.quoted}.json", text, private=True)

    def names(self) -> Iterator[ModelName]:
        """List the models that have a pointer in this home."""
        for path in sorted(self._pointers.glob("*.json")):
            name = ModelName.from_registered(f"{PREFIX}.{path.stem}")
            if name:
                yield name

    def tidy(self, at: float | None = None) -> None:
        """Remove copies that have been unused for a day; the registry still has them."""
        used = set()
        for name in self.names():
            with suppress(BundleError):
                served = self.served_model(name)
                used.add(served.id if served else "")
        oldest = (time.time() if at is None else at) - UNUSED_FOR
        for copy in self._copies.glob("*"):
            if copy.name not in used and copy.stat().st_mtime < oldest:
                shutil.rmtree(copy, ignore_errors=True)
