"""CatBoost's own file, read without CatBoost: importing that takes most of a second.

A model of ours is symmetric trees over two kinds of questions: whether a number lies above a border, and
whether a category is a certain one. Anything else that CatBoost can keep (texts, embeddings, statistics of
categories) is refused: `families/catboost.py` fits nothing of it.
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
_CODES = range(-1, 1000)  # that a categorical column may hold; -1 is missing


@dataclass(frozen=True, slots=True)
class CatboostModelFile:
    """What a file says. A question is a column, counted with the categories last, and a value."""

    columns: NDArray[np.int64]  # question → column
    values: NDArray[np.float32]  # question → border, or code of a category
    numbers: int  # questions about numbers come first: so many; the others are about categories
    depths: NDArray[np.int64]  # by tree
    splits: NDArray[np.int64]  # questions, tree after tree, as many as each is deep
    leaves: NDArray[np.float64]  # tree after tree; the first split is the lowest bit of a leaf's place
    weights: NDArray[np.float64]  # of the training rows in each leaf
    features: int
    scale: float
    bias: float


def read_catboost(data: bytes) -> CatboostModelFile:
    """Read a file. Raises `LibraryError` for what is none, or of another kind than is fitted here."""
    try:
        return _read(data)
    except (struct.error, ValueError, IndexError, KeyError, OverflowError) as error:
        raise LibraryError(f"not a model as CatBoost writes it here ({error})") from error


def _read(data: bytes) -> CatboostModelFile:
    if data[:4] != b"CBM1":
        raise ValueError("it begins otherwise")
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
        raise ValueError("missing values above all others")
    flat = [int(category.number(_CATEGORY_FLAT_INDEX, "i", -1)) for category in categories]
    code_of = {_hash(str(code)): code for code in _CODES}
    asked = [
        (int(feature.number(_FLAT_INDEX, "i", -1)), feature.numbers(_BORDERS, "f4")) for feature in numbers
    ]
    known = [
        (
            flat[int(feature.number(_INDEX, "i", -1))],
            np.array([code_of[int(value)] for value in feature.numbers(_HASHES, "i4")], np.float32),
        )
        for feature in trees.tables(_ONE_HOT)
    ]
    biases = trees.numbers(_BIASES, "f8")
    made = CatboostModelFile(
        np.repeat([column for column, _ in asked + known], [len(part) for _, part in asked + known]),
        np.concatenate([np.empty(0, np.float32), *(part for _, part in asked + known)]),
        sum(len(part) for _, part in asked),
        trees.numbers(_DEPTHS, "i4").astype(np.int64),
        trees.numbers(_SPLITS, "i4").astype(np.int64),
        trees.numbers(_VALUES, "f8"),
        trees.numbers(_WEIGHTS, "f8"),
        len(numbers) + len(categories),
        trees.number(_SCALE, "d", 1.0),
        float(biases[0]) if len(biases) else trees.number(_BIAS, "d", 0.0),
    )
    _check(made)
    return made


def _check(model: CatboostModelFile) -> None:
    """Hold every place against what it points into: a file that is whole may still be crafted."""
    depths, leaves = model.depths, 1 << model.depths.clip(0, _DEEPEST)
    if (depths < 0).any() or (depths > _DEEPEST).any() or depths.sum() != len(model.splits):
        raise ValueError("depths that are none")
    if leaves.sum() != len(model.leaves) or len(model.leaves) != len(model.weights):
        raise ValueError("leaves that are not those of the trees")
    for places, end in ((model.splits, len(model.values)), (model.columns, model.features)):
        if len(places) and (places.min() < 0 or places.max() >= end):
            raise ValueError("a question that there is not")
    if not (np.isfinite(model.leaves).all() and (model.weights >= 0).all()):
        raise ValueError("a leaf that is no number")


def _hash(text: str) -> int:
    """Hash a category of up to three characters as CatBoost does: CityHash64, its low half, signed."""
    k2, k3, most = 0x9AE16A3B2F90404F, 0xC949D7C7509E6557, (1 << 64) - 1
    first, middle, last = (ord(text[place]) for place in (0, len(text) // 2, -1))
    mixed = (((first + (middle << 8)) * k2) ^ ((len(text) + (last << 2)) * k3)) & most
    low = ((mixed ^ (mixed >> 47)) * k2) & 0xFFFFFFFF
    return low - (1 << 32) if low >= 1 << 31 else low
