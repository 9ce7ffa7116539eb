"""LightGBM's trees through its C interface: for answering only, from any number of threads at once.

LightGBM's number of threads is one of the whole process, and a batch during which it changes, because
somebody fits a model meanwhile, would write beyond its buffers. So rows are told one by one, by predictors
that know no threads (`…SingleRowFast`): hardly slower than a batch in one thread. Only a model that has just
been fitted, with several threads, takes them for many rows, as the fit did.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection
from ctypes import (
    CDLL,
    POINTER,
    PyDLL,
    byref,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_void_p,
)
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarn.learn.families.shared_library import LibraryError, open_library

Values = NDArray[np.float32]
Floats = NDArray[np.float64]
FEW = 1000  # rows up to which threads cost more than they bring
_MARGIN, _CONTRIBUTION = 1, 3  # kinds of predictions in the C interface
_FLOAT32, _ROW_MAJOR, _ALL, _BY_GAIN = 0, 1, -1, 1
_SIGNATURES: dict[str, tuple[Any, ...]] = {
    "LGBM_BoosterLoadModelFromString": (c_char_p, POINTER(c_int), POINTER(c_void_p)),
    "LGBM_BoosterFree": (c_void_p,),
    "LGBM_BoosterSaveModel": (c_void_p, c_int, c_int, c_int, c_char_p),
    "LGBM_BoosterGetNumFeature": (c_void_p, POINTER(c_int)),
    "LGBM_BoosterFeatureImportance": (c_void_p, c_int, c_int, c_void_p),
    "LGBM_BoosterPredictForMat": (
        *(c_void_p, c_void_p, c_int, c_int32, c_int32, c_int, c_int, c_int, c_int),
        *(c_char_p, POINTER(c_int64), c_void_p),
    ),
    "LGBM_BoosterPredictForMatSingleRowFastInit": (
        *(c_void_p, c_int, c_int, c_int, c_int, c_int32, c_char_p),
        POINTER(c_void_p),
    ),
    "LGBM_BoosterPredictForMatSingleRowFast": (c_void_p, c_void_p, POINTER(c_int64), c_void_p),
    "LGBM_FastConfigFree": (c_void_p,),
}


class LightgbmTrees:
    """A fitted booster, which no call changes."""

    def __init__(self, model: bytes, categorical: Collection[int] = (), threads: int = 1) -> None:  # noqa: ARG002
        """Read LightGBM's own text, which names categories itself. Raises `LibraryError` for what is none."""
        # A row's margin takes microseconds: it keeps Python's lock, which costs more to take again. So one
        # predictor is enough for all threads.
        self._library, self._brief = _library(CDLL), _library(PyDLL)
        self._threads = threads
        rounds, handle, features = c_int(), c_void_p(), c_int()
        self._call("LGBM_BoosterLoadModelFromString", model, byref(rounds), byref(handle))
        self._booster = handle.value or 0
        weakref.finalize(self, self._library.LGBM_BoosterFree, self._booster).atexit = False
        self._call("LGBM_BoosterGetNumFeature", self._booster, byref(features))
        self.rounds, self.features = rounds.value, features.value
        self._margin = self._row_predictor(_MARGIN)
        # A row's contributions take long: each thread has a predictor to itself while it asks.
        self._idle = [self._row_predictor(_CONTRIBUTION)]

    def margins(self, values: Values) -> Floats:
        """Sum the leaves of rows."""
        made = np.empty(len(values))
        if self._threads > 1 and len(values) > FEW:
            self._batch(values, _MARGIN, made)
        else:
            self._row_by_row(self._brief, self._margin, values, made)
        return made

    def contributions(self, values: Values) -> Floats:
        """Compute what each column brought to a row's margin (exact TreeSHAP), the bias last."""
        made = np.empty((len(values), self.features + 1))
        if self._threads > 1 and len(values) > FEW:
            self._batch(values, _CONTRIBUTION, made)
            return made
        try:
            predictor = self._idle.pop()
        except IndexError:
            predictor = self._row_predictor(_CONTRIBUTION)
        try:
            self._row_by_row(self._library, predictor, values, made)
        finally:
            self._idle.append(predictor)
        return made

    def gains(self) -> Floats:
        """Sum what the splits at each column gained."""
        found = np.zeros(self.features)
        self._call("LGBM_BoosterFeatureImportance", self._booster, 0, _BY_GAIN, found.ctypes.data)
        return found

    def save(self, path: Path) -> None:
        """Write the model as LightGBM's own text."""
        self._call("LGBM_BoosterSaveModel", self._booster, 0, _ALL, 0, str(path).encode())

    def _row_predictor(self, kind: int) -> int:
        handle = c_void_p()
        self._call(
            "LGBM_BoosterPredictForMatSingleRowFastInit",
            *(self._booster, kind, 0, _ALL, _FLOAT32, self.features, _settings(1), byref(handle)),
        )
        weakref.finalize(self, self._library.LGBM_FastConfigFree, handle.value).atexit = False
        return handle.value or 0

    def _row_by_row(self, library: CDLL, predictor: int, values: Values, made: Floats) -> None:
        tell, count = library.LGBM_BoosterPredictForMatSingleRowFast, c_int64()
        row, answer = values.ctypes.data, made.ctypes.data
        for _ in range(len(values)):
            if tell(predictor, row, byref(count), answer):
                raise self._error()
            row += values.strides[0]
            answer += made.strides[0]

    def _batch(self, values: Values, kind: int, made: Floats) -> None:
        count = c_int64()
        self._call(
            "LGBM_BoosterPredictForMat",
            *(self._booster, values.ctypes.data, _FLOAT32, *values.shape, _ROW_MAJOR, kind, 0, _ALL),
            *(_settings(self._threads), byref(count), made.ctypes.data),
        )

    def _call(self, name: str, *arguments: Any) -> None:
        if getattr(self._library, name)(*arguments):
            raise self._error()

    def _error(self) -> LibraryError:
        return LibraryError(self._library.LGBM_GetLastError().decode(errors="replace"))


@cache
def _library(kind: type[CDLL]) -> CDLL:
    found = open_library("lightgbm", kind)
    for name, types in _SIGNATURES.items():
        getattr(found, name).argtypes = types
    found.LGBM_GetLastError.restype = c_char_p
    return found


def _settings(threads: int) -> bytes:
    return f"num_threads={threads} verbosity=-1".encode()
