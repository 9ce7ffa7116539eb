"""The report: one page that needs nothing beside it, says what the JSON says, and runs nothing from data."""

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
from forewarn.learn import report as report_package
from forewarn.learn.data.split import split
from forewarn.learn.data.table import JobTable
from forewarn.learn.evaluation.evaluate import evaluate
from forewarn.learn.evaluation.hours import NO_HOURS
from forewarn.learn.report import write_report
from forewarn.learn.report.wording import figure, fit_to_serve, interval, share, signed, verdict, warnings

VOID = {"meta", "br", "img", "input", "link", "hr"}
TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "nav", "section", "footer", "div"),
    *("h1", "h2", "h3", "p", "ul", "li", "b", "i", "s", "a", "span", "small", "code", "dl", "dt", "dd"),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "details", "summary"),
    *("svg", "path", "polyline", "polygon", "rect", "circle", "text"),
}


class Page(HTMLParser):
    """What a browser would make of it: the text, and that every tag is closed in its turn."""

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


def judged(table: JobTable, rows: np.ndarray | None = None, threshold: Any = 0.3) -> dict[str, Any]:
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
def made(table: JobTable) -> dict[str, Any]:
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
        "evaluation": judged(table),
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
    told = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return told, Page(html), html


def test_the_page_shows_what_the_json_says(made: dict[str, Any], tmp_path: Path) -> None:
    told, page, _ = written(made, tmp_path)
    assert told["format"] == 1
    assert {key: told[key] for key in made} == made
    found = told["evaluation"]
    at = found["at_threshold"]
    for shown in (
        told["verdict"],
        figure(found["ranking"]["roc_auc"]),
        interval(found["intervals"]["roc_auc"]),
        figure(found["ranking"]["pr_auc"]),
        figure(found["ranking"]["brier"]),
        signed(found["over_baseline"]["f1"]),
        interval(found["intervals"]["f1_over_baseline"], plus=True),
        share(at["recall"]),
        *(f"{count:,}" for count in at["confusion"].values()),
        *(figure(rule["f1"]) for rule in found["baselines"].values()),
        *(f"{row['n']:,}" for row in found["slices"]["partition"]),
        *(
            "0.4100",
            "3 min",
            "a gap is left before each cut (3.3 d before the last one)",
            "short and light",
            "f" * 64,
            "abc123",
            "everything but completed is a failure",
        ),
        *(warning["text"] for warning in told["warnings"]),
        f"{found['by_decision']['decisions']:,} in {found['ranking']['n']:,} jobs",
        figure(found["by_decision"]["f1"]),
        figure(found["hours"]["pr_auc"]),
        share(found["hours"]["top_10"]),
        share(found["hours"]["asked_alone"]["top_20"]),
        figure(found["causes"]["timeout"]["pr_auc"]),
        share(found["causes"]["timeout"]["hours"]["share"]),
    ):
        assert shown in page.text, shown


def test_few_decisions_are_warned_of(made: dict[str, Any], tmp_path: Path) -> None:
    report = copy.deepcopy(made)
    report["data"]["blocks"]["calibrate"] |= {"decisions": 300, "effective": 15.4, "few": True}
    told, _, _ = written(report, tmp_path)
    texts = [warning["text"] for warning in told["warnings"] if "Few decisions" in warning["text"]]
    assert len(texts) == 1
    assert "(calibrate 15)" in texts[0]
    assert not any("Few decisions" in warning["text"] for warning in written(made, tmp_path)[0]["warnings"])


def test_a_source_without_hours_says_so(made: dict[str, Any], table: JobTable, tmp_path: Path) -> None:
    bare = replace(table, about=table.about.with_columns(cpu_hours=pl.lit(None, pl.Float64)))
    _, page, _ = written(made | {"evaluation": judged(bare)}, tmp_path)
    assert NO_HOURS in page.text


