"""Every column that a model can have is one kind of evidence, and has words."""

from __future__ import annotations

import pytest

from forewarn.features.column_meaning import EVIDENCE, EvidenceGroup, evidence_of
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.learn.data.encoders import CATEGORIES
from forewarn.learn.data.job_details import POSTHOC_COLUMNS


def test_every_column_has_a_group_and_words_of_its_own() -> None:
    features = {feature.name for feature in L.FEATURES if not feature.aside}
    assert features | {field for fields in CATEGORIES.values() for field in fields} == set(EVIDENCE)
    words = [evidence_of(column).words for column in (*EVIDENCE, *POSTHOC_COLUMNS, "profile_0", "profile_12")]
    assert all(words)
    assert len(set(words)) == len(words), "two columns that read the same"


def test_a_history_of_others_is_never_the_users_own() -> None:
    own = {
        EvidenceGroup.REQUEST,
        EvidenceGroup.NAME,
        EvidenceGroup.USER,
        EvidenceGroup.IN_FLIGHT,
        EvidenceGroup.TIME_LIMIT,
        EvidenceGroup.MEMORY,
        EvidenceGroup.SIZE,
    }
    for feature in L.HISTORY:
        is_own = feature.name.startswith("user_")
        is_partition = evidence_of(feature.name).group in {EvidenceGroup.PARTITION, EvidenceGroup.QUEUE}
        assert is_partition or (evidence_of(feature.name).group in own) == is_own, feature.name


@pytest.mark.parametrize(
    ("column", "group"),
    [
        ("partition_in_flight", EvidenceGroup.QUEUE),
        ("array_in_flight", EvidenceGroup.OTHERS),
        ("user_partition_in_flight", EvidenceGroup.IN_FLIGHT),
        ("user_partition_rate15", EvidenceGroup.PARTITION),
        ("context_user_hour", EvidenceGroup.TIME_OF_DAY),
        ("posthoc_cpu_time", EvidenceGroup.USE),
        ("profile_3", EvidenceGroup.PROFILE),
    ],
)
def test_kinds_that_two_parts_of_a_name_decide(column: str, group: EvidenceGroup) -> None:
    assert evidence_of(column).group is group
