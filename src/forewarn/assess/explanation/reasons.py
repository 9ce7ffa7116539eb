"""Reasons for a model's risk: its exact contributions, summed into a few groups that add up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from forewarn.assess.assessment import Reason
from forewarn.assess.codes import ReasonCode
from forewarn.assess.explanation.contradiction import contradiction
from forewarn.assess.explanation.evidence import evidence
from forewarn.assess.explanation.groups import EvidenceGroup, group_of, resolved
from forewarn.learn.data.matrix import Matrix
from forewarn.learn.registry.bundle import Bundle

MOST = 5  # reasons, not counting `EVERYTHING_ELSE`
LEAST = 0.02  # log odds; a smaller contribution is noise
EVERYTHING_ELSE = "everything_else"


def reasons(
    bundle: Bundle,
    matrix: Matrix,
    values: Mapping[str, float],
    *,
    row: int = 0,
    most: int = MOST,
) -> tuple[Reason, ...]:
    """Explain the risk of one job by reasons that raise or lower it, largest weight first.

    The weights, the last of which may be `EVERYTHING_ELSE`, add up to the margin without the bias. Each
    reason has the risk before and after it, starting from the average job.

    Parameters
    ----------
    matrix
        The input of the model: `bundle.assembly.matrix` of a table that contains the job.
    values
        All features of the job by name, including those that the model does not use (counts of ended jobs).
    row
        The row of the job in the matrix.
    """
    one = matrix.rows(np.array([row]))
    *contributions, bias = bundle.contributions(one)[0].tolist()
    weights: dict[EvidenceGroup, float] = {}
    columns: dict[EvidenceGroup, list[tuple[float, str]]] = {}
    by_column: dict[EvidenceGroup, dict[str, float]] = {}
    for name, weight in zip(one.names, contributions, strict=True):
        group = resolved(group_of(name), values)
        weights[group] = weights.get(group, 0.0) + weight
        by_column.setdefault(group, {})[name] = weight
        if weight:
            columns.setdefault(group, []).append((abs(weight), name))
    order = list(EvidenceGroup)
    ranked = sorted(weights, key=lambda group: (-abs(weights[group]), order.index(group)))
    shown = [group for group in ranked[:most] if abs(weights[group]) >= LEAST]
    categories, profile = _categories(bundle, one), _profile(bundle, one)
    found = []
    for group in shown:
        statement = evidence(group, values, categories=categories, profile=profile)
        surprise = contradiction(group, values, weights[group], by_column[group], bundle.base_rate)
        found.append(
            Reason(
                code=ReasonCode(statement.code),
                values={**statement.values, **surprise},
                group=str(group),
                weight=weights[group],
                features=tuple(name for _, name in sorted(columns[group], reverse=True)),
            )
        )
    rest = [group for group in ranked if group not in shown and columns.get(group)]
    left = sum(contributions) - sum(reason.weight for reason in found)
    if rest:
        found.append(
            Reason(
                code=ReasonCode.EVERYTHING_ELSE,
                values={"groups": tuple(group.name.lower() for group in rest)},
                group=EVERYTHING_ELSE,
                weight=left,
                features=tuple(name for group in rest for _, name in columns[group]),
            )
        )
    return _with_risks(bundle, bias, found)


def _with_risks(bundle: Bundle, bias: float, found: list[Reason]) -> tuple[Reason, ...]:
    """Add to each reason the calibrated probability before and after it."""
    margins = bias + np.concatenate([[0.0], np.cumsum([reason.weight for reason in found])])
    risks = bundle.calibration(margins).tolist()
    return tuple(
        replace(reason, risk_before=risks[i], risk_after=risks[i + 1]) for i, reason in enumerate(found)
    )


def _categories(bundle: Bundle, one: Matrix) -> dict[str, str]:
    """Return the names of the job's categories that occurred in training."""
    found = {}
    for field, names in bundle.assembly.encoders.categories.items():
        code = one.values[0, one.names.index(field)]
        if not np.isnan(code):
            found[field] = names[int(code)]
    return found


def _profile(bundle: Bundle, one: Matrix) -> str | None:
    profiles = bundle.assembly.profiles
    if profiles is None:
        return None
    columns = [one.names.index(name) for name in profiles.feature_names]
    return profiles.words[int(np.argmax(one.values[0, columns]))]
