"""What serves is loaded once, and makes room for what takes its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forewarn.assess.champions import Champions
from forewarn.learn.bundle import Bundle
from forewarn.learn.serving import ModelName, Serving


def test_a_promoted_model_takes_the_place_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector runs for months: what no longer serves must not stay in memory."""
    loaded: list[str] = []

    def load(folder: Path) -> Any:
        loaded.append(folder.name)
        return object()

    monkeypatch.setattr(Bundle, "load", load)
    serving = Serving(tmp_path / "models")
    champions = Champions("alps", serving)
    versions = ["0" * 64, "1" * 64, "2" * 64]
    for number, version in enumerate(versions):
        serving.point(ModelName("alps", "submit", "generic"), number, version)
        for _ in range(2):
            champion = champions.get("submit", "generic")
            assert champion is not None
            assert champion.version == number
    assert loaded == versions, "each once"
    assert len(champions._loaded) == 1
