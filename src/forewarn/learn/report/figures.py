"""The figures of a report, drawn from its JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from markupsafe import Markup

from forewarn.features.missing_fields import wilson
from forewarn.formatting import count, measure, percent, percent_in_table
from forewarn.learn.report.svg import Axis, Plot, round_steps
from forewarn.learn.report.wording import RULES, rule_in_words

Json = Mapping[str, Any]


def roc(evaluation: Json) -> Markup:
    """Draw the ROC curve, with the threshold and the simple rules as points."""
    curve, ranking = evaluation["curves"]["roc"], evaluation["ranking"]
    plot = Plot(
        f"ROC curve, area {measure(ranking['roc_auc'])}",
        Axis("false positive rate", text=percent),
        Axis("true positive rate (recall)", text=percent),
    )
    plot.line([0, 1], [0, 1], "chance")
    plot.area(curve["false_alarm_rate"], curve["recall"], "model")
    plot.line(curve["false_alarm_rate"], curve["recall"], "model")
    for name, rule in _rules(evaluation):
        plot.diamond(_false_alarm_rate(rule), rule["recall"], _look(evaluation, name), _tooltip(name, rule))
    at = evaluation["at_threshold"]
    plot.dot(_false_alarm_rate(at), at["recall"], "chosen", _tooltip("model", at), 5.5)
    return plot.svg()


def precision_recall(evaluation: Json) -> Markup:
    """Draw precision against recall, with the threshold and the simple rules as points."""
    curve, ranking, at = evaluation["curves"]["pr"], evaluation["ranking"], evaluation["at_threshold"]
    plot = Plot(
        f"Precision-recall curve, area {measure(ranking['pr_auc'])}",
        Axis("recall: detected failures", text=percent),
        Axis("precision: correct alerts", text=percent),
    )
    plot.line([0, 1], [ranking["base_rate"]] * 2, "chance")
    plot.area(curve["recall"], curve["precision"], "model")
    best = evaluation["baselines"][evaluation["over_baseline"]["baseline"]]["f1"]
    if best > 0:
        # Points with the F1 of the best rule: what lies above is better.
        recalls = [best / (2 - best) + (1 - best / (2 - best)) * step / 40 for step in range(41)]
        plot.line(recalls, [best * recall / (2 * recall - best) for recall in recalls], "equal")
    plot.line(curve["recall"], curve["precision"], "model")
    for name, rule in _rules(evaluation):
        if rule["recall"] > 0:  # a rule without alerts has no precision
            plot.diamond(rule["recall"], rule["precision"], _look(evaluation, name), _tooltip(name, rule))
    if at["recall"] > 0:
        plot.dot(at["recall"], at["precision"], "chosen", _tooltip("model", at), 5.5)
    return plot.svg()


def thresholds(evaluation: Json) -> Markup:
    """Draw precision, recall and F1 by threshold."""
    curve, chosen = evaluation["curves"]["by_threshold"], evaluation["threshold"]
    plot = Plot(
        "Precision, recall and F1 by threshold",
        Axis("threshold on the probability of failure", high=_top(evaluation), text=percent),
        Axis("", text=percent),
    )
    _mark(plot, chosen)
    for name, look in (("precision", "completed"), ("recall", "failed"), ("f1", "ink")):
        plot.line(curve["threshold"], curve[name], look)
    return plot.svg()


def calibration(evaluation: Json) -> Markup:
    """Draw the reliability diagram: predicted against observed failure rate."""
    bins = evaluation["calibration"]
    plot = Plot(
        f"Reliability diagram, expected calibration error {measure(evaluation['ranking']['ece'])}",
        Axis("predicted probability of failure", text=percent),
        Axis("observed share of failures", text=percent),
    )
    most = max(row["n"] for row in bins)
    for row in bins:
        height = 0.2 * row["n"] / most
        plot.box(row["low"] + 0.004, 0, row["high"] - 0.004, height, "count", count(row["n"], "job"))
    plot.line([0, 1], [0, 1], "chance")
    plot.line([row["mean_p"] for row in bins], [row["failed"] for row in bins], "model")
    for row in bins:
        low, high = wilson(round(row["failed"] * row["n"]), row["n"])
        plot.line([row["mean_p"]] * 2, [max(low, 0.0), min(high, 1.0)], "spread")
        words = (
            f"{count(row['n'], 'job')}: mean prediction {percent_in_table(row['mean_p'])}, "
            f"{percent_in_table(row['failed'])} failed"
        )
        plot.dot(row["mean_p"], row["failed"], "model", words, 2.5 + 4 * (row["n"] / most) ** 0.5)
    return plot.svg()


def confidence(evaluation: Json) -> Markup:
    """Draw the distribution of predictions for failed jobs above that for completed jobs."""
    histogram, top = evaluation["confidence"], _top(evaluation)
    shares = {
        name: [jobs / max(sum(histogram[name]), 1) for jobs in histogram[name]]
        for name in ("failed", "completed")
    }
    high = max(*shares["failed"], *shares["completed"]) * 1.08
    steps = [step for step in round_steps(0, high, 3) if step]
    plot = Plot(
        "Distribution of predicted probabilities: failed jobs above, completed jobs below",
        Axis("predicted probability of failure", high=top, text=percent),
        Axis(
            "share of the class",
            low=-high,
            high=high,
            text=lambda value: percent(abs(value)),
            steps=[-step for step in steps] + [0.0, *steps],
        ),
    )
    _mark(plot, evaluation["threshold"])
    for place, (left, right) in enumerate(zip(histogram["edges"], histogram["edges"][1:], strict=False)):
        for name, sign in (("failed", 1), ("completed", -1)):
            if (jobs := histogram[name][place]) and left < top:
                words = f"{count(jobs, f'{name} job')}: {percent_in_table(left)} to {percent_in_table(right)}"
                plot.box(left, 0, right, sign * shares[name][place], f"solid {name}", words)
    plot.line([0, top], [0, 0], "zero")
    return plot.svg()


def history(search: Json) -> Markup | None:
    """Draw the loss of each trial and the best so far; None if no trial has a loss."""
    trials = search.get("trials") or []
    ran = [trial for trial in trials if trial.get("loss") is not None]
    if not ran:
        return None
    losses = sorted(trial["loss"] for trial in ran)
    low = losses[0]
    # Outliers would flatten all other trials: they are drawn at the upper edge.
    high = min(losses[-1], low + 3 * max(losses[len(losses) // 2] - low, 1e-6))
    room = max(high - low, 1e-6) * 0.06
    numbers = [trial["number"] for trial in ran]
    whole = max(1, round((max(numbers) - min(numbers)) / 6))
    plot = Plot(
        f"Loss of {len(ran)} trials, best {measure(losses[0], 4)}",
        Axis(
            "trial",
            min(numbers) - 0.5,
            max(numbers) + 0.5,
            steps=list(range(min(numbers), max(numbers) + 1, whole)),
        ),
        Axis("log loss on the search block", low - room, high + room),
    )
    best = list(accumulate((trial["loss"] for trial in ran), min))
    xs = [*[number for number in numbers for _ in (0, 1)][1:], max(numbers)]
    plot.line(xs, [loss for loss in best for _ in (0, 1)], "best")
    order = families(trials)
    for trial in ran:
        look = f"series-{order.index(trial['family']) % 5}"
        if trial.get("status") != "completed":
            look += " hollow"
        words = f"trial {trial['number']}, {trial['family']}: loss {measure(trial['loss'], 4)}"
        plot.dot(trial["number"], trial["loss"], look, words, 4)
    return plot.svg()


def number_of_profiles(profiles: Json) -> Markup | None:
    """Draw the sum of squares and the BIC by number of profiles, each within its own range."""
    number = profiles.get("number") or {}
    curves = number.get("curves") or []
    if len(curves) < 2:
        return None
    ks = [point["k"] for point in curves]
    plot = Plot(
        f"Within-cluster sum of squares and BIC by number of profiles, {number['chosen']} chosen",
        Axis("number of profiles", min(ks), max(ks), steps=ks),
        Axis("", steps=[0.0, 1.0], text=lambda value: "highest" if value else "lowest"),
        height=240,
    )
    plot.line([number["chosen"]] * 2, [0, 1], "chosen")
    for name, look in (("wcss", "model"), ("bic", "failed")):
        values = [point[name] for point in curves]
        span = max(values) - min(values) or 1.0
        plot.line(ks, [(value - min(values)) / span for value in values], look)
    return plot.svg()


def families(trials: Sequence[Json]) -> list[str]:
    """List the model families of the trials in the order of their colours."""
    return sorted({trial["family"] for trial in trials})


def _mark(plot: Plot, chosen: Json) -> None:
    """Draw the chosen threshold as a line, or as a band where it varies."""
    if chosen["high"] > chosen["low"]:
        plot.box(chosen["low"], plot.y.low, chosen["high"], plot.y.high, "range", "range of thresholds")
    plot.line([chosen["value"]] * 2, [plot.y.low, plot.y.high], "chosen")


def _top(evaluation: Json) -> float:
    """Return the end of the axis of probabilities, below 1 if no prediction comes near it."""
    edges = evaluation["confidence"]["edges"]
    counts = zip(evaluation["confidence"]["failed"], evaluation["confidence"]["completed"], strict=True)
    last = max((place for place, both in enumerate(counts) if any(both)), default=len(edges) - 2)
    highest = max(edges[last + 1], evaluation["threshold"]["high"])
    return next(top for top in (0.1, 0.2, 0.5, 1.0, highest) if top >= min(highest, 1.0))


def _false_alarm_rate(result: Json) -> float:
    counts = result["confusion"]
    return float(counts["fp"] / max(counts["fp"] + counts["tn"], 1))


def _rules(evaluation: Json) -> list[tuple[str, Json]]:
    """List the simple rules, the best last, so that it is drawn above the others."""
    best = evaluation["over_baseline"]["baseline"]
    return sorted(evaluation["baselines"].items(), key=lambda rule: rule[0] == best)


def _look(evaluation: Json, name: str) -> str:
    return "rule best-rule" if name == evaluation["over_baseline"]["baseline"] else "rule"


def _tooltip(name: str, result: Json) -> str:
    label = rule_in_words(name) if name in RULES else name
    shares = f"precision {percent(result['precision'])}, recall {percent(result['recall'])}"
    return f"{label}: {shares}, F1 {measure(result['f1'])}"
