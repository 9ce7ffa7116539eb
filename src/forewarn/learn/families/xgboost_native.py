"""XGBoost's trees through its C interface: for answering only, from any number of threads at once.

XGBoost promises that predictions of one booster may run at the same time as long as nobody changes it
(`doc/prediction.rst`). So the number of threads is set once, before anybody asks: few rows are told by a booster
of one thread, many by one that may take more.
"""

from __future__ import annotations

import json
import weakref
from collections.abc import Callable, Collection
from ctypes import CDLL, POINTER, byref, c_char_p, c_float, c_int, c_uint64, c_void_p, string_at
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.families.shared_library import LibraryError, open_library

Values = NDArray[np.float32]
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
        nothing = np.full((2, self.features), np.nan, np.float32)
        outputs = [self._predicted(booster, nothing).size // 2 for booster in {self._one, self._several}]
        self.outputs = outputs[0]

    @property
    def rounds(self) -> int:
        """Boosted rounds."""
        found = c_int()
        self._call("XGBoosterBoostedRounds", self._one, byref(found))
        return found.value

    def margins(self, values: Values, base: Values | None = None) -> Values:
        """Sum the leaves of rows, beside what the model starts from or, where given, `base`.

        `base` holds a number for each row and output. The result is flat, row by row.
        """
        booster = self._several if len(values) > FEW else self._one
        if base is None:
            return self._predicted(booster, values)
        start = np.ascontiguousarray(base, np.float32)
        return self._made("XGProxyDMatrixCreate", (), lambda proxy: self._from(booster, values, proxy, start))

    def contributions(self, values: Values) -> Values:
        """Compute what each column brought to a row's margin (exact TreeSHAP), the bias last."""
        many = len(values) > FEW
        booster, threads = (self._several, self._threads) if many else (self._one, 1)
        settings = _text(missing=float("nan"), nthread=threads)

        def told(rows: int) -> Values:
            self._call("XGDMatrixSetStrFeatureInfo", rows, b"feature_type", self._kinds, len(self._kinds))
            return self._answer("XGBoosterPredictFromDMatrix", booster, rows, _CONTRIBUTIONS)

        found = self._made("XGDMatrixCreateFromDense", (_interface(values), settings), told)
        return found.reshape(len(values), -1)

    def gains(self) -> NDArray[np.float64]:
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
        handle = c_void_p()
        self._call("XGBoosterCreate", None, 0, byref(handle))
        booster = handle.value or 0
        weakref.finalize(self, self._library.XGBoosterFree, booster).atexit = False
        self._call("XGBoosterLoadModelFromBuffer", booster, model, len(model))
        self._call("XGBoosterSetParam", booster, b"nthread", str(threads).encode())
        return booster

    def _feature_count(self) -> int:
        found = c_uint64()
        self._call("XGBoosterGetNumFeature", self._one, byref(found))
        return found.value

    def _predicted(self, booster: int, values: Values, proxy: int | None = None) -> Values:
        return self._answer("XGBoosterPredictFromDense", booster, _interface(values), _MARGINS, proxy)

    def _from(self, booster: int, values: Values, proxy: int, start: Values) -> Values:
        self._call("XGDMatrixSetInfoFromInterface", proxy, b"base_margin", _interface(start))
        return self._predicted(booster, values, proxy)

    def _made(self, create: str, arguments: tuple[bytes, ...], use: Callable[[int], Values]) -> Values:
        """Use a matrix of XGBoost's own that ends with the call."""
        handle = c_void_p()
        self._call(create, *arguments, byref(handle))
        try:
            return use(handle.value or 0)
        finally:
            self._library.XGDMatrixFree(handle)

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
