from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.features.keys import hashed_column, normalised, normalised_column, text_hash

TEXTS = st.text(st.sampled_from("abcdefgstXYZ0123456789-_.:/ #é"), max_size=40)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sweep_017", "sweep_018"),
        ("run-2024-05-01T10:00:12", "run-2023-12-31T23:59:59"),
        ("/scratch/ann/8812345/in", "/scratch/ann/99/in"),
        ("fit.9f86d081884c7d65", "fit.60303ae22b998861"),
        ("job 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "job 7ba7b811-9dad-11d1-80b4-00c04fd430c8"),
        ("CASE5", "case61"),
    ],
)
def test_runs_of_one_thing_share_a_key(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"), [("relax", "decade"), ("train_a", "train_b"), ("/home/ann/x", "/home/bob/x")]
)
def test_different_things_do_not(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def test_a_pseudonym_is_an_identity() -> None:
    one, other = "3594a1a3e1db227a60491d4376b97f97", "2e2286be72fb6b55707844ad4eb572c1"
    assert normalised(one) != normalised(other)


@given(st.lists(TEXTS, min_size=1, max_size=20))
def test_the_column_says_what_the_scalar_says(texts: list[str]) -> None:
    column = pl.DataFrame({"t": texts}).select(normalised_column(pl.col("t")))["t"].to_list()
    assert column == [normalised(t) for t in texts]


@given(st.lists(st.none() | st.text(max_size=8), max_size=20))
def test_a_hashed_column_is_the_hash_of_each(texts: list[str | None]) -> None:
    hashes = hashed_column(pl.Series("t", texts, dtype=pl.String)).tolist()
    assert hashes == [0 if t is None else text_hash(t) for t in texts]


def test_hashes_do_not_change_between_versions() -> None:
    """They are in stores: this value may never change."""
    assert text_hash("alice") == 9933345172075899469
