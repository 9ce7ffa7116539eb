"""Categories as codes: known ones by their place, all others missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

# What a model may see as categories, by feature set. No identities: a user's, group's or account's past is
# in the encoded features, which a newcomer simply lacks.
# What the script is (`job/sbatch`) is there where history holds scripts or submit lines.
_SCRIPT = ("script_language", "script_launcher", "script_modules")
CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "generic": ("partition", "qos", *_SCRIPT),
    "restricted": ("partition", "qos", *_SCRIPT),
    "swf": ("partition",),
}
MOST = 32  # categories of a field; rarer ones are missing
FEWEST = 30  # jobs that a category needs


@dataclass(frozen=True, slots=True)
class Encoders:
    """The categories of each field that were there in training."""

    categories: Mapping[str, tuple[str, ...]]

    @classmethod
    def fit(cls, about: pl.DataFrame, fields: tuple[str, ...]) -> Self:
        """Learn the categories, the most frequent first. A field with one value says nothing: left out."""
        found = {}
        for field in fields:
            counts = about[field].drop_nulls().value_counts().sort("count", field, descending=[True, False])
            kept = counts.filter(pl.col("count") >= FEWEST)[field].head(MOST).to_list()
            if len(kept) > 1:
                found[field] = tuple(kept)
        return cls(found)

    def codes(self, about: pl.DataFrame) -> NDArray[np.float32]:
        """One column for each field, NaN for what was not there in training.

        >>> known = Encoders({"partition": ("short", "long")})
        >>> known.codes(pl.DataFrame({"partition": ["long", "new", None]})).ravel().tolist()
        [1.0, nan, nan]
        """
        made = np.full((about.height, len(self.categories)), np.nan, np.float32)
        for place, (field, known) in enumerate(self.categories.items()):
            codes = {value: code for code, value in enumerate(known)}
            # One by one: for one job, Polars' way takes as long as all of a model's trees.
            made[:, place] = [codes.get(value, np.nan) for value in about[field].to_list()]
        return made

    def to_json(self) -> dict[str, Any]:
        """For the bundle."""
        return {field: list(known) for field, known in self.categories.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """From the bundle."""
        return cls({field: tuple(known) for field, known in value.items()})
