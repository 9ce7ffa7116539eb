"""What serves is loaded once, and makes room for what takes its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forewarn.assess.champions import Champions
from forewarn.errors import BundleError
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.serving import ModelName, Serving


class Answering:
    """Stands for a bundle that can be asked."""

    def check_answers(self) -> None:
        pass


def test_a_promoted_model_takes_the_place_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector runs for months: what no longer serves must not stay in memory."""
    loaded: list[str] = []

    def load(folder: Path) -> Any:
        loaded.append(folder.name)
        return Answering()

    monkeypatch.setattr(Bundle, "load", load)
    serving = Serving(tmp_path / "models")
    champions = Champions("alps", serving)
    versions = ["0" * 64, "1" * 64, "2" * 64]
    for number, version in enumerate(versions):
        serving.point(ModelName("alps", "submit", "generic"), number, version)
        champions = champions.refreshed()
        for _ in range(2):
            champion = champions.get("submit", "generic")
            assert champion is not None
            assert champion.version == number
    assert loaded == versions, "each once"
    assert len(champions._loaded) == 1


def test_a_bad_bundle_is_refused_and_the_one_before_serves_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def load(folder: Path) -> Any:
        if folder.name.startswith("b"):
            raise BundleError("a file was changed")
        return Answering()

    monkeypatch.setattr(Bundle, "load", load)
    serving, name = Serving(tmp_path / "models"), ModelName("alps", "submit", "generic")
    serving.point(name, 1, "a" * 64)
    first = Champions("alps", serving)
    assert first.get("submit", "generic")
    serving.point(name, 2, "b" * 64)
    second = first.refreshed()
    served = second.get("submit", "generic")
    assert served is not None
    assert served.version == 1
    assert "version 2 is refused" in caplog.text
    assert second.refreshed() is second, "it is not tried again and again"
    serving.point(name, 3, "c" * 64)
    third = second.refreshed().get("submit", "generic")
    assert third is not None
    assert third.version == 3


def test_a_bad_bundle_where_there_was_none_leaves_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: Path) -> Any:
        raise BundleError("a file was changed")

    monkeypatch.setattr(Bundle, "load", load)
    serving = Serving(tmp_path / "models")
    champions = Champions("alps", serving)
    serving.point(ModelName("alps", "submit", "generic"), 1, "b" * 64)
    after = champions.refreshed()
    assert after.get("submit", "generic") is None
    assert not after.serve_at("submit")
