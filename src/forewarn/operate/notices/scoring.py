"""Scoring of rules: how often their notices came true, and whether anybody heeds them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from forewarn.features.missing_fields import wilson
from forewarn.operate.notices.notice import DELIVERED, Notice

NEWEST = 40  # judged notices that count
FEWEST = 20  # judged notices from which a rule can be silenced as wrong
IGNORED = 5  # notices without acknowledgement or change after which a rule is silent for a recipient
ATTENTION = 86400  # seconds that a recipient has to acknowledge or change something
SILENT_FOR = 30 * 86400  # seconds: then the rule gets another chance, and is counted from there


@dataclass(frozen=True, slots=True)
class MeasuredPrecision:
    """How many of a rule's newest judged notices came true, with the 95% interval of the share."""

    rule: str
    came_true: int
    judged: int
    low: float | None = None
    high: float | None = None

    def breaks(self, promise: float) -> bool:
        """Check whether the rule is wrong more often than promised, beyond chance."""
        return self.judged >= FEWEST and self.high is not None and self.high < promise

    def to_json(self) -> dict[str, Any]:
        """Convert to JSON."""
        return asdict(self)


def measured_precision(notices: Iterable[Notice], rule: str, *, since: int = 0) -> MeasuredPrecision:
    """Measure a rule by its newest judged notices; one subject counts once, whoever got it."""
    judged: dict[tuple[str, str], tuple[int, bool]] = {}
    for one in notices:
        if one.rule == rule and one.came_true is not None and one.at >= since:
            judged[one.cluster, one.subject] = one.at, one.came_true
    newest = sorted(judged.values())[-NEWEST:]
    came_true = sum(right for _, right in newest)
    if not newest:
        return MeasuredPrecision(rule, 0, 0)
    return MeasuredPrecision(rule, came_true, len(newest), *wilson(came_true, len(newest)))


def is_ignored(
    notices: Iterable[Notice], acknowledged: Mapping[str, int], *, at: int, since: int = 0
) -> bool:
    """Check whether the last five notices of one rule to one recipient were neither acknowledged nor heeded.

    Those of the last day do not count yet, but one of them that was acknowledged shows that they are read.
    """
    sent = [one for one in notices if one.state in DELIVERED and (one.sent_at or one.at) >= since]
    sent.sort(key=lambda one: one.sent_at or one.at)
    settled = [one for one in sent if (one.sent_at or one.at) <= at - ATTENTION]
    newer = sent[len(settled) :]
    if len(settled) < IGNORED:
        return False
    return not any(one.changed or one.id in acknowledged for one in [*settled[-IGNORED:], *newer])
