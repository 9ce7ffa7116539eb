"""The sentences of a report: its verdict and its warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from forewarn.formatting import count, difference, interval, measure, number, percent
from forewarn.job.phase import POSTHOC

Json = Mapping[str, Any]

LARGE_ECE = 0.03
FEW_FAILURES = 50  # in the test block; with fewer, its figures are anecdotes
DRIFT = 1.25  # ratio of the failure rates of the train and test blocks from which the report notes a change
# Levels of warnings, the most severe first.
BAD, BEWARE, NOTE = "bad", "beware", "note"

# Short, because they are the rows of tables in a terminal too.
RULES: Mapping[str, str] = MappingProxyType(
    {
        "majority": "majority class",
        "last_user": "user's last outcome",
        "last_user_name": "user's last outcome, same name",
        "last_user_name_else_user": "user's last outcome, same name or any",
        "last_user_request": "user's last outcome, same request",
        "last_user_request_else_user": "user's last outcome, same request or any",
        "last_request": "anyone's last outcome, same request",
        "last_array": "last outcome, same array",
        "last_array_else_request": "last outcome, same array or request",
    }
)


def rule_in_words(name: str) -> str:
    """Return the description of a simple rule for readers."""
    return RULES.get(name, name.replace("_", " "))


def headline(report: Json) -> str | None:
    """Summarise how good the model is in one sentence; None for a report without an evaluation."""
    evaluation = report.get("evaluation")
    if not evaluation:
        return None
    at, base_rate = evaluation["at_threshold"], evaluation["ranking"]["base_rate"]
    if not at["confusion"]["tp"] + at["confusion"]["fp"]:
        return f"No alerts at the chosen threshold; {percent(base_rate)} of the jobs failed."
    if not at["confusion"]["tp"] + at["confusion"]["fn"]:
        return "The test jobs contain no failure."
    return (
        f"Detects {percent(at['recall'])} of failures; {percent(at['precision'])} of alerts are correct "
        f"({percent(base_rate)} of all jobs fail){_threshold_target(report)}; "
        f"{_why_rule(report['model']) if substitute_rule(report) else _against_rules(evaluation)}."
    )


def substitute_rule(report: Json) -> str | None:
    """Return the label of the simple rule that serves in place of the model, if one does."""
    rule: str | None = (report.get("model") or {}).get("rule")
    return rule


def _why_rule(model: Json) -> str:
    lost = model.get("instead_of")
    reason = (
        f"the trained model did not beat it (F1 {difference(lost['over_baseline'])} "
        f"{interval(lost['interval'], signed=True)})".replace(" )", ")")
        if lost
        else "it was significantly better than the trained model on the preceding jobs"
    )
    return f"this is a simple rule ({model['rule']}): {reason}"


def _threshold_target(report: Json) -> str:
    """Compare the precision or recall that the threshold was chosen for with the one on later jobs."""
    rule = next(iter(report.get("thresholds") or {}), "")
    name, separator, target = rule.partition("=")
    if not separator or name not in ("precision", "recall"):
        return ""
    reached = measure(report["evaluation"]["at_threshold"][name])
    return f" (target {name} {target}, reached {reached})"


def _against_rules(evaluation: Json) -> str:
    lead = evaluation["over_baseline"]
    bounds = evaluation["intervals"]["f1_over_baseline"]
    f1 = f"F1 {difference(lead['f1'])} {interval(bounds, signed=True)}".rstrip()
    if lead.get("threshold", evaluation["threshold"]["value"]) != evaluation["threshold"]["value"]:
        f1 += f" at the F1-optimal threshold, {measure(lead['threshold'])}"
    if not ranks_better_than_chance(evaluation):
        return f"ranks no better than chance: ROC-AUC {_with_bounds(evaluation, 'roc_auc')}"
    return {
        1: f"better than the best simple rule: {f1}",
        0: f"not significantly better than the best simple rule: {f1}",
        -1: f"worse than the best simple rule: {f1}",
    }[sign_of_lead(evaluation)]


def _with_bounds(evaluation: Json, name: str) -> str:
    return f"{measure(evaluation['ranking'][name])} {interval(evaluation['intervals'][name])}".rstrip()


def ranks_better_than_chance(evaluation: Json) -> bool:
    """Check that the 95% interval of the ROC-AUC, where there is one, lies above 0.5.

    An alert for every job has an F1 too, and a high one where many fail: a lead in F1 alone proves nothing.
    """
    bounds = evaluation["intervals"].get("roc_auc")
    return bounds is None or bounds[0] > 0.5


def _is_below(bounds: Sequence[float] | None, value: float) -> bool:
    return bounds is not None and bounds[1] < value


def sign_of_lead(evaluation: Json) -> int:
    """Return 1 for significantly better than the best rule, -1 for worse or mere chance, else 0."""
    bounds = evaluation["intervals"]["f1_over_baseline"]
    if not ranks_better_than_chance(evaluation) or _is_below(bounds, 0):
        return -1
    return 1 if bounds is not None and bounds[0] > 0 else 0


def fit_to_serve(report: Json) -> bool:
    """Check that no warning of the report forbids that the model serves."""
    return all(warning["level"] != BAD for warning in warnings(report))


def warnings(report: Json) -> list[dict[str, str]]:
    """List the warnings of a report, the most severe first, as `level` and `text`."""
    found = [*_of_phase(report), *_of_evaluation(report), *_of_data(report)]
    found += [(BEWARE, message) for message in report.get("absence") or ()]
    order = (BAD, BEWARE, NOTE)
    return [{"level": level, "text": text} for level, text in sorted(found, key=lambda f: order.index(f[0]))]


Warnings = Iterator[tuple[str, str]]  # level and text


def _of_phase(report: Json) -> Warnings:
    if (report.get("model") or {}).get("phase") == POSTHOC:
        yield (
            BAD,
            "Protocol of the papers (posthoc): the model uses run time and CPU time, which are known only "
            "after a job has ended. Its figures are comparable with the papers' only, and it cannot serve.",
        )


def _of_evaluation(report: Json) -> Warnings:
    evaluation: Json | None = report.get("evaluation")
    if not evaluation:
        return
    rule = rule_in_words(evaluation["over_baseline"]["baseline"])
    # A rule that serves in place of a model is what a model has to beat. Too few jobs to prove it are no
    # reason against it: anything else is proven even less.
    is_rule = substitute_rule(report) is not None
    intervals = evaluation["intervals"]
    if _is_below(intervals.get("roc_auc"), 0.5) if is_rule else not ranks_better_than_chance(evaluation):
        yield (
            BAD,
            f"Ranks no better than chance (ROC-AUC {_with_bounds(evaluation, 'roc_auc')}): the model has no "
            "predictive value. Do not let it serve.",
        )
    elif _is_below(intervals["f1_over_baseline"], 0):
        yield BAD, f"Worse than a simple rule: “{rule}” has a higher F1. Do not let this model serve."
    elif is_rule:
        yield BEWARE, f"A simple rule serves until a model beats it: {_why_rule(report['model'])}."
        if not ranks_better_than_chance(evaluation):
            yield (
                BEWARE,
                "The test jobs do not prove that the rule ranks better than chance (ROC-AUC "
                f"{_with_bounds(evaluation, 'roc_auc')}). More history may.",
            )
    elif evaluation["over_baseline"]["f1"] <= 0:
        yield (
            BAD,
            f"Does not beat a simple rule: “{rule}” has the same or a higher F1 "
            f"({difference(evaluation['over_baseline']['f1'])}). Do not let this model serve.",
        )
    elif sign_of_lead(evaluation) == 0:
        yield (
            BEWARE,
            f"Not significantly better than a simple rule: the 95% interval of the gain in F1 over “{rule}” "
            "includes 0. More history may help.",
        )
    ranking, counts = evaluation["ranking"], evaluation["at_threshold"]["confusion"]
    if not counts["tp"] + counts["fp"]:
        yield BAD, "No alerts: no probability in the test block reaches the threshold."
    if ranking["ece"] is not None and ranking["ece"] > LARGE_ECE:
        yield (
            BEWARE,
            f"Poorly calibrated: probabilities are off by {100 * ranking['ece']:.1f} percentage points on "
            f"average (ECE; above {100 * LARGE_ECE:.0f} is large). Trust the ranking more than the values.",
        )
    failures = counts["tp"] + counts["fn"]
    if failures < FEW_FAILURES:
        yield (
            BEWARE,
            f"Only {count(failures, 'failure')} in {count(ranking['n'], 'test job')}: "
            "the figures are uncertain.",
        )


def _of_data(report: Json) -> Warnings:
    blocks = (report.get("data") or {}).get("blocks") or {}
    before, after = (blocks.get(name, {}).get("base_rate") for name in ("train", "test"))
    if before and after and max(before / after, after / before) > DRIFT:
        yield (
            NOTE,
            f"The failure rate changed from {percent(before)} in the train block to {percent(after)} in the "
            "test block: a calibration on earlier jobs may not hold.",
        )
    few = {name: block for name, block in blocks.items() if block.get("few")}
    if few:
        sizes = ", ".join(f"{name} {number(block['effective'])}" for name, block in few.items())
        yield (
            BEWARE,
            "Few decisions: equal jobs submitted together count as one, and the effective number of "
            f"decisions is small ({sizes}). Figures of such a block, and choices based on them, may reflect "
            "a single bulk.",
        )
    trials = (report.get("search") or {}).get("trials") or []
    if failed := sum(trial.get("status") == "failed" for trial in trials):
        yield NOTE, f"{failed} of {len(trials)} trials of the search failed."
