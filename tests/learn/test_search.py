"""The parts of a search without running it: choices, early stops, the journal, the result."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.errors import LearningError, NotEnoughError, UsageError
from forewarn.learn.data.matrix import Sample
from forewarn.learn.data.selection import Rankings
from forewarn.learn.search.search import SearchResult, SearchSettings, search
from forewarn.learn.search.suggestions import ENOUGH, FAIR_SHARE, Suggestions, stop_losses
from forewarn.learn.search.trials import Journal, Trial
from tests.learn.toy_family import Toy

NAMES = tuple(f"x{place}" for place in range(40))
RANKINGS = Rankings(
    NAMES, {by: {n: float(p) for p, n in enumerate(NAMES)} for by in ("correlation", "importance")}
)
FAMILIES = {"one": Toy(), "two": Toy()}


def suggestions(method: str = "tpe", seed: int = 0) -> Suggestions:
    return Suggestions(FAMILIES, RANKINGS, method, "log_loss", seed)


def trial(number: int = 0, **more: Any) -> Trial:
    usual: dict[str, Any] = {
        "family": "one",
        "params": {"learning_rate": 0.1, "rounds": 30, "shrink": 0.0},
        "features": NAMES,
        "features_by": "all",
        "status": "completed",
        "loss": 0.5,
        "pr_auc": 0.5,
    }
    return Trial(number=number, **{**usual, **more})


def follow(suggestions: Suggestions, count: int) -> list[Trial]:
    """Follow the suggestions for some trials, where a high learning rate and family two are best."""
    past: list[Trial] = []
    for number in range(count):
        choice = suggestions.choice(number, past)
        loss = 1 - choice.params["learning_rate"] + (choice.family == "one")
        past.append(
            trial(
                number,
                family=choice.family,
                params=choice.params,
                features=choice.features,
                features_by=choice.features_by,
                loss=loss,
            )
        )
    return past


def test_each_family_begins_with_its_defaults_on_all_columns_and_gets_its_share() -> None:
    tried = follow(suggestions(), 12)
    for number, name in enumerate(FAMILIES):
        assert tried[number].family == name
        assert tried[number].params == Toy.defaults
        assert tried[number].features == NAMES
    for name in FAMILIES:
        assert sum(t.family == name for t in tried[: FAIR_SHARE * 2]) == FAIR_SHARE


@settings(max_examples=30)
@given(st.sampled_from(["tpe", "random"]), st.integers(0, 2**31), st.integers(2, 60))
def test_choices_lie_within_the_space(method: str, seed: int, number: int) -> None:
    past = [trial(0), trial(1, status="stopped", curve={2: 0.7}), trial(2, status="failed", loss=None)]
    choice = suggestions(method, seed).choice(number, past)
    assert 0.05 <= choice.params["learning_rate"] <= 1
    assert 20 <= choice.params["rounds"] <= 80
    assert choice.params["shrink"] in (0.0, 0.01, 0.1)
    if choice.features_by == "all":
        assert choice.features == NAMES
    else:
        assert choice.features == RANKINGS.best(choice.features_by, len(choice.features))
        assert 16 <= len(choice.features) <= 40


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tpe", "random"])
def test_the_same_seed_and_past_give_the_same_choice_and_another_seed_another(method: str) -> None:
    tried = follow(suggestions(method, 3), 25)
    assert follow(suggestions(method, 3), 25) == tried
    assert suggestions(method, 3).choice(20, tried[:20]) == suggestions(method, 3).choice(20, tried[:20])
    assert follow(suggestions(method, 4), 25) != tried
    assert len({json.dumps(dict(t.params)) for t in tried[2:]}) == 23  # each number draws anew


@pytest.mark.slow
def test_tpe_learns_from_what_was_tried_and_random_search_does_not() -> None:
    def late(method: str) -> float:
        rates: list[float] = [
            t.params["learning_rate"] for seed in range(3) for t in follow(suggestions(method, seed), 40)[25:]
        ]
        return sum(rates) / len(rates)

    assert late("tpe") > late("random") + 0.1
    past = follow(suggestions("random"), 20)
    assert suggestions("random").choice(30, past).params == suggestions("random").choice(30, []).params


def test_defaults_outside_the_space_do_no_harm() -> None:
    odd = trial(0, params={"learning_rate": 7.0, "rounds": 30, "shrink": 0.5})
    assert suggestions().choice(10, [odd]).params["learning_rate"] <= 1


def test_a_trial_is_stopped_by_the_median_of_its_own_family() -> None:
    past = [trial(n, curve={2: 0.1 * n, 4: 0.05}) for n in range(ENOUGH)]
    past += [trial(9, family="two", curve={2: 0.0}), trial(10, status="stopped", curve={2: 0.9})]
    found = stop_losses("one", past)
    assert found[2] == pytest.approx(0.15)
    assert set(found) == {2, 4}
    assert stop_losses("two", past) == {}


def test_the_journal_gives_back_what_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "search" / "trials.jsonl"
    trials = [trial(3, loss=0.1 + 0.2, curve={2: 1 / 3}), trial(5, status="failed", loss=None, error="ä\nb")]
    with Journal.open(path, {"seed": 1}) as journal:
        for one in trials:
            journal.add(one)
    with Journal.open(path, {"seed": 1}) as journal:
        assert [*journal.trials.values()] == trials


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_line_half_written_is_dropped_and_the_journal_goes_on(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "trials.jsonl"
    with Journal.open(path, {"seed": 1}) as journal:
        journal.add(trial(0))
        journal.add(trial(1))
    path.write_bytes(path.read_bytes()[:-cut])
    with Journal.open(path, {"seed": 1}) as journal:
        assert set(journal.trials) == {0}
        journal.add(trial(2))
    with Journal.open(path, {"seed": 1}) as journal:
        assert set(journal.trials) == {0, 2}


@pytest.mark.parametrize("damage", [b"\xff\xfe\n", b"[]\n", b'{"number": 1}\n', b"null\n"])
def test_lines_that_are_no_trials_are_dropped(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "trials.jsonl"
    with Journal.open(path, {"seed": 1}) as journal:
        journal.add(trial(0))
    path.write_bytes(path.read_bytes() + damage)
    with Journal.open(path, {"seed": 1}) as journal:
        assert set(journal.trials) == {0}


def test_a_journal_of_another_search_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    with Journal.open(path, {"seed": 1}) as journal:
        journal.add(trial(0))
    with Journal.open(path, {"seed": 2}) as journal:
        assert journal.trials == {}
    with Journal.open(path, {"seed": 1}) as journal:
        assert journal.trials == {}


def test_two_searches_do_not_share_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    with (
        Journal.open(path, {}),
        pytest.raises(LearningError, match="another search is using this folder"),
        Journal.open(path, {}),
    ):
        pass


def test_the_best_is_the_best_completed_one() -> None:
    trials = (
        trial(0, loss=0.4, pr_auc=0.5),
        trial(1, loss=0.3, pr_auc=0.6, family="two"),
        trial(2, loss=0.3, pr_auc=0.7),
        trial(3, loss=0.1, pr_auc=0.9, status="stopped"),
        trial(4, loss=None, pr_auc=None, status="failed"),
    )
    result = SearchResult(trials, "log_loss", "tpe", 1.0, 1.0, 0)
    assert result.best() == trials[1]
    assert result.best("one") == trials[2]
    assert result.best("three") is None
    assert SearchResult(trials, "pr_auc", "tpe", 1.0, 1.0, 0).best() == trials[2]
    report = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert report["best"] == 1
    assert [Trial.from_json(one) for one in report["trials"]] == [*trials]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"method": "grid"}, "no search method 'grid'; choose from tpe, random"),
        ({"metric": "f1"}, "no metric 'f1'"),
        ({"trials": 0}, "at least one trial"),
        ({"threads": 0}, "at least one thread"),
        ({"families": ()}, "needs a family"),
    ],
)
def test_wrong_settings_are_errors(tmp_path: Path, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SearchSettings(folder=tmp_path, **wrong)


def test_one_class_only_is_an_error_before_anything_runs(
    tmp_path: Path, sample: Callable[..., Sample]
) -> None:
    train = sample(100)
    how = SearchSettings(folder=tmp_path)
    with pytest.raises(NotEnoughError, match="the validation rows of a search have one outcome only"):
        search(train, train.rows(train.fails == 1), RANKINGS, how)
    assert not [*tmp_path.iterdir()]


def test_all_failed_is_an_error_with_the_first_reason(
    tmp_path: Path, sample: Callable[..., Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: Any) -> tuple[float, float]:
        for number in range(2):
            arguments[6].add(trial(number, status="failed", loss=None, error=f"reason {number}"))
        return 0.0, 0.0

    monkeypatch.setattr("forewarn.learn.search.ray_search.run", run)
    how = SearchSettings(folder=tmp_path, families=("online",), trials=2)
    with pytest.raises(LearningError, match="all 2 trials of the search failed; the first: one: reason 0"):
        search(sample(100), sample(50), RANKINGS, how)


def judged(family: str, losses: np.ndarray, number: int) -> Trial:
    return trial(number, family=family, loss=float(losses.mean()), group_losses=tuple(losses.tolist()))


def result(*trials: Trial, groups: int = 200) -> SearchResult:
    return SearchResult(trials, "log_loss", "tpe", 0.0, 0.0, 0, np.ones(groups))


def test_a_found_recipe_replaces_its_familys_default_where_it_is_clearly_better() -> None:
    default = np.random.default_rng(0).gamma(2, 0.2, 200)
    found = result(judged("one", default, 0), judged("one", default - 0.01, 1))
    assert found.chosen("one") is found.trials[1]
    assert found.to_json()["chosen"]["one"]["trial"] == 1


def test_what_one_user_week_decided_does_not_replace_a_default() -> None:
    """By jobs it would be far better: most of them are one bulk."""
    default = np.random.default_rng(0).gamma(2, 0.2, 200)
    lucky = default.copy()
    lucky[7] -= 40.0
    found = result(judged("one", default, 0), judged("one", lucky, 1))
    assert found.best("one") is found.trials[1]
    assert found.chosen("one") is found.trials[0]
    lead, error = found.lead("one") or (0.0, 0.0)
    assert lead == pytest.approx(0.2)
    assert lead < 2 * error


def test_a_family_whose_default_failed_is_its_best_trial() -> None:
    found = result(trial(0, status="failed", loss=None), judged("one", np.ones(200), 1))
    assert found.chosen("one") is found.trials[1]
    assert found.chosen("two") is None


def test_the_journal_keeps_what_trials_are_compared_by_and_the_report_does_not(tmp_path: Path) -> None:
    trial_with_groups = judged("one", np.ones(3), 0)
    with Journal.open(tmp_path / "trials.jsonl", {}) as journal:
        journal.add(trial_with_groups)
    with Journal.open(tmp_path / "trials.jsonl", {}) as journal:
        assert journal.trials[0] == trial_with_groups
    assert "group_losses" not in result(trial_with_groups).to_json()["trials"][0]
