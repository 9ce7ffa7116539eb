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
    """Search among the toy families on a synthetic sample."""
    train, validation = make_sample(600, 0), make_sample(300, 1)
    names = train.matrix.names
    scores = dict(zip(names, map(float, correlations(train)), strict=True))
    rankings = Rankings(names, {"correlation": scores, "importance": scores})
    return search(train, validation, rankings, settings, **more)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--fits", type=Path)
    parser.add_argument("--ray-address")
    arguments = parser.parse_args()
    slow = Slow()
    slow.fits = arguments.fits
    forewarn.learn.search.search.family = {"slow": slow}.__getitem__  # type: ignore[assignment, attr-defined]
    settings = SearchSettings(
        folder=arguments.folder,
        families=("slow",),
        trials=arguments.trials,
        threads=2,
        ray_address=arguments.ray_address,
    )

    def progress(now: SearchProgress) -> None:
        print(now.done, flush=True)

    print(json.dumps(toy_search(settings, progress=progress).to_json()))


if __name__ == "__main__":
    main()
