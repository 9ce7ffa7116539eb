"""The places that the kernel writes to are those of the features whose names they bear."""

from __future__ import annotations

import pytest

from forewarn.features.kernel import layout as L  # noqa: N812

NAMES = [feature.name for feature in L.FEATURES]


def named(prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix).lower(): value for name, value in vars(L).items() if name.startswith(prefix)
    }


def test_each_place_is_that_of_its_feature() -> None:
    histories = range(L.B_HISTORY, L.B_ENCODED)
    assert named("F_") == {name: n for n, name in enumerate(NAMES) if n not in histories}


def test_histories_lie_one_after_the_other() -> None:
    place = L.B_HISTORY
    for entity in L.ENTITIES:
        measures = L.BRIEF + L.MORE if entity in L.FULL else L.BRIEF
        for measure, offset in named("H_").items():
            if measure in measures:
                assert NAMES[place + offset] == f"{entity}_{measure}"
        place += len(measures)
    assert place == L.B_ENCODED
    assert L.ENTITIES[: L.N_FULL] == L.FULL, "the kernel writes more of the first ones"


def test_contexts_are_written_in_the_order_of_their_features() -> None:
    assert NAMES[L.F_CONTEXT_LASTS : L.F_CONTEXT_LASTS + len(L.CONTEXT_KEYS)] == [
        f"context_{context}" for context in L.CONTEXTS
    ]


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("X_", L.NUMBERS), ("A_", L.ATOMS), ("R_", L.RESULTS), ("E_", L.ENTITIES), ("S_", L.STATE),
    ],
)  # fmt: skip
def test_arrays_have_as_many_places_as_names(prefix: str, names: tuple[str, ...]) -> None:
    assert sorted(named(prefix).values()) == list(range(len(names)))