def test_it_needs_nothing_beside_it(made: dict[str, Any], tmp_path: Path) -> None:
    _, page, html = written(made, tmp_path)
    assert len(html) < 1_000_000
    assert not re.search(r"https?://|//[a-z]|url\(|@import", html)
    for tag, attributes in page.tags:
        assert tag in TAGS
        assert not {"src", "srcset", "xlink:href", "data"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")
    targets = {a["id"] for _, a in page.tags if "id" in a}
    assert {a["href"].removeprefix("#") for tag, a in page.tags if tag == "a"} <= targets


def test_figures_have_a_title_and_tables_have_headers(made: dict[str, Any], tmp_path: Path) -> None:
    _, page, html = written(made, tmp_path)
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
def test_nothing_from_data_is_run(name: str, made: dict[str, Any], tmp_path: Path) -> None:
    calm = written(made, tmp_path / "calm")[1]
    report = copy.deepcopy(made)
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
    told, page, _ = written(report, tmp_path / "hostile")
    assert told["model"]["cluster"] == name
    assert " ".join(name.split()) in page.text
    assert {tag for tag, _ in page.tags} <= {tag for tag, _ in calm.tags}
    for _, attributes in page.tags:
        assert not any(attribute.startswith("on") for attribute in attributes)
        assert not any(name in (value or "") for value in attributes.values())


def test_equal_reports_give_equal_files(made: dict[str, Any], tmp_path: Path) -> None:
    for folder in ("one", "two"):
        write_report(copy.deepcopy(made), tmp_path / folder)
    for name in ("report.json", "report.html"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_parts_that_are_missing_are_left_out(made: dict[str, Any], tmp_path: Path) -> None:
    for key in made:
        for gone in ({k: v for k, v in made.items() if k != key}, made | {key: None}):
            written(gone, tmp_path / key)
    told, page, _ = written({}, tmp_path / "nothing")
    assert told == {"format": 1, "verdict": None, "warnings": []}
    assert "Forewarn" in page.text
    page = written({k: v for k, v in made.items() if k != "search"}, tmp_path / "unsearched")[1]
    assert "How it was found" not in page.text


def test_parts_that_are_empty(made: dict[str, Any], tmp_path: Path) -> None:
    for key, value in made.items():
        if key != "evaluation":
            written(made | {key: type(value)()}, tmp_path / key)
    failed = {"trials": [trial(0, None, "failed")], "best": None}
    assert "1 of 1 trials" in written(made | {"search": failed}, tmp_path)[1].text


def test_slices_of_one_class_and_rules_that_never_warn_have_no_false_zero(
    made: dict[str, Any], tmp_path: Path
) -> None:
    report = copy.deepcopy(made)
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
    assert "calm 7 0 % 0 % n/a n/a n/a n/a" in page.text
    assert "3 others together 7" in page.text


@pytest.mark.parametrize("size", [1, 2, 6])
def test_tiny_test_sets(size: int, made: dict[str, Any], table: JobTable, tmp_path: Path) -> None:
    report = made | {"evaluation": judged(table, split(table).test[:size])}
    told, _, _ = written(report, tmp_path)
    assert any("failures in" in warning["text"] or "never" in warning["text"] for warning in told["warnings"])


def test_a_test_set_of_one_class(made: dict[str, Any], table: JobTable, tmp_path: Path) -> None:
    rows = split(table).test
    for wanted, begins in ((0, "no failure to warn of"), (1, "Warns of")):
        told, _, _ = written(
            made | {"evaluation": judged(table, rows[table.fails[rows] == wanted][:40])}, tmp_path
        )
        assert begins in told["verdict"]


def test_a_model_that_never_warns(made: dict[str, Any], table: JobTable, tmp_path: Path) -> None:
    told, page, _ = written(made | {"evaluation": judged(table, threshold=1.0)}, tmp_path)
    assert told["verdict"].startswith("Warns of no job at all")
    assert told["warnings"][0]["level"] == "bad"
    assert "Precision: true warnings n/a" in page.text


def test_a_threshold_that_varies_is_shown_as_a_range(
    made: dict[str, Any], table: JobTable, tmp_path: Path
) -> None:
    thresholds = np.linspace(0.2, 0.4, len(split(table).test))
    _, page, html = written(made | {"evaluation": judged(table, threshold=thresholds)}, tmp_path)
    assert "from 0.200 to 0.400" in page.text
    assert html.count('class="area range"') == 2


@pytest.mark.parametrize(
    ("ahead", "bounds", "said", "level"),
    [
        (0.05, [0.03, 0.07], "better than the best simple rule by F1 +0.050 [+0.030, +0.070]", None),
        (0.01, [-0.01, 0.03], "not clearly better than the best simple rule", "beware"),
        (0.01, None, "not clearly better than the best simple rule", "beware"),
        (-0.02, [-0.04, -0.01], "worse than the best simple rule: F1 −0.020", "bad"),
        (-0.02, [-0.06, 0.01], "not clearly better than the best simple rule: F1 −0.020", "bad"),
    ],
)
def test_the_verdict_against_simple_rules(
    ahead: float, bounds: Any, said: str, level: str | None, made: dict[str, Any], tmp_path: Path
) -> None:
    report = copy.deepcopy(made)
    report["evaluation"]["over_baseline"]["f1"] = ahead
    report["evaluation"]["intervals"]["f1_over_baseline"] = bounds
    told, page, _ = written(report, tmp_path)
    assert said in told["verdict"]
    levels = [w["level"] for w in told["warnings"] if "simple rule" in w["text"]]
    assert levels == ([level] if level else [])
    assert any("keys" in (a.get("class") or "") for _, a in page.tags)


def test_what_to_beware_of(made: dict[str, Any], tmp_path: Path) -> None:
    report = copy.deepcopy(made)
    report["evaluation"]["ranking"]["ece"] = 0.041
    report["model"]["phase"] = "posthoc"
    report["data"]["blocks"]["test"]["base_rate"] = 0.13
    told, _, _ = written(report, tmp_path)
    texts = [warning["text"] for warning in told["warnings"]]
    assert "posthoc" in texts[0]
    assert any("4.1 points" in text for text in texts)
    assert any("from 20 % in the train block to 13 %" in text for text in texts)
    assert any("gives the outcome away" in text for text in texts)
    levels = [warning["level"] for warning in told["warnings"]]
    assert levels == sorted(levels, key=("bad", "beware", "note").index)


def test_numbers_that_json_does_not_have(tmp_path: Path) -> None:
    report = {
        "causes": {"a": float("nan"), "b": np.float32(0.5), "c": np.array([1.0, np.inf]), "d": ("x", {2})}
    }
    told, page, _ = written(report, tmp_path)
    assert told["causes"] == {"a": None, "b": 0.5, "c": [1.0, None], "d": ["x", [2]]}
    assert "n/a" in page.text


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(ForewarnError, match="taken"):
        write_report({}, tmp_path / "taken")


def test_without_the_extra_the_line_to_type_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
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


def test_a_lead_in_f1_is_worth_nothing_without_ranking(made: dict[str, Any], tmp_path: Path) -> None:
    """To warn of every job has a high F1 where many fail: a coin must not be called better than a rule."""
    report = copy.deepcopy(made)
    report["evaluation"]["over_baseline"]["f1"] = 0.146
    report["evaluation"]["intervals"] |= {"f1_over_baseline": [0.115, 0.178], "roc_auc": [0.479, 0.597]}
    assert not fit_to_serve(report)
    told, _, _ = written(report, tmp_path)
    assert "ranks no better than chance" in told["verdict"]
    assert told["warnings"][0]["level"] == "bad"
    report["evaluation"]["intervals"]["roc_auc"] = [0.6, 0.7]
    assert fit_to_serve(report)
    assert "better than the best simple rule by F1 +0.146" in str(verdict(report))


def test_a_rule_that_stands_in_serves_without_proof_that_it_ranks(made: dict[str, Any]) -> None:
    """On a young site it is what a model has to beat; what would speak instead is proven less."""
    report = copy.deepcopy(made)
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


def test_what_was_asked_of_the_threshold_is_answered(made: dict[str, Any]) -> None:
    report = copy.deepcopy(made)
    report["thresholds"] = {"precision=0.9": {}, **report["thresholds"]}
    report["evaluation"]["at_threshold"]["precision"] = 0.871
    report["evaluation"]["over_baseline"]["threshold"] = 0.25
    said = str(verdict(report))
    assert "asked for: a precision of 0.9, reached 0.871" in said
    assert "at the threshold for F1, 0.250" in said
