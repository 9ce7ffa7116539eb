"""LightGBM's trees through its C interface: for predictions only, from any number of threads at once.

LightGBM's number of threads is a setting of the whole process, and a batch would write beyond its buffers if
a fit in another thread changed the setting meanwhile. So rows are predicted one by one, by predictors without
threads (`…SingleRowFast`), which is hardly slower than a batch in one thread. Only a model that has just been
fitted with several threads uses them for many rows, as the fit did.
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

Floats32 = NDArray[np.float32]
Floats = NDArray[np.float64]
FEW = 1000  # rows up to which several threads are slower than one
_MARGIN, _CONTRIBUTION = 1, 3  # codes of predictions in the C interface
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
        """Read a model in LightGBM's text format, which itself names the categorical columns.

        Raises `LibraryError` for text that is no model.
        """
        # A row's margin takes microseconds, less than releasing and taking Python's lock again. So the lock
        # is kept (`PyDLL`), and one predictor is enough for all threads.
        self._library, self._library_keeping_lock = _library(CDLL), _library(PyDLL)
        self._threads = threads
        rounds, handle, features = c_int(), c_void_p(), c_int()
        self._call("LGBM_BoosterLoadModelFromString", model, byref(rounds), byref(handle))
        self._booster = handle.value or 0
        weakref.finalize(self, self._library.LGBM_BoosterFree, self._booster).atexit = False
        self._call("LGBM_BoosterGetNumFeature", self._booster, byref(features))
        self.rounds, self.features = rounds.value, features.value
        self._margin = self._row_predictor(_MARGIN)
        # A row's contributions take longer: each call has a predictor of its own, so that threads run at
        # once.
        self._idle = [self._row_predictor(_CONTRIBUTION)]

    def margins(self, values: Floats32) -> Floats:
        """Compute the margin of each row."""
        margins = np.empty(len(values))
        if self._threads > 1 and len(values) > FEW:
            self._batch(values, _MARGIN, margins)
        else:
            self._row_by_row(self._library_keeping_lock, self._margin, values, margins)
        return margins

    def contributions(self, values: Floats32) -> Floats:
        """Compute the contribution of each column to a row's margin (exact TreeSHAP), the bias last."""
        contributions = np.empty((len(values), self.features + 1))
        if self._threads > 1 and len(values) > FEW:
            self._batch(values, _CONTRIBUTION, contributions)
            return contributions
        try:
            predictor = self._idle.pop()
        except IndexError:
            predictor = self._row_predictor(_CONTRIBUTION)
        try:
            self._row_by_row(self._library, predictor, values, contributions)
        finally:
            self._idle.append(predictor)
        return contributions

    def gains(self) -> Floats:
        """Sum the gains of the splits at each column."""
        gains = np.zeros(self.features)
        self._call("LGBM_BoosterFeatureImportance", self._booster, 0, _BY_GAIN, gains.ctypes.data)
        return gains

    def save(self, path: Path) -> None:
        """Write the model in LightGBM's text format."""
        self._call("LGBM_BoosterSaveModel", self._booster, 0, _ALL, 0, str(path).encode())

    def _row_predictor(self, prediction: int) -> int:
        handle = c_void_p()
        self._call(
            "LGBM_BoosterPredictForMatSingleRowFastInit",
            *(self._booster, prediction, 0, _ALL, _FLOAT32, self.features, _settings(1), byref(handle)),
        )
        weakref.finalize(self, self._library.LGBM_FastConfigFree, handle.value).atexit = False
        return handle.value or 0

    def _row_by_row(self, library: CDLL, predictor: int, values: Floats32, result: Floats) -> None:
        predict, count = library.LGBM_BoosterPredictForMatSingleRowFast, c_int64()
        row, answer = values.ctypes.data, result.ctypes.data
        for _ in range(len(values)):
            if predict(predictor, row, byref(count), answer):
                raise self._error()
            row += values.strides[0]
            answer += result.strides[0]

    def _batch(self, values: Floats32, prediction: int, result: Floats) -> None:
        count = c_int64()
        self._call(
            "LGBM_BoosterPredictForMat",
            *(self._booster, values.ctypes.data, _FLOAT32, *values.shape, _ROW_MAJOR, prediction, 0, _ALL),
            *(_settings(self._threads), byref(count), result.ctypes.data),
        )

    def _call(self, name: str, *arguments: Any) -> None:
        if getattr(self._library, name)(*arguments):
            raise self._error()

    def _error(self) -> LibraryError:
        return LibraryError(self._library.LGBM_GetLastError().decode(errors="replace"))


@cache
def _library(library_type: type[CDLL]) -> CDLL:
    library = open_library("lightgbm", library_type)
    for name, types in _SIGNATURES.items():
        getattr(library, name).argtypes = types
    library.LGBM_GetLastError.restype = c_char_p
    return library


def _settings(threads: int) -> bytes:
    return f"num_threads={threads} verbosity=-1".encode()
