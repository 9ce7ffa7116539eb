"""Encoding of categorical fields as codes; a category that was rare or absent in training is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

# The fields that a model sees as categories, by feature set. No identities: the past of a user, group or
# account is in the features of its history, which are simply missing for a newcomer.
# The columns of the script (`job/sbatch`) have values where the history holds scripts or submit lines.
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
    """The categories of each field that were frequent in training."""

    categories: Mapping[str, tuple[str, ...]]

    @classmethod
    def fit(cls, about: pl.DataFrame, fields: tuple[str, ...]) -> Self:
        """Learn the categories, the most frequent first. A field with only one value is left out."""
        categories = {}
        for field in fields:
            counts = about[field].drop_nulls().value_counts().sort("count", field, descending=[True, False])
            frequent = counts.filter(pl.col("count") >= FEWEST)[field].head(MOST).to_list()
            if len(frequent) > 1:
                categories[field] = tuple(frequent)
        return cls(categories)

    def codes(self, about: pl.DataFrame) -> NDArray[np.float32]:
        """Encode each field as one column; NaN is a missing or unknown category.

        >>> encoders = Encoders({"partition": ("short", "long")})
        >>> encoders.codes(pl.DataFrame({"partition": ["long", "new", None]})).ravel().tolist()
        [1.0, nan, nan]
        """
        columns = np.full((about.height, len(self.categories)), np.nan, np.float32)
        for place, (field, categories) in enumerate(self.categories.items()):
            codes = {value: code for code, value in enumerate(categories)}
            # In Python: for one job, a Polars expression takes as long as all of a model's trees.
            columns[:, place] = [codes.get(value, np.nan) for value in about[field].to_list()]
        return columns

    def to_json(self) -> dict[str, Any]:
        """Return the form that the bundle stores."""
        return {field: list(categories) for field, categories in self.categories.items()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read the form that the bundle stores."""
        return cls({field: tuple(categories) for field, categories in value.items()})
