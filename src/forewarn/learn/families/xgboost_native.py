"""XGBoost's trees through its C interface: for answering only, from any number of threads at once.

XGBoost promises that predictions of one booster may run at the same time as long as nobody changes it
(https://xgboost.readthedocs.io/en/stable/prediction.html). So the number of threads is set once, before
anybody asks: few rows are told by a booster of one thread, many by one that may take more.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Collection
from ctypes import CDLL, POINTER, byref, c_char_p, c_float, c_int, c_uint64, c_void_p, string_at
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.families.shared_library import LibraryError, open_library

Values = NDArray[np.float32]
Floats = NDArray[np.float64]
FEW = 1000  # rows up to which threads cost more than they bring; on a busy machine a hundred times more
_MARGIN, _CONTRIBUTION = 1, 2  # kinds of predictions in the C interface
_COUNT, _SHAPE, _FLOATS = POINTER(c_uint64), POINTER(POINTER(c_uint64)), POINTER(POINTER(c_float))
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "XGBoosterCreate": (c_void_p, c_uint64, POINTER(c_void_p)),
    "XGBoosterFree": (c_void_p,),
    "XGBoosterLoadModelFromBuffer": (c_void_p, c_char_p, c_uint64),
    "XGBoosterSaveModel": (c_void_p, c_char_p),
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
# XGBoost takes rows in a matrix of its own, which takes as long to make as a row's trees take. Each serves
# one call at a time; there are never more of them than there were calls at once.
_PROXIES: list[int] = []


class XgboostTrees:
    """A fitted booster, which no call changes."""

    def __init__(self, model: bytes, categorical: Collection[int] = (), threads: int = 1) -> None:
        """Read a model as XGBoost saves it. Raises `LibraryError` for what is none."""
        self._library = _library()
        self._one = self._booster(model, 1)
        self._several = self._one if threads == 1 else self._booster(model, threads)
        self._threads = threads
        self.features = self._feature_count()
        kinds = [b"c" if place in categorical else b"q" for place in range(self.features)]
        self._kinds = (c_char_p * self.features)(*kinds)
        # A booster settles its own configuration in its first prediction: here, while nobody else asks.
        nothing = np.full((FEW + 1, self.features), np.nan, np.float32)
        for rows in {1, 1 if threads == 1 else len(nothing)}:
            self.margins(nothing[:rows])
        self._intercept = self._found_intercept(nothing[:1])

    @property
    def rounds(self) -> int:
        """Boosted rounds."""
        found = c_int()
        self._call("XGBoosterBoostedRounds", self._one, byref(found))
        return found.value

    def margins(self, values: Values) -> Values:
        """Sum the leaves of rows and what the model starts from: flat, a row's outputs beside each other."""
        try:
            proxy = _PROXIES.pop()
        except IndexError:
            proxy = self._created("XGProxyDMatrixCreate")
        try:
            return self._predicted(values, proxy)
        finally:
            _PROXIES.append(proxy)

    def leaves(self, values: Values) -> Floats:
        """Sum the leaves of rows alone, for a model that starts from elsewhere: row × output."""
        return self.margins(values).reshape(len(values), -1) - self._intercept

    def contributions(self, values: Values) -> Values:
        """Compute what each column brought to a row's margin (exact TreeSHAP), the bias last."""
        many = len(values) > FEW
        booster, threads = (self._several, self._threads) if many else (self._one, 1)
        settings = _text(missing=float("nan"), nthread=threads)
        rows = self._created("XGDMatrixCreateFromDense", _interface(values), settings)
        try:
            kinds = self._kinds
            self._call("XGDMatrixSetStrFeatureInfo", rows, b"feature_type", kinds, len(kinds))
            return self._answer("XGBoosterPredictFromDMatrix", booster, rows, _CONTRIBUTIONS).reshape(
                len(values), -1
            )
        finally:
            self._library.XGDMatrixFree(rows)

    def gains(self) -> Floats:
        """Sum what the splits at each column gained."""
        count, dimensions = c_uint64(), c_uint64()
        names, shape, scores = POINTER(c_char_p)(), POINTER(c_uint64)(), POINTER(c_float)()
        self._call(
            "XGBoosterFeatureScore",
            *(self._one, _text(importance_type="total_gain"), byref(count), byref(names)),
            *(byref(dimensions), byref(shape), byref(scores)),
        )
        found = np.zeros(self.features)
        for place in range(count.value):
            found[int((names[place] or b"f0")[1:])] = scores[place]  # named f0, f1 …
        return found

    def save(self, path: Path) -> None:
        """Write the model as XGBoost does, by the ending of the path."""
        self._call("XGBoosterSaveModel", self._one, str(path).encode())

    def _booster(self, model: bytes, threads: int) -> int:
        booster = self._created("XGBoosterCreate", None, 0)
        weakref.finalize(self, self._library.XGBoosterFree, booster).atexit = False
        self._call("XGBoosterLoadModelFromBuffer", booster, model, len(model))
        self._call("XGBoosterSetParam", booster, b"nthread", str(threads).encode())
        return booster

    def _feature_count(self) -> int:
        found = c_uint64()
        self._call("XGBoosterGetNumFeature", self._one, byref(found))
        return found.value

    def _found_intercept(self, row: Values) -> Floats:
        """Compare a row with itself started from 0."""
        margins, proxy = self.margins(row), self._created("XGProxyDMatrixCreate")
        try:
            zeros = np.zeros((1, len(margins)), np.float32)
            self._call("XGDMatrixSetInfoFromInterface", proxy, b"base_margin", _interface(zeros))
            return margins.astype(np.float64) - self._predicted(row, proxy)
        finally:
            self._library.XGDMatrixFree(proxy)

    def _predicted(self, values: Values, proxy: int) -> Values:
        booster = self._several if len(values) > FEW else self._one
        return self._answer("XGBoosterPredictFromDense", booster, _interface(values), _MARGINS, proxy)

    def _created(self, name: str, *arguments: Any) -> int:
        handle = c_void_p()
        self._call(name, *arguments, byref(handle))
        return handle.value or 0

    def _answer(self, name: str, *arguments: Any) -> Values:
        shape, dimensions, numbers = POINTER(c_uint64)(), c_uint64(), POINTER(c_float)()
        self._call(name, *arguments, byref(shape), byref(dimensions), byref(numbers))
        count = prod(shape[: dimensions.value])
        # XGBoost's memory, of this thread, until its next call: copied.
        return np.frombuffer(string_at(numbers, 4 * count), np.float32)

    def _call(self, name: str, *arguments: Any) -> None:
        if getattr(self._library, name)(*arguments):
            raise LibraryError(self._library.XGBGetLastError().decode(errors="replace"))


@cache
def _library() -> CDLL:
    found = open_library("xgboost", CDLL)
    for name, types in _SIGNATURES.items():
        getattr(found, name).argtypes = types
    found.XGBGetLastError.restype = c_char_p
    return found


def _text(**settings: Any) -> bytes:
    return json.dumps(settings).encode()


def _prediction(kind: int) -> bytes:
    whole = {"training": False, "iteration_begin": 0, "iteration_end": 0, "strict_shape": False}
    return _text(type=kind, missing=float("nan"), cache_id=0, **whole)


def _interface(values: Values) -> bytes:
    """Describe an array in one piece, as NumPy's array interface does."""
    pointer, shape = values.__array_interface__["data"][0], str(list(values.shape))
    return f'{{"data":[{pointer},true],"shape":{shape},"typestr":"<f4","version":3}}'.encode()


_MARGINS, _CONTRIBUTIONS = _prediction(_MARGIN), _prediction(_CONTRIBUTION)
