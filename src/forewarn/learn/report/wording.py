"""What a report says in words: the verdict, what to beware of, and numbers as people write them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from forewarn.job.phase import POSTHOC

Json = Mapping[str, Any]

NONE = "n/a"
LARGE_ECE = 0.03
FEW_FAILURES = 50  # in the test block; with fewer, its figures are anecdotes
MOVED = 1.25  # failure rates of train and test this far apart are worth a word
# Severity of what to beware of, the gravest first.
BAD, BEWARE, NOTE = "bad", "beware", "note"

RULES: Mapping[str, str] = MappingProxyType(
    {
        "majority": "the more frequent outcome, always",
        "last_user": "as the user's last job that ended",
        "last_user_name": "as the user's last job of this name",
        "last_user_request": "as the user's last job with this request",
        "last_user_name_else_user": "as the user's last job of this name, else of any",
        "last_user_request_else_user": "as the user's last job with this request, else with any",
        "last_request": "as anyone's last job with this request",
        "last_array": "as the last task of this array",
        "last_array_else_request": "as the last task of this array, else anyone's last job with this request",
    }
)


def rule_in_words(name: str) -> str:
    """A baseline for people."""
    return RULES.get(name, name.replace("_", " "))


def figure(value: float | None, digits: int = 3) -> str:
    """A measure.

    >>> figure(0.75432), figure(None)
    ('0.754', 'n/a')
    """
    return NONE if value is None else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 3) -> str:
    """A difference.

    >>> signed(0.05, 2), signed(-0.051, 2)
    ('+0.05', '−0.05')
    """
    return NONE if value is None else f"{value:+.{digits}f}".replace("-", "−")


def share(value: float | None) -> str:
    """A share, with a digit more where it is small.

    >>> share(0.613), share(0.0131), share(0.0), share(None)
    ('61 %', '1.3 %', '0 %', 'n/a')
    """
    if value is None:
        return NONE
    return f"{100 * value:.{1 if 0 < value < 0.095 else 0}f} %"


def interval(bounds: list[float] | None, digits: int = 3, *, plus: bool = False) -> str:
    """An interval, or nothing where there is none.

    >>> interval([0.03, 0.071], 2, plus=True), interval(None)
    ('[+0.03, +0.07]', '')
    """
    if bounds is None:
        return ""
    low, high = (signed(b, digits) if plus else figure(b, digits) for b in bounds)
    return f"[{low}, {high}]"


def lasting(seconds: float) -> str:
    """A span of time.

    >>> lasting(42), lasting(203), lasting(7_400), lasting(200_000)
    ('42 s', '3 min', '2.1 h', '2.3 d')
    """
    for unit, size, digits in (("d", 86_400, 1), ("h", 3600, 1), ("min", 60, 0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def measured(value: float, what: str) -> str:
    """A number of a profile with its unit.

    >>> measured(3e9, "memory"), measured(16.0, "size"), measured(90.0, "wait")
    ('2.8 GiB', '16', '90 s')
    """
    if what in ("run_time", "wait"):
        return lasting(value)
    return f"{value / 2**30:.1f} GiB" if what == "memory" else f"{value:,.3g}"


def verdict(report: Json) -> str | None:
    """What the model is worth, in one sentence; nothing for a report without an evaluation."""
    evaluation = report.get("evaluation")
    if not evaluation:
        return None
    at, base = evaluation["at_threshold"], evaluation["ranking"]["base_rate"]
    if not at["confusion"]["tp"] + at["confusion"]["fp"]:
        return f"Warns of no job at all at its threshold; {share(base)} of the jobs failed."
    if not at["confusion"]["tp"] + at["confusion"]["fn"]:
        return "There was no failure to warn of."
    return (
        f"Warns of {share(at['recall'])} of the failures; {share(at['precision'])} of its warnings come "
        f"true, where {share(base)} of all jobs fail{_as_asked(report)}; "
        f"{_instead(report['model']) if serves_rule(report) else _against_rules(evaluation)}."
    )


def serves_rule(report: Json) -> str | None:
    """The simple rule that stands in the model's place, as it is labelled."""
    rule: str | None = (report.get("model") or {}).get("rule")
    return rule


def _instead(model: Json) -> str:
    lost = model.get("instead_of")
    why = (
        f"the model that was trained did not beat it (F1 {signed(lost['over_baseline'])} "
        f"{interval(lost['interval'], plus=True)})".replace(" )", ")")
        if lost
        else "it was clearly better than the model that was trained on the jobs before these"
    )
    return f"this is a simple rule ({model['rule']}): {why}"


def _as_asked(report: Json) -> str:
    """Whether the share that the threshold in force was to give came true on later jobs."""
    rule = next(iter(report.get("thresholds") or {}), "")
    name, given, asked = rule.partition("=")
    if not given or name not in ("precision", "recall"):
        return ""
    return f" (asked for: a {name} of {asked}, reached {figure(report['evaluation']['at_threshold'][name])})"


def _against_rules(evaluation: Json) -> str:
    ahead = evaluation["over_baseline"]
    bounds = evaluation["intervals"]["f1_over_baseline"]
    by = f"F1 {signed(ahead['f1'])} {interval(bounds, plus=True)}".rstrip()
    if ahead.get("threshold", evaluation["threshold"]["value"]) != evaluation["threshold"]["value"]:
        by += f" at the threshold for F1, {figure(ahead['threshold'])}"
    if not ranks(evaluation):
        return f"ranks no better than chance: ROC-AUC {_with_bounds(evaluation, 'roc_auc')}"
    return {
        1: f"better than the best simple rule by {by}",
        0: f"not clearly better than the best simple rule: {by}",
        -1: f"worse than the best simple rule: {by}",
    }[standing(evaluation)]


