"""Without the extra `train`, the answer comes before any work: tests/release has the same for real."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import forewarn
from forewarn.learn.extra import PACKAGES, check_train_extra

FITS = {
    "train": lambda site: site.train(),
    "bench": lambda site: site.bench(),
    "compare": lambda site: site.compare(),
    "profiles": lambda site: site.profiles(),
}


def test_nothing_is_missing_here() -> None:
    check_train_extra()


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_missing_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    line = f"needs {package}, not installed here: pip install 'forewarn[train]'"
    with pytest.raises(forewarn.MissingExtraError, match=re.escape(line)):
        check_train_extra()


@pytest.mark.parametrize("name", FITS)
def test_no_history_is_read_before(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with forewarn.open(tmp_path / "home") as site, pytest.raises(forewarn.MissingExtraError):
        FITS[name](site)  # else a StoreError: there is no store
