"""XGBoost's trees through its C interface: for predictions only, from any number of threads at once.

XGBoost promises that predictions of one booster may run at the same time as long as nothing changes it
(https://xgboost.readthedocs.io/en/stable/prediction.html). So the number of threads is set once, before the
first prediction: few rows are predicted by a booster with one thread, many by one that may use more.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Collection
from ctypes import CDLL, POINTER, byref, c_char, c_char_p, c_float, c_int, c_uint64, c_void_p, string_at
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.families.shared_library import LibraryError, open_library

Floats32 = NDArray[np.float32]
Floats = NDArray[np.float64]
FEW = 1000  # rows up to which several threads are slower than one; on a busy machine a hundred times slower
_MARGIN, _CONTRIBUTION = 1, 2  # codes of predictions in the C interface
_COUNT, _SHAPE, _FLOATS = POINTER(c_uint64), POINTER(POINTER(c_uint64)), POINTER(POINTER(c_float))
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "XGBoosterCreate": (c_void_p, c_uint64, POINTER(c_void_p)),
    "XGBoosterFree": (c_void_p,),
    "XGBoosterLoadModelFromBuffer": (c_void_p, c_char_p, c_uint64),
    "XGBoosterSaveModel": (c_void_p, c_char_p),
    "XGBoosterSaveModelToBuffer": (c_void_p, c_char_p, _COUNT, POINTER(POINTER(c_char))),
    "XGBoosterSetParam": (c_void_p, c_char_p, c_char_p),
    "XGBoosterBoostedRounds": (c_void_p, POINTER(c_int)),
    "XGBoosterGetNumFeature": (c_void_p, _COUNT),
    "XGBoosterFeatureScore": (
        *(c_void_p, c_char_p, _COUNT, POINTER(POINTER(c_char_p))),
        *(_COUNT, _SHAPE, _FLOATS),
    ),
    "XGBoosterPredictFromDense": (c_void_p, c_char_p, c_char_p, c_void_p, _SHAPE, _COUNT, _FLOATS),
    "XGBoosterPredictFromDMatrix": (c_void_p, c_void_p, c_char_p, _SHAPE, _COUNT, _FLOATS),
    "XGProxyDMatrixCreate": (POINTER(c_void_p),),
    "XGDMatrixCreateFromDense": (c_char_p, c_char_p, POINTER(c_void_p)),
    "XGDMatrixSetInfoFromInterface": (c_void_p, c_char_p, c_char_p),
    "XGDMatrixSetStrFeatureInfo": (c_void_p, c_char_p, POINTER(c_char_p), c_uint64),
    "XGDMatrixFree": (c_void_p,),
}
# XGBoost takes rows in a proxy matrix, whose creation takes as long as the prediction of a row. So proxies
# are reused: each serves one call at a time, and there are never more than there were calls at once.
_PROXIES: list[int] = []


class XgboostTrees:
    """A fitted booster, which no call changes."""

    def __init__(self, model: bytes, categorical: Collection[int] = (), threads: int = 1) -> None:
        """Read a model as XGBoost saves it. Raises `LibraryError` for data that is no model."""
        self._library = _library()
        self._one = self._booster(model, 1)
        self._several = self._one if threads == 1 else self._booster(model, threads)
        self._threads = threads
        self.features = self._feature_count()
        kinds = [b"c" if place in categorical else b"q" for place in range(self.features)]
        self._kinds = (c_char_p * self.features)(*kinds)
        # A booster completes its configuration in its first prediction: here, before any other thread calls
        # it.
        nothing = np.full((FEW + 1, self.features), np.nan, np.float32)
        for rows in {1, 1 if threads == 1 else len(nothing)}:
            self.margins(nothing[:rows])
        self.intercept = self._find_intercept(nothing[:1])

    @property
    def rounds(self) -> int:
        """The number of boosted rounds."""
        count = c_int()
        self._call("XGBoosterBoostedRounds", self._one, byref(count))
        return count.value

    def margins(self, values: Floats32) -> Floats32:
        """Compute the margins of rows, intercept included: one flat array, a row's outputs side by side."""
        try:
            proxy = _PROXIES.pop()
        except IndexError:
            proxy = self._create("XGProxyDMatrixCreate")
        try:
            return self._predict(values, proxy)
        finally:
            _PROXIES.append(proxy)

    def leaves(self, values: Floats32) -> Floats:
        """Compute the margins of rows without the intercept: row × output."""
        return self.margins(values).reshape(len(values), -1) - self.intercept

    def contributions(self, values: Floats32) -> Floats32:
        """Compute the contribution of each column to a row's margin (exact TreeSHAP), the bias last."""
        many = len(values) > FEW
        booster, threads = (self._several, self._threads) if many else (self._one, 1)
        settings = _text(missing=float("nan"), nthread=threads)
        rows = self._create("XGDMatrixCreateFromDense", _interface(values), settings)
        try:
            kinds = self._kinds
            self._call("XGDMatrixSetStrFeatureInfo", rows, b"feature_type", kinds, len(kinds))
            return self._answer("XGBoosterPredictFromDMatrix", booster, rows, _CONTRIBUTIONS).reshape(
                len(values), -1
            )
        finally:
            self._library.XGDMatrixFree(rows)

    def gains(self) -> Floats:
        """Sum the gains of the splits at each column."""
        count, dimensions = c_uint64(), c_uint64()
        names, shape, scores = POINTER(c_char_p)(), POINTER(c_uint64)(), POINTER(c_float)()
        self._call(
            "XGBoosterFeatureScore",
            *(self._one, _text(importance_type="total_gain"), byref(count), byref(names)),
            *(byref(dimensions), byref(shape), byref(scores)),
        )
        gains = np.zeros(self.features)
        for place in range(count.value):
            gains[int((names[place] or b"f0")[1:])] = scores[place]  # named f0, f1 …
        return gains

    def save(self, path: Path) -> None:
        """Write the model in the format that the path's suffix names."""
        self._call("XGBoosterSaveModel", self._one, str(path).encode())

    def to_json(self) -> Any:
        """Return the model in XGBoost's JSON form."""
        size, text = c_uint64(), POINTER(c_char)()
        self._call("XGBoosterSaveModelToBuffer", self._one, _text(format="json"), byref(size), byref(text))
        return json.loads(string_at(text, size.value))

    def _booster(self, model: bytes, threads: int) -> int:
        booster = self._create("XGBoosterCreate", None, 0)
        weakref.finalize(self, self._library.XGBoosterFree, booster).atexit = False
        self._call("XGBoosterLoadModelFromBuffer", booster, model, len(model))
        self._call("XGBoosterSetParam", booster, b"nthread", str(threads).encode())
        return booster

    def _feature_count(self) -> int:
        count = c_uint64()
        self._call("XGBoosterGetNumFeature", self._one, byref(count))
        return count.value

    def _find_intercept(self, row: Floats32) -> Floats:
        """Compute the intercept: a row's margin minus its margin with a base margin of 0."""
        margins, proxy = self.margins(row), self._create("XGProxyDMatrixCreate")
        try:
            zeros = np.zeros((1, len(margins)), np.float32)
            self._call("XGDMatrixSetInfoFromInterface", proxy, b"base_margin", _interface(zeros))
            return margins.astype(np.float64) - self._predict(row, proxy)
        finally:
            self._library.XGDMatrixFree(proxy)

    def _predict(self, values: Floats32, proxy: int) -> Floats32:
        booster = self._several if len(values) > FEW else self._one
        return self._answer("XGBoosterPredictFromDense", booster, _interface(values), _MARGINS, proxy)

    def _create(self, name: str, *arguments: Any) -> int:
        handle = c_void_p()
        self._call(name, *arguments, byref(handle))
        return handle.value or 0

    def _answer(self, name: str, *arguments: Any) -> Floats32:
        shape, dimensions, numbers = POINTER(c_uint64)(), c_uint64(), POINTER(c_float)()
        self._call(name, *arguments, byref(shape), byref(dimensions), byref(numbers))
        count = prod(shape[: dimensions.value])
        # Copied: the memory is XGBoost's, and valid only until the next call from this thread.
        return np.frombuffer(string_at(numbers, 4 * count), np.float32)

    def _call(self, name: str, *arguments: Any) -> None:
        if getattr(self._library, name)(*arguments):
            raise LibraryError(self._library.XGBGetLastError().decode(errors="replace"))


@cache
def _library() -> CDLL:
    library = open_library("xgboost", CDLL)
    for name, types in _SIGNATURES.items():
        getattr(library, name).argtypes = types
    library.XGBGetLastError.restype = c_char_p
    return library


def _text(**settings: Any) -> bytes:
    return json.dumps(settings).encode()


def _prediction(prediction: int) -> bytes:
    all_rounds = {"training": False, "iteration_begin": 0, "iteration_end": 0, "strict_shape": False}
    return _text(type=prediction, missing=float("nan"), cache_id=0, **all_rounds)


def _interface(values: Floats32) -> bytes:
    """Describe a contiguous array in the JSON form of NumPy's array interface."""
    pointer, shape = values.__array_interface__["data"][0], str(list(values.shape))
    return f'{{"data":[{pointer},true],"shape":{shape},"typestr":"<f4","version":3}}'.encode()


_MARGINS, _CONTRIBUTIONS = _prediction(_MARGIN), _prediction(_CONTRIBUTION)
