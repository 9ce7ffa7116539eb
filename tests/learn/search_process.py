"""A search in a process of its own, to be killed or sent elsewhere: python -m tests.learn.search_process."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import forewarn.learn.search.search
from forewarn.learn.data.selection import Rankings, correlations
from forewarn.learn.search.search import SearchProgress, SearchResult, SearchSettings, search
from tests.learn.conftest import make_sample
from tests.learn.toy_family import Slow


def toy_search(settings: SearchSettings, **more: object) -> SearchResult:
    """A search among the toys on a made sample."""
    train, validation = make_sample(600, 0), make_sample(300, 1)
    names = train.matrix.names
    worth = dict(zip(names, map(float, correlations(train)), strict=True))
    rankings = Rankings(names, {"correlation": worth, "importance": worth})
    return search(train, validation, rankings, settings, **more)  # type: ignore[arg-type]


def main() -> None:
    asked = argparse.ArgumentParser()
    asked.add_argument("folder", type=Path)
    asked.add_argument("--trials", type=int)
    asked.add_argument("--fits", type=Path)
    asked.add_argument("--ray-address")
    given = asked.parse_args()
    slow = Slow()
    slow.fits = given.fits
    forewarn.learn.search.search.family = {"slow": slow}.__getitem__  # type: ignore[assignment]
    settings = SearchSettings(
        folder=given.folder, families=("slow",), trials=given.trials, threads=2, ray_address=given.ray_address
    )

    def progress(now: SearchProgress) -> None:
        print(now.done, flush=True)

    print(json.dumps(toy_search(settings, progress=progress).to_json()))


if __name__ == "__main__":
    main()
