"""Champions are loaded when they are needed, replaced when another is promoted, and refused when damaged."""

from __future__ import annotations

import gc
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from forewarn.assess.champions import Champion, Champions
from forewarn.assess.codes import NoteCode
from forewarn.errors import BundleError
from forewarn.evidence import Statement, Values
from forewarn.learn.registry.serving import Serving
from tests.assess.served import damage, promote, small_bundle


@pytest.fixture
def serving(tmp_path: Path) -> Serving:
    return Serving(tmp_path / "models")


def generic(champions: Champions) -> Champion:
    champion = champions.get("submit", "generic")
    assert champion is not None
    return champion


def test_a_model_is_loaded_at_its_first_use_and_only_once(serving: Serving) -> None:
    copy = promote(serving, small_bundle(), 1)
    aside = copy.rename(copy.with_name("aside"))
    champions = Champions("alps", serving)  # reads the pointer, not the bundle
    with pytest.raises(BundleError):
        champions.get("submit", "generic")
    aside.rename(copy)
    first = generic(champions)
    shutil.rmtree(copy)
    assert generic(champions) is first
    assert (str(first.name), first.version, first.caveat) == ("alps.submit.generic", 1, None)
    assert first.bundle.jobs == small_bundle().jobs


def test_there_is_no_model_of_another_phase_feature_set_or_cluster(serving: Serving) -> None:
    promote(serving, small_bundle(), 1)
    champions = Champions("alps", serving)
    assert champions.get("start", "generic") is None
    assert champions.get("submit", "restricted") is None
    assert Champions("jura", serving).get("submit", "generic") is None


def test_many_threads_get_the_same_model(serving: Serving) -> None:
    promote(serving, small_bundle(), 1)
    champions, barrier = Champions("alps", serving), Barrier(8)

    def ask(_: int) -> Champion:
        barrier.wait()
        return generic(champions)

    with ThreadPoolExecutor(8) as pool:
        assert len({id(champion) for champion in pool.map(ask, range(8))}) == 1


def test_a_promoted_model_replaces_the_one_before(serving: Serving) -> None:
    """A collector runs for months: a model that no longer serves must not stay in memory."""
    promote(serving, small_bundle(1, cluster="jura"), 1)
    champions = Champions("jura", serving)
    assert generic(champions).version == 1
    assert champions.refreshed() is champions, "nothing was promoted"
    promote(serving, small_bundle(2, cluster="jura"), 2)
    assert generic(champions).version == 1, "one instance always answers from the same models"
    champions = champions.refreshed()
    assert generic(champions).bundle.facts.created == 2
    gc.collect()
    in_memory = [one for one in gc.get_objects() if isinstance(one, Champion)]
    assert [one.version for one in in_memory if one.name.cluster == "jura"] == [2]


def test_a_promotion_leaves_the_other_models_loaded(serving: Serving) -> None:
    promote(serving, small_bundle(1), 1)
    promote(serving, small_bundle(1, feature_set="restricted"), 1)
    champions = Champions("alps", serving)
    restricted = champions.get("submit", "restricted")
    promote(serving, small_bundle(2), 2)
    refreshed = champions.refreshed()
    assert refreshed.get("submit", "restricted") is restricted
    assert generic(refreshed).version == 2


def test_a_damaged_bundle_is_refused_and_the_one_before_serves_on(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    promote(serving, small_bundle(1), 1)
    first = Champions("alps", serving)
    served = generic(first)
    damage(promote(serving, small_bundle(2), 2))
    second = first.refreshed()
    assert generic(second) is served
    assert "alps.submit.generic version 2 is refused, version 1 serves on: " in caplog.text
    assert second.refreshed() is second, "it is not tried again and again"
    promote(serving, small_bundle(3), 3)
    assert generic(second.refreshed()).version == 3


def test_a_model_whose_answer_is_no_probability_is_refused(
    serving: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    promote(serving, small_bundle(1), 1)
    champions = Champions("alps", serving)
    bundle = small_bundle(2)
    impossible = {rule: replace(one, value=1.5) for rule, one in bundle.thresholds.items()}
    promote(serving, replace(bundle, thresholds=impossible), 2)
    assert generic(champions.refreshed()).version == 1
    assert "is no probability" in caplog.text


def test_a_damaged_bundle_without_one_before_leaves_no_model(serving: Serving) -> None:
    champions = Champions("alps", serving)
    damage(promote(serving, small_bundle(), 1))
    refreshed = champions.refreshed()
    assert refreshed.get("submit", "generic") is None
    assert not refreshed.serve_at("submit")


def test_an_unreadable_pointer_leaves_the_loaded_models(
    serving: Serving, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    promote(serving, small_bundle(), 1)
    champions = Champions("alps", serving)
    (pointer,) = (tmp_path / "models" / "serving").iterdir()
    pointer.write_text("{")
    assert champions.refreshed() is champions
    assert "cannot read which models serve alps, the loaded ones serve on: " in caplog.text
    with pytest.raises(BundleError, match=pointer.name):
        Champions("alps", serving)


def test_a_phase_is_served_by_a_model_with_histories(serving: Serving) -> None:
    promote(serving, small_bundle(1, feature_set="restricted"), 1)
    assert not Champions("alps", serving).serve_at("submit")
    promote(serving, small_bundle(1), 1)
    assert Champions("alps", serving).serve_at("submit")
    assert not Champions("alps", serving).serve_at("start")


def test_the_failure_policy_is_that_of_the_models(serving: Serving) -> None:
    assert Champions("alps", serving).policy.name == "wasted"
    promote(serving, small_bundle(population="papers-started"), 1)
    assert Champions("alps", serving).policy.name == "papers"


def test_a_model_that_serves_against_its_report_has_a_caveat(serving: Serving) -> None:
    promote(serving, small_bundle(may_serve=False), 4)
    values: Values = {"model": "alps.submit.generic", "version": 4}
    assert generic(Champions("alps", serving)).caveat == Statement(NoteCode.AGAINST_REPORT, values)


def test_a_bundle_from_a_folder_serves_its_own_cluster(tmp_path: Path) -> None:
    small_bundle().save(tmp_path / "exported")
    champion = generic(Champions("alps", None, (tmp_path / "exported",)))
    assert champion.version is None
    with pytest.raises(BundleError, match=r"trained on cluster 'alps', but the jobs are from 'jura'.*'alps'"):
        Champions("jura", None, (tmp_path / "exported",))
    lent = Champions("jura", None, (tmp_path / "exported",), bundles_of="alps")
    assert generic(lent).name == champion.name
    assert lent.refreshed() is lent
