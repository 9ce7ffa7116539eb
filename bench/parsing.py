"""Parsing measured against Polars' bare read of the same file.

    python bench/parsing.py                    # 500,000 simulated jobs
    python bench/parsing.py --jobs 50000       # a quick look

The simulator writes the same jobs in each format. A bare read takes the text apart into columns of text (of
numbers for SWF's), or a JSON array into structs, and nothing more; ours also folds steps, reads units and
times, and checks every row. Aim: at most 5 times the bare read. CPU seconds, best of three, in turns.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate


def ours(spec: str) -> Callable[[], int]:
    return lambda: sum(batch.frame.height for batch in open_source(spec).batches())


def bare_sacct(path: Path) -> int:
    return pl.read_csv(path, separator="|", quote_char=None, infer_schema=False).height


def bare_swf(path: Path) -> int:
    # Columns stand apart by runs of spaces, which no CSV reader splits: lines, then their parts as numbers.
    lines = pl.read_csv(path, has_header=False, separator="\x01", quote_char=None, new_columns=["line"])
    parts = pl.col("line").str.strip_chars().str.replace_all(r"\s+", " ").str.split_exact(" ", 17)
    rows = lines.filter(~pl.col("line").str.starts_with(";")).select(parts.alias("p")).unnest("p")
    return rows.select(pl.all().cast(pl.Float64)).height


def bare_json(path: Path) -> int:
    return len(pl.read_json(path)["jobs"].explode())


def bare_parquet(path: Path) -> int:
    return pl.read_parquet(path).height


BARE: dict[str, Callable[[Path], int]] = {
    "sacct": bare_sacct,
    "swf": bare_swf,
    "slurmrestd": bare_json,
    "parquet": bare_parquet,
}


def timed(call: Callable[[], int]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=500_000)
    jobs = parser.parse_args().jobs
    print(
        f"{'format':<12} {'file MB':>8} {'rows':>9} {'ours s':>8} {'rows/s':>10} {'bare s':>8} {'ratio':>6}"
    )
    with TemporaryDirectory() as name:
        for format_, bare in BARE.items():
            count = jobs // 10 if format_ == "slurmrestd" else jobs  # 5 kB a job
            path = Path(name) / f"jobs.{format_}"
            simulate("default", count, 1, path, format_, None)
            read = ours(f"{format_}:{path}")
            rows = read()
            rounds = [(timed(read), timed(partial(bare, path))) for _ in range(3)]
            mine, theirs = min(r[0] for r in rounds), min(r[1] for r in rounds)
            print(f"{format_:<12} {path.stat().st_size / 1e6:>8.0f} {rows:>9,} {mine:>8.2f}", end="")
            print(f" {rows / mine:>10,.0f} {theirs:>8.2f} {mine / theirs:>6.2f}", flush=True)
            path.unlink()


if __name__ == "__main__":
    main()
