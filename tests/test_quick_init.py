"""The quick `__init__` takes and sets what that of `dataclasses` does."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.assess.assessment import Assessment, Failure, Resources
from forewarn.evidence import Statement
from forewarn.job.record import Job
from forewarn.operate.access.credentials import Credentials
from forewarn.operate.access.identity import Identity
from forewarn.quick_init import quick_init


@dataclass(frozen=True, slots=True)
class Plain:
    first: int
    second: list[int] = field(default_factory=list)
    third: str | None = None
    last: int = field(default=4, kw_only=True)


@quick_init
@dataclass(frozen=True, slots=True)
class Quick:
    first: int
    second: list[int] = field(default_factory=list)
    third: str | None = None
    last: int = field(default=4, kw_only=True)


def values_of(record: Any) -> list[Any]:
    return [getattr(record, one.name) for one in fields(record)]


@given(
    st.lists(st.sampled_from([0, None, "x", ()]), min_size=1, max_size=3),
    st.dictionaries(st.sampled_from(["second", "third", "last"]), st.integers()),
)
def test_it_sets_what_dataclasses_sets(given_values: list[Any], by_name: dict[str, Any]) -> None:
    free = ("first", "second", "third")[len(given_values) :]
    by_name = {name: value for name, value in by_name.items() if name in (*free, "last")}
    assert values_of(Quick(*given_values, **by_name)) == values_of(Plain(*given_values, **by_name))


def test_each_object_has_a_default_of_its_own() -> None:
    Quick(1).second.append(7)
    assert Quick(2).second == []


def test_it_stays_a_frozen_dataclass() -> None:
    record = Quick(1)
    with pytest.raises(FrozenInstanceError):
        record.first = 2  # type: ignore[misc]
    assert replace(record, first=2) == Quick(2)
    assert repr(record) == "Quick(first=1, second=[], third=None, last=4)"


@pytest.mark.parametrize(("wrong", "by_name"), [((), {}), ((1, 2, 3, 4), {}), ((1,), {"unknown": 1})])
def test_wrong_arguments_are_refused_in_the_same_words(wrong: tuple[Any, ...], by_name: Any) -> None:
    words = []
    for record_type in (Plain, Quick):
        with pytest.raises(TypeError) as caught:
            record_type(*wrong, **by_name)
        words.append(str(caught.value).replace(record_type.__name__, ""))
    assert words[0] == words[1]


@pytest.mark.parametrize("record", [Job, Assessment, Failure, Resources, Statement, Credentials, Identity])
def test_the_signature_names_every_field_with_its_default(record: Any) -> None:
    parameters = inspect.signature(record).parameters
    assert list(parameters) == [one.name for one in fields(record)]
    for one in fields(record):
        parameter = parameters[one.name]
        assert parameter.annotation == one.type
        assert (parameter.kind is parameter.KEYWORD_ONLY) == one.kw_only
