"""The report of a training: an HTML page for people and the same as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from forewarn.errors import MissingExtraError
from forewarn.files import write_file, writing
from forewarn.learn.report.wording import headline, warnings

FORMAT = 1
JSON_NAME, HTML_NAME = "report.json", "report.html"


def write_report(report: Mapping[str, Any], folder: Path) -> None:
    """Write `report.json` and `report.html` into a folder, which is created if it does not exist.

    Both contain the format, the verdict and the warnings in addition to `report`. Equal reports give equal
    files.
    """
    try:
        from forewarn.learn.report.html import render
    except ImportError:
        raise MissingExtraError("reports need an optional package: pip install 'forewarn[train]'") from None
    plain = _plain(report)
    content = {"format": FORMAT, "verdict": headline(plain), "warnings": warnings(plain), **plain}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, text in (
        (JSON_NAME, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"),
        (HTML_NAME, render(content)),
    ):
        write_file(folder / name, text)


def _plain(value: Any) -> Any:
    """Convert a value to the types of JSON, so that a long training does not fail on a NaN in its report.

    >>> _plain({"a": (np.float32(0.5), float("nan")), 3: np.array([1])})
    {'a': [0.5, None], '3': [1]}
    """
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