def _with_bounds(evaluation: Json, name: str) -> str:
    return f"{figure(evaluation['ranking'][name])} {interval(evaluation['intervals'][name])}".rstrip()


def ranks(evaluation: Json) -> bool:
    """Whether failures are ranked above other jobs more often than a coin would.

    To warn always has an F1 too, and with many failures a high one: a lead in F1 alone proves nothing.
    """
    bounds = evaluation["intervals"].get("roc_auc")
    return bounds is None or bounds[0] > 0.5


def _is_below(bounds: Sequence[float] | None, value: float) -> bool:
    return bounds is not None and bounds[1] < value


def standing(evaluation: Json) -> int:
    """1 for clearly better than the best baseline, -1 for clearly worse or mere chance, 0 for in between."""
    bounds = evaluation["intervals"]["f1_over_baseline"]
    if not ranks(evaluation) or _is_below(bounds, 0):
        return -1
    return 1 if bounds is not None and bounds[0] > 0 else 0


def fit_to_serve(report: Json) -> bool:
    """Whether nothing in the report forbids that the model serves."""
    return all(warning["level"] != BAD for warning in warnings(report))


def warnings(report: Json) -> list[dict[str, str]]:
    """What to beware of, the gravest first, as `level` and `text`."""
    found = [*_of_phase(report), *_of_evaluation(report), *_of_data(report)]
    found += [(BEWARE, message) for message in report.get("absence") or ()]
    order = (BAD, BEWARE, NOTE)
    return [{"level": level, "text": text} for level, text in sorted(found, key=lambda f: order.index(f[0]))]


Said = Iterator[tuple[str, str]]


def _of_phase(report: Json) -> Said:
    if (report.get("model") or {}).get("phase") == POSTHOC:
        yield (
            BAD,
            "The papers' protocol (posthoc): the model sees run and CPU time, which are known only when a "
            "job has ended. Its figures stand beside the papers' tables only, and it can never serve.",
        )


def _of_evaluation(report: Json) -> Said:
    evaluation: Json | None = report.get("evaluation")
    if not evaluation:
        return
    rule = rule_in_words(evaluation["over_baseline"]["baseline"])
    # A rule that stands in is what a model has to beat: too few jobs to prove it are no reason that it does
    # not serve, since what would speak instead is proven less.
    is_rule = serves_rule(report) is not None
    intervals = evaluation["intervals"]
    if _is_below(intervals.get("roc_auc"), 0.5) if is_rule else not ranks(evaluation):
        yield (
            BAD,
            f"Ranks no better than chance (ROC-AUC {_with_bounds(evaluation, 'roc_auc')}): it has learnt "
            "nothing that holds. Do not serve this model.",
        )
    elif _is_below(intervals["f1_over_baseline"], 0):
        yield (
            BAD,
            f"Worse than a simple rule. To predict “{rule}” has the higher F1: do not serve this model.",
        )
    elif is_rule:
        yield BEWARE, f"A simple rule serves, until a model beats it: {_instead(report['model'])}."
        if not ranks(evaluation):
            yield (
                BEWARE,
                "The test jobs do not prove that the rule ranks better than chance (ROC-AUC "
                f"{_with_bounds(evaluation, 'roc_auc')}): more history may tell.",
            )
    elif evaluation["over_baseline"]["f1"] <= 0:
        yield (
            BAD,
            f"Does not beat a simple rule. To predict “{rule}” has the same F1 or a higher one "
            f"({signed(evaluation['over_baseline']['f1'])}): do not serve this model.",
        )
    elif standing(evaluation) == 0:
        yield (
            BEWARE,
            f"Not clearly better than a simple rule. The interval of the lead in F1 over “{rule}” is not "
            "above 0: more history may tell.",
        )
    ranking, counts = evaluation["ranking"], evaluation["at_threshold"]["confusion"]
    if not counts["tp"] + counts["fp"]:
        yield BAD, "It never warns: no probability in the test block reaches the threshold."
    if ranking["ece"] is not None and ranking["ece"] > LARGE_ECE:
        yield (
            BEWARE,
            f"Probabilities are off by {100 * ranking['ece']:.1f} points on average (ECE; more than "
            f"{100 * LARGE_ECE:.0f} is much). Trust the order of the jobs more than the numbers.",
        )
    failures = counts["tp"] + counts["fn"]
    if failures < FEW_FAILURES:
        yield BEWARE, f"Only {failures:,} failures in {ranking['n']:,} test jobs: too few to be sure of much."


def _of_data(report: Json) -> Said:
    blocks = (report.get("data") or {}).get("blocks") or {}
    before, after = (blocks.get(name, {}).get("base_rate") for name in ("train", "test"))
    if before and after and max(before / after, after / before) > MOVED:
        yield (
            NOTE,
            f"The failure rate moved from {share(before)} in the train block to {share(after)} in the test "
            "block: what was calibrated on the past need not hold.",
        )
    few = {name: block for name, block in blocks.items() if block.get("few")}
    if few:
        worth = ", ".join(f"{name} {block['effective']:,.0f}" for name, block in few.items())
        yield (
            BEWARE,
            f"Few decisions: equal jobs sent at once are one, and of effective decisions there are few "
            f"({worth}). Figures of such a block, and what was chosen by them, may be those of one bulk.",
        )
    trials = (report.get("search") or {}).get("trials") or []
    if failed := sum(trial.get("status") == "failed" for trial in trials):
        yield NOTE, f"{failed} of {len(trials)} trials of the search failed."
