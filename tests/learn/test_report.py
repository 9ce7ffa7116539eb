"""The report is one self-contained page that shows what the JSON contains and runs nothing from data."""

from __future__ import annotations

import copy
import fnmatch
import json
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from forewarn.errors import ForewarnError, MissingExtraError
from forewarn.formatting import difference, interval, measure, percent, percent_in_table
from forewarn.learn import report as report_package
from forewarn.learn.data.split import split
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.evaluate import evaluate
from forewarn.learn.evaluation.hours import NO_HOURS
from forewarn.learn.report import write_report
from forewarn.learn.report.wording import fit_to_serve, headline, warnings

VOID = {"meta", "br", "img", "input", "link", "hr"}
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "nav", "section", "footer", "div"),
    *("h1", "h2", "h3", "p", "ul", "li", "b", "i", "s", "a", "span", "small", "code", "dl", "dt", "dd"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary"),
    *("svg", "path", "polyline", "polygon", "rect", "circle", "text"),
}


class Page(HTMLParser):
    """A parsed page: its text and tags; every tag must be closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def evaluated(table: JobTable, rows: np.ndarray | None = None, threshold: Any = 0.3) -> dict[str, Any]:
    parts = split(table)
    rows = parts.test if rows is None else rows
    p = 1 / (1 + np.exp(-table.column("online")[rows].astype(np.float64)))
    outcomes = {"failed": 0.7 * p, "timeout": 0.3 * p}
    return evaluate(table, rows, p, threshold, train_rows=parts.train, outcomes=outcomes, resamples=40)


def trial(number: int, loss: float | None, status: str = "completed") -> dict[str, Any]:
    return {
        **{"number": number, "family": ("xgboost", "forest")[number % 2], "params": {"eta": 0.1, "depth": 6}},
        **{"features": ["online", "cpus"], "features_by": "importance", "loss": loss, "rounds": 50},
        **{"roc_auc": 0.7, "pr_auc": 0.4, "seconds": 1.5, "status": status, "error": "", "curve": []},
    }


@pytest.fixture(scope="module")
def full_report(table: JobTable) -> dict[str, Any]:
    """A report with every part."""
    block = {"jobs": 1000, "base_rate": 0.2, "from": "2026-01-01T00:00:00+00:00", "to": "2026-02-01"}
    return {
        "model": {
            **{"id": "4f2c", "created": "2026-11-16T10:00:00+00:00", "forewarn": "0.1.0", "cluster": "tiny"},
            **{"phase": "submit", "feature_set": "generic", "families": ["xgboost", "forest"]},
            "population": {"name": "papers", "in_words": "everything but completed is a failure"},
            "members": [{"weight": 1.0, "family": "xgboost", "params": {"eta": 0.1}, "features": ["online"]}],
        },
        "data": {
            **{"jobs": 5000, "fingerprint": "abc123", "gap": 287_683},
            "blocks": {name: dict(block) for name in ("train", "search", "calibrate", "test")},
        },
        "search": {
            **{"metric": "log_loss", "best": 2, "wall_seconds": 203.0, "start_seconds": 4.0, "resumed": 1},
            "trials": [trial(0, 0.5), trial(1, 0.48, "stopped"), trial(2, 0.41), trial(3, None, "failed")],
        },
        "selection": {"names": ["online"], "by": {"correlation": {"online": 0.4}}},
        "features": [
            {"name": "online", "importance": 0.6, "correlation": 0.4},
            {"name": "cpus", "importance": 0.4, "correlation": None},
        ],
        "imbalance": {"how": "none", "active": None},
        "calibration": {"kind": "platt", "slope": 1.1, "knots": [[0.0, 1.0]] * 30, "evidence": {"rows": 500}},
        "thresholds": {"f1": {"rule": "f1", "value": 0.3, "evidence": {"rows": 500, "f1": 0.5}}},
        "abstention": {
            "share_of_test": 0.02,
            "rungs": [
                {
                    **{"of": "no earlier job of this user has ended", "carries": False, "rows": 59},
                    **{"failed": 0.55, "roc_auc": None, "gain": -0.2, "interval": [-0.5, -0.02]},
                }
            ],
        },
        "evaluation": evaluated(table),
        "same_jobs": {"submit": {"n": 900, "roc_auc": 0.7}, "start": {"n": 900, "roc_auc": 0.75}},
        "causes": {
            **{"n": 100, "accuracy": 0.7, "accuracy_of_majority": 0.6, "log_loss": 0.5, "rounds": 40},
            "causes": [{"cause": "timeout (limit)", "n": 40, "share_in_training": 0.3, "roc_auc": 0.8}],
        },
        "profiles": {
            "number": {
                **{"chosen": 2, "elbow": 2, "lowest_bic": 3},
                "curves": [{"k": k, "wcss": 9.0 / k, "bic": float(abs(k - 3))} for k in range(1, 6)],
            },
            "profiles": [
                {
                    **{"words": "short and light", "share": 0.7, "failed": 0.1, "jobs": 700},
                    "numbers": {"size": {"median": 4.0}, "run_time": {"median": 300.0}},
                    **{"duration": {"short": 0.9, "long": 0.1}, "activity": {"new": 1.0}},
                }
            ],
        },
        "absence": ["tiny: cpus_asked is missing in 10 of 500 jobs: its absence gives the outcome away"],
        "hashes": {"model.ubj": "f" * 64},
    }


def written(report: dict[str, Any], folder: Path) -> tuple[dict[str, Any], Page, str]:
    write_report(report, folder)
    html = (folder / "report.html").read_text(encoding="utf-8")
    content = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return content, Page(html), html


def test_the_page_shows_what_the_json_says(full_report: dict[str, Any], tmp_path: Path) -> None:
    content, page, _ = written(full_report, tmp_path)
    assert content["format"] == 1
    assert {key: content[key] for key in full_report} == full_report
    found = content["evaluation"]
    at = found["at_threshold"]
    for shown in (
        content["verdict"],
        measure(found["ranking"]["roc_auc"]),
        interval(found["intervals"]["roc_auc"]),
        measure(found["ranking"]["pr_auc"]),
        measure(found["ranking"]["brier"]),
        difference(found["over_baseline"]["f1"]),
        interval(found["intervals"]["f1_over_baseline"], signed=True),
        percent(at["recall"]),
        *(f"{count:,}" for count in at["confusion"].values()),
        *(measure(rule["f1"]) for rule in found["baselines"].values()),
        *(f"{row['n']:,}" for row in found["slices"]["partition"]),
        *(
            "0.4100",
            "3.4 minutes",
            "a gap is left before each cut (3.3 days before the last one)",
            "short and light",
            "f" * 64,
            "abc123",
            "everything but completed is a failure",
        ),
        *(warning["text"] for warning in content["warnings"]),
        f"{found['by_decision']['decisions']:,} in {found['ranking']['n']:,} jobs",
        measure(found["by_decision"]["f1"]),
        measure(found["hours"]["pr_auc"]),
        percent_in_table(found["hours"]["top_10"]),
        percent_in_table(found["hours"]["asked_alone"]["top_20"]),
        measure(found["causes"]["timeout"]["pr_auc"]),
        percent_in_table(found["causes"]["timeout"]["hours"]["share"]),
    ):
        assert shown in page.text, shown


def test_keys_of_the_json_have_labels(full_report: dict[str, Any], tmp_path: Path) -> None:
    report = copy.deepcopy(full_report)
    report["thresholds"]["f1"]["evidence"] = {"rows": 500, "alarms": 79, "best_f1": 0.53965}
    report["causes"] |= {"unseen": 3, "log_loss_of_shares": 1.4457}
    kinds = ("failed (user)", "failed (system)", "node_fail (system)")
    report["causes"]["causes"] = [{"cause": kind, "n": 1, "share_in_training": 0.3} for kind in kinds]
    _, page, _ = written(report, tmp_path)
    for text in (
        *(
            "rows 500 · alerts 79 · best F1 0.540",
            "method platt",
            "method none",
            "created 2026-11-16 10:00:00 UTC",
        ),
        *("failures of unknown cause 3", "log loss of the class shares 1.446", "data hash abc123", "0:05:00"),
        *("program error (user) 1", "program error (system) 1", "node failure 1", "Wall time: 3.4 minutes"),
    ):
        assert text in page.text


def test_few_decisions_are_warned_of(full_report: dict[str, Any], tmp_path: Path) -> None:
    report = copy.deepcopy(full_report)
    report["data"]["blocks"]["calibrate"] |= {"decisions": 300, "effective": 15.4, "few": True}
    content, _, _ = written(report, tmp_path)
    texts = [warning["text"] for warning in content["warnings"] if "Few decisions" in warning["text"]]
    assert len(texts) == 1
    assert "(calibrate 15)" in texts[0]
    assert not any(
        "Few decisions" in warning["text"] for warning in written(full_report, tmp_path)[0]["warnings"]
    )


def test_a_source_without_hours_says_so(full_report: dict[str, Any], table: JobTable, tmp_path: Path) -> None:
    bare = replace(table, about=table.about.with_columns(cpu_hours=pl.lit(None, pl.Float64)))
    _, page, _ = written(full_report | {"evaluation": evaluated(bare)}, tmp_path)
    assert NO_HOURS in page.text


def test_it_needs_nothing_beside_it(full_report: dict[str, Any], tmp_path: Path) -> None:
    _, page, html = written(full_report, tmp_path)
    assert len(html) < 1_000_000
    assert not re.search(r"https?://|//[a-z]|url\(|@import", html)
    for tag, attributes in page.tags:
        assert tag in TAGS
        assert not {"src", "srcset", "xlink:href", "data"} & set(attributes)
        assert (attributes.get("href", "#") or "").startswith("#")
    targets = {a["id"] for _, a in page.tags if "id" in a}
    links = {(a["href"] or "").removeprefix("#") for tag, a in page.tags if tag == "a"}
    assert links
    assert links <= targets


def test_figures_have_a_title_and_tables_have_headers(full_report: dict[str, Any], tmp_path: Path) -> None:
    _, page, html = written(full_report, tmp_path)
    drawn = re.findall(r"<svg[^>]*>(.*?)</svg>", html, re.S)
    assert len(drawn) == 7
    assert all(figure.startswith("<title>") and not figure.startswith("<title></title>") for figure in drawn)
    assert all("scope" in attributes for tag, attributes in page.tags if tag == "th")


HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; background:url(http://evil.example)",
    "{{ 7 * 7 }}{% raw %}",
    "</style></svg><b onclick=x>",
    "]]><!--",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_from_data_is_run(name: str, full_report: dict[str, Any], tmp_path: Path) -> None:
    calm = written(full_report, tmp_path / "calm")[1]
    report = copy.deepcopy(full_report)
    report["model"] |= {"cluster": name, "families": [name], "id": name}
    report["evaluation"]["slices"]["partition"][0]["name"] = name
    report["features"][0]["name"] = name
    report["search"]["trials"][0] |= {"family": name, "params": {name: name}, "features_by": name}
    report["absence"], report["hashes"] = [name], {name: name}
    report["thresholds"], report["causes"] = (
        {name: {"value": 0.3, "evidence": {name: name}}},
        {name: {name: name}},
    )
    report["profiles"]["profiles"][0] |= {"words": name, "activity": {name: 0.5}}
    report["data"]["blocks"] = {name: {"jobs": 3, "base_rate": 0.1, "from": name, "to": name}}
    content, page, _ = written(report, tmp_path / "hostile")
    assert content["model"]["cluster"] == name
    assert " ".join(name.split()) in page.text
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in calm.tags}
    for _, attributes in page.tags:
        assert not any(attribute.startswith("on") for attribute in attributes)
        assert not any(name in (value or "") for value in attributes.values())


def test_equal_reports_give_equal_files(full_report: dict[str, Any], tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_report(copy.deepcopy(full_report), tmp_path / folder)
    for name in ("report.json", "report.html"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


@pytest.mark.slow
def test_parts_that_are_missing_are_left_out(full_report: dict[str, Any], tmp_path: Path) -> None:
    for key in full_report:
        for gone in ({k: v for k, v in full_report.items() if k != key}, full_report | {key: None}):
            written(gone, tmp_path / key)
    content, page, _ = written({}, tmp_path / "nothing")
    assert content == {"format": 1, "verdict": None, "warnings": []}
    assert "Forewarn" in page.text
    page = written({k: v for k, v in full_report.items() if k != "search"}, tmp_path / "unsearched")[1]
    assert "Hyperparameter search" not in page.text


@pytest.mark.slow
def test_parts_that_are_empty(full_report: dict[str, Any], tmp_path: Path) -> None:
    for key, value in full_report.items():
        if key != "evaluation":
            written(full_report | {key: type(value)()}, tmp_path / key)
    failed = {"trials": [trial(0, None, "failed")], "best": None}
    assert "1 of 1 trials" in written(full_report | {"search": failed}, tmp_path)[1].text


def test_slices_of_one_class_and_rules_that_never_warn_have_no_false_zero(
    full_report: dict[str, Any], tmp_path: Path
) -> None:
    report = copy.deepcopy(full_report)
    calm = {
        "n": 7,
        "base_rate": 0.0,
        "roc_auc": None,
        "alarms": 0,
        "precision": 0.0,
        "recall": 0.0,
        "f1": 0.0,
    }
    report["evaluation"]["slices"]["partition"] = [{"name": "calm", **calm}, {"others": 3, **calm}]
    page = written(report, tmp_path)[1]
    assert "calm 7 0.0% 0.0% n/a n/a n/a n/a" in page.text
    assert "3 others 7" in page.text


@pytest.mark.parametrize("size", [1, 2, 6])
def test_tiny_test_sets(size: int, full_report: dict[str, Any], table: JobTable, tmp_path: Path) -> None:
    report = full_report | {"evaluation": evaluated(table, split(table).test[:size])}
    content, _, _ = written(report, tmp_path)
    assert any(
        "failures in" in warning["text"] or "No alerts" in warning["text"] for warning in content["warnings"]
    )


def test_a_test_set_of_one_class(full_report: dict[str, Any], table: JobTable, tmp_path: Path) -> None:
    rows = split(table).test
    for label, begins in ((0, "The test jobs contain no failure."), (1, "Detects ")):
        content, _, _ = written(
            full_report | {"evaluation": evaluated(table, rows[table.fails[rows] == label][:40])}, tmp_path
        )
        assert begins in content["verdict"]


def test_a_model_that_never_warns(full_report: dict[str, Any], table: JobTable, tmp_path: Path) -> None:
    content, page, _ = written(full_report | {"evaluation": evaluated(table, threshold=1.0)}, tmp_path)
    assert content["verdict"].startswith("No alerts at the chosen threshold")
    assert content["warnings"][0]["level"] == "bad"
    assert "Precision: correct alerts n/a" in page.text


def test_a_threshold_that_varies_is_shown_as_a_range(
    full_report: dict[str, Any], table: JobTable, tmp_path: Path
) -> None:
    thresholds = np.linspace(0.2, 0.4, len(split(table).test))
    _, page, html = written(full_report | {"evaluation": evaluated(table, threshold=thresholds)}, tmp_path)
    assert "from 0.200 to 0.400" in page.text
    assert html.count('class="area range"') == 2


@pytest.mark.parametrize(
    ("ahead", "bounds", "sentence", "level"),
    [
        (0.05, [0.03, 0.07], "; better than the best simple rule: F1 +0.050 [+0.030, +0.070]", None),
        (0.01, [-0.01, 0.03], "not significantly better than the best simple rule", "beware"),
        (0.01, None, "not significantly better than the best simple rule", "beware"),
        (-0.02, [-0.04, -0.01], "worse than the best simple rule: F1 −0.020", "bad"),
        (-0.02, [-0.06, 0.01], "not significantly better than the best simple rule: F1 −0.020", "bad"),
    ],
)
def test_the_verdict_against_simple_rules(
    ahead: float, bounds: Any, sentence: str, level: str | None, full_report: dict[str, Any], tmp_path: Path
) -> None:
    report = copy.deepcopy(full_report)
    report["evaluation"]["over_baseline"]["f1"] = ahead
    report["evaluation"]["intervals"]["f1_over_baseline"] = bounds
    content, page, _ = written(report, tmp_path)
    assert sentence in content["verdict"]
    levels = [w["level"] for w in content["warnings"] if "simple rule" in w["text"]]
    assert levels == ([level] if level else [])
    assert any("keys" in (a.get("class") or "") for _, a in page.tags)


def test_what_to_beware_of(full_report: dict[str, Any], tmp_path: Path) -> None:
    report = copy.deepcopy(full_report)
    report["evaluation"]["ranking"]["ece"] = 0.041
    report["model"]["phase"] = "posthoc"
    report["data"]["blocks"]["test"]["base_rate"] = 0.13
    content, _, _ = written(report, tmp_path)
    texts = [warning["text"] for warning in content["warnings"]]
    assert "posthoc" in texts[0]
    assert any("4.1 percentage points" in text for text in texts)
    assert any("from 20% in the train block to 13%" in text for text in texts)
    assert any("gives the outcome away" in text for text in texts)
    levels = [warning["level"] for warning in content["warnings"]]
    assert levels == sorted(levels, key=("bad", "beware", "note").index)


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    report = {
        "causes": {"a": float("nan"), "b": np.float32(0.5), "c": np.array([1.0, np.inf]), "d": ("x", {2})}
    }
    content, page, _ = written(report, tmp_path)
    assert content["causes"] == {"a": None, "b": 0.5, "c": [1.0, None], "d": ["x", [2]]}
    assert "n/a" in page.text


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ForewarnError, match="taken"):
        write_report({}, tmp_path / "taken")


def test_without_the_extra_the_error_names_the_line_to_type(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "forewarn.learn.report.html", None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'forewarn[train]'")):
        write_report({}, tmp_path)


def test_the_template_ships_with_the_package_and_loads_late() -> None:
    folder = Path(report_package.__file__).parent
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    shipped = project["tool"]["setuptools"]["package-data"]["forewarn"]
    for path in folder.iterdir():
        if path.is_file() and path.suffix != ".py":
            assert any(fnmatch.fnmatch(f"learn/report/{path.name}", pattern) for pattern in shipped), (
                path.name
            )
    code = "import sys, forewarn.learn.report; print(sorted({'jinja2', 'matplotlib'} & set(sys.modules)))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_a_lead_in_f1_is_worth_nothing_without_ranking(full_report: dict[str, Any], tmp_path: Path) -> None:
    """To warn of every job has a high F1 where many fail: a coin must not be called better than a rule."""
    report = copy.deepcopy(full_report)
    report["evaluation"]["over_baseline"]["f1"] = 0.146
    report["evaluation"]["intervals"] |= {"f1_over_baseline": [0.115, 0.178], "roc_auc": [0.479, 0.597]}
    assert not fit_to_serve(report)
    content, _, _ = written(report, tmp_path)
    assert "ranks no better than chance" in content["verdict"]
    assert content["warnings"][0]["level"] == "bad"
    report["evaluation"]["intervals"]["roc_auc"] = [0.6, 0.7]
    assert fit_to_serve(report)
    assert "; better than the best simple rule: F1 +0.146" in str(headline(report))


def test_a_rule_that_stands_in_serves_without_proof_that_it_ranks(full_report: dict[str, Any]) -> None:
    """On a young site it is what a model has to beat; what would speak instead is proven less."""
    report = copy.deepcopy(full_report)
    evaluation = report["evaluation"]
    evaluation["over_baseline"]["f1"] = 0.0
    evaluation["intervals"] |= {"f1_over_baseline": [0.0, 0.0], "roc_auc": [0.479, 0.597]}
    assert not fit_to_serve(report)
    report["model"]["rule"] = "rule: last outcome of this user"
    assert fit_to_serve(report)
    assert any("do not prove that the rule ranks" in warning["text"] for warning in warnings(report))
    evaluation["intervals"]["roc_auc"] = [0.6, 0.7]
    assert not any("do not prove" in warning["text"] for warning in warnings(report))
    evaluation["intervals"]["roc_auc"] = [0.3, 0.4]
    assert not fit_to_serve(report), "clearly below chance"
    evaluation["intervals"] |= {"f1_over_baseline": [-0.2, -0.1], "roc_auc": [0.479, 0.597]}
    assert not fit_to_serve(report), "clearly worse than another rule"


def test_what_was_asked_of_the_threshold_is_answered(full_report: dict[str, Any]) -> None:
    report = copy.deepcopy(full_report)
    report["thresholds"] = {"precision=0.9": {}, **report["thresholds"]}
    report["evaluation"]["at_threshold"]["precision"] = 0.871
    report["evaluation"]["over_baseline"]["threshold"] = 0.25
    sentence = str(headline(report))
    assert "target precision 0.9, reached 0.871" in sentence
    assert "at the F1-optimal threshold, 0.250" in sentence
