"""A reader of CatBoost's model files that does not need CatBoost, whose import takes most of a second.

A model of `families/catboost.py` has symmetric trees with two kinds of splits: whether a number is above a
border, and whether a category has a certain code. Anything else that CatBoost can store (texts, embeddings,
statistics of categories) is refused, since no model here has it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.families.flatbuffer import FlatTable
from forewarn.learn.families.shared_library import LibraryError

# Fields of catboost/libs/model/flatbuffers/model.fbs and features.fbs, by their numbers.
_VERSION, _TREES = 0, 1
_OUTPUTS, _SPLITS, _DEPTHS = 0, 1, 2
_CATEGORIES, _NUMBERS, _ONE_HOT, _STATISTICS = 4, 5, 6, 7
_VALUES, _WEIGHTS, _STEPS, _TEXTS, _ESTIMATED = 8, 9, 10, 12, 13
_SCALE, _BIAS, _BIASES, _EMBEDDINGS = 14, 15, 16, 18
_FLAT_INDEX, _BORDERS, _MISSING = 2, 3, 5
_INDEX, _HASHES, _CATEGORY_FLAT_INDEX = 0, 1, 1
_MISSING_IS_HIGH = 2
_DEEPEST = 16
_CODES = range(-1, 1000)  # possible values of a categorical column; -1 is missing


@dataclass(frozen=True, slots=True)
class CatboostModelFile:
    """The content of a model file. A question is a column (categorical ones come last) and a value.

    A question about a number is whether it is above a border; about a category, whether it has a code.
    """

    columns: NDArray[np.int64]  # of each question
    values: NDArray[np.float32]  # of each question: the border or the code
    numbers: int  # how many questions are about numbers; these come first
    depths: NDArray[np.int64]  # of each tree
    splits: NDArray[np.int64]  # questions, tree after tree; a tree has one for each level
    leaves: NDArray[
        np.float64
    ]  # values, tree after tree; the first split is the lowest bit of a leaf's place
    weights: NDArray[np.float64]  # of the training rows in each leaf
    features: int  # the number of columns
    scale: float
    bias: float


def read_catboost(data: bytes) -> CatboostModelFile:
    """Read a model file. Raises `LibraryError` for other data, and for models of other kinds."""
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError, KeyError, OverflowError) as error:
        raise LibraryError(f"not a CatBoost model of the family `catboost` ({error})") from error


def _read(data: bytes) -> CatboostModelFile:
    if data[:4] != b"CBM1":
        raise ValueError("it does not begin with CBM1")
    size = struct.unpack_from("<I", data, 4)[0]
    root = FlatTable.root(data[8 : 8 + size])
    if root.text(_VERSION) != "FlabuffersModel_v1":  # CatBoost's own spelling
        raise ValueError(f"version {root.text(_VERSION)!r}")
    trees = root.table(_TREES)
    if any(trees.count(field) for field in (_STATISTICS, _STEPS, _TEXTS, _ESTIMATED, _EMBEDDINGS)):
        raise ValueError("trees that are not symmetric, or features of other kinds")
    if trees.number(_OUTPUTS, "i", 0) != 1:
        raise ValueError("several outputs")
    numbers, categories = list(trees.tables(_NUMBERS)), list(trees.tables(_CATEGORIES))
    if any(feature.number(_MISSING, "b", 0) == _MISSING_IS_HIGH for feature in numbers):
        raise ValueError("missing values that count as larger than all others")
    flat = [int(category.number(_CATEGORY_FLAT_INDEX, "i", -1)) for category in categories]
    code_of = {_hash(str(code)): code for code in _CODES}
    borders = [
        (int(feature.number(_FLAT_INDEX, "i", -1)), feature.numbers(_BORDERS, "f4")) for feature in numbers
    ]
    one_hot = [
        (
            flat[int(feature.number(_INDEX, "i", -1))],
            np.array([code_of[int(value)] for value in feature.numbers(_HASHES, "i4")], np.float32),
        )
        for feature in trees.tables(_ONE_HOT)
    ]
    biases = trees.numbers(_BIASES, "f8")
    model = CatboostModelFile(
        np.repeat([column for column, _ in borders + one_hot], [len(part) for _, part in borders + one_hot]),
        np.concatenate([np.empty(0, np.float32), *(part for _, part in borders + one_hot)]),
        sum(len(part) for _, part in borders),
        trees.numbers(_DEPTHS, "i4").astype(np.int64),
        trees.numbers(_SPLITS, "i4").astype(np.int64),
        trees.numbers(_VALUES, "f8"),
        trees.numbers(_WEIGHTS, "f8"),
        len(numbers) + len(categories),
        trees.number(_SCALE, "d", 1.0),
        float(biases[0]) if len(biases) else trees.number(_BIAS, "d", 0.0),
    )
    _check(model)
    return model


def _check(model: CatboostModelFile) -> None:
    """Check every index against the array that it points into: a file may be crafted."""
    depths, leaves = model.depths, 1 << model.depths.clip(0, _DEEPEST)
    if (depths < 0).any() or (depths > _DEEPEST).any() or depths.sum() != len(model.splits):
        raise ValueError("impossible depths of trees")
    if leaves.sum() != len(model.leaves) or len(model.leaves) != len(model.weights):
        raise ValueError("a number of leaves that does not match the trees")
    for places, end in ((model.splits, len(model.values)), (model.columns, model.features)):
        if len(places) and (places.min() < 0 or places.max() >= end):
            raise ValueError("a reference to a missing split or column")
    if not (np.isfinite(model.leaves).all() and (model.weights >= 0).all()):
        raise ValueError("a leaf value that is not a number")


def _hash(text: str) -> int:
    """Hash a category of up to three characters as CatBoost does: CityHash64, its low half, signed."""
    k2, k3, most = 0x9AE16A3B2F90404F, 0xC949D7C7509E6557, (1 << 64) - 1
    first, middle, last = (ord(text[place]) for place in (0, len(text) // 2, -1))
    mixed = (((first + (middle << 8)) * k2) ^ ((len(text) + (last << 2)) * k3)) & most
    low = ((mixed ^ (mixed >> 47)) * k2) & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low
