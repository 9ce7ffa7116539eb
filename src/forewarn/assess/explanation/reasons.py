"""From the model's exact contributions to a few reasons that add up."""

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

MOST = 5  # reasons, without everything else
LEAST = 0.02  # log odds: less is no reason, only noise
EVERYTHING_ELSE = "everything_else"


def reasons(
    bundle: Bundle,
    matrix: Matrix,
    values: Mapping[str, float],
    *,
    row: int = 0,
    most: int = MOST,
) -> tuple[Reason, ...]:
    """Why the model says what it says of one job, in both directions, what weighs most first.

    The weights of all, the last of which may be `EVERYTHING_ELSE`, add up to the margin without the bias.
    Each has the risk before and after it, going from the average job down the list.

    Parameters
    ----------
    matrix
        What the model sees: `bundle.assembly.matrix` of a table with the job in it.
    values
        All features of the job by name, also those that the model does not see (how many jobs have ended).
    row
        Which row of the matrix is the job.
    """
    one = matrix.rows(np.array([row]))
    *brought, bias = bundle.contributions(one)[0].tolist()
    weights: dict[EvidenceGroup, float] = {}
    columns: dict[EvidenceGroup, list[tuple[float, str]]] = {}
    brought_by: dict[EvidenceGroup, dict[str, float]] = {}
    for name, weight in zip(one.names, brought, strict=True):
        group = resolved(group_of(name), values)
        weights[group] = weights.get(group, 0.0) + weight
        brought_by.setdefault(group, {})[name] = weight
        if weight:
            columns.setdefault(group, []).append((abs(weight), name))
    order = list(EvidenceGroup)
    ranked = sorted(weights, key=lambda group: (-abs(weights[group]), order.index(group)))
    shown = [group for group in ranked[:most] if abs(weights[group]) >= LEAST]
    categories, profile = _categories(bundle, one), _profile(bundle, one)
    made = []
    for group in shown:
        found = evidence(group, values, categories=categories, profile=profile)
        more = contradiction(group, values, weights[group], brought_by[group], bundle.base_rate)
        made.append(
            Reason(
                code=ReasonCode(found.code),
                values={**found.values, **more},
                group=str(group),
                weight=weights[group],
                features=tuple(name for _, name in sorted(columns[group], reverse=True)),
            )
        )
    rest = [group for group in ranked if group not in shown and columns.get(group)]
    left = sum(brought) - sum(reason.weight for reason in made)
    if rest:
        made.append(
            Reason(
                code=ReasonCode.EVERYTHING_ELSE,
                values={"groups": tuple(group.name.lower() for group in rest)},
                group=EVERYTHING_ELSE,
                weight=left,
                features=tuple(name for group in rest for _, name in columns[group]),
            )
        )
    return _with_risks(bundle, bias, made)


def _with_risks(bundle: Bundle, bias: float, made: list[Reason]) -> tuple[Reason, ...]:
    """The probabilities between which each reason moves, through the calibration."""
    margins = bias + np.concatenate([[0.0], np.cumsum([reason.weight for reason in made])])
    risks = bundle.calibration(margins).tolist()
    return tuple(
        replace(reason, risk_before=risks[place], risk_after=risks[place + 1])
        for place, reason in enumerate(made)
    )


def _categories(bundle: Bundle, one: Matrix) -> dict[str, str]:
    """The names behind the codes of the categories that the model knows."""
    found = {}
    for field, known in bundle.assembly.encoders.categories.items():
        code = one.values[0, one.names.index(field)]
        if not np.isnan(code):
            found[field] = known[int(code)]
    return found


def _profile(bundle: Bundle, one: Matrix) -> str | None:
    profiles = bundle.assembly.profiles
    if profiles is None:
        return None
    places = [one.names.index(name) for name in profiles.feature_names]
    return profiles.words[int(np.argmax(one.values[0, places]))]
