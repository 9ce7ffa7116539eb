"""English: every code has a text, it fits the values, and the logic contains no sentences."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import forewarn
from forewarn.assess.assessment import Advice, Oddity, Oddness, Verdict
from forewarn.assess.codes import CauseCode, OddityCode, StepCode, SummaryCode, all_codes, code_of
from forewarn.assess.explanation.groups import EvidenceGroup
from forewarn.assess.finding_codes import FindingCode, FixCode
from forewarn.assess.verdict import with_verdict
from forewarn.assess.wording import VERDICTS, Reader, oddity, passed, summary, what, why, words
from forewarn.assess.wording.lookup import TABLE
from forewarn.assess.wording.names import GROUPS
from forewarn.assess.wording.summaries import SUMMARIES
from forewarn.evidence import Code, Statement
from forewarn.learn.fitting.evidence_levels import AbstentionCode
from forewarn.learn.heads.oddness_columns import COLUMNS
from forewarn.learn.heads.unusual_codes import UnusualCode
from tests.assess.examples import STATED, statement
from tests.assess.test_verdict import DOUBT, PLAIN, failing

SOURCE = Path(forewarn.__file__).parent


def test_every_code_has_words() -> None:
    assert set(all_codes().values()) == set(TABLE) | set(SUMMARIES)
    assert set(VERDICTS) == set(Verdict)
    assert set(GROUPS) == {group.name.lower() for group in EvidenceGroup}
    assert {f"unusual_{name}" for name in COLUMNS} == set(UnusualCode)


@pytest.mark.parametrize("code", STATED, ids=str)
def test_the_words_are_built_from_the_values(code: Code) -> None:
    text = words(statement(code))
    assert text
    assert not re.search(r"[{}]|\bNone\b|\bnan\b|\bTrue\b|\('", text), text


def test_codes_are_stable_names() -> None:
    for text in all_codes():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", text)
    with pytest.raises(ValueError, match="unknown code of evidence"):
        code_of("whatever")


def test_a_reader_of_anothers_jobs() -> None:
    stated = Statement(code_of("history_of_request"), {"streak": 4, "ended": 9})
    assert words(stated) == "your last 4 jobs with this request failed"
    assert words(stated, Reader.of("ann", "bob")) == "ann's last 4 jobs with this request failed"
    assert words(stated, Reader.of("ann", "ann")) == words(stated)


def test_an_oddity_in_each_partition_that_a_job_names() -> None:
    values = {"asked": 3, "there": 2}
    other = Statement(OddityCode.NODES_EXCEED_PARTITION, {"partition": "b", **values})
    odd = Oddity(rule="r", code=OddityCode.NODES_EXCEED_PARTITION, values={"partition": "a", **values})
    both = replace(odd, elsewhere=(other,))
    assert oddity(both) == "requests 3 nodes; partition a has 2; requests 3 nodes; partition b has 2"


def test_a_fix_follows_what_it_puts_right() -> None:
    values = {"path": "run.sh"}
    advice = Advice(
        steps=(
            Statement(StepCode.FIX_LINE, {"line": 3}),
            Statement(StepCode.OTHER_PARTITION, {"partition": "b"}),
        ),
        because=(
            Statement(FindingCode.NOT_EXECUTABLE, values),
            Statement(FixCode.MAKE_EXECUTABLE, values),
            Statement(CauseCode.PARTITION_SUITS),
        ),
        changes=(),
        risk_before=None,
        risk_after=None,
    )
    assert what(advice) == "fix line 3 and use partition b"
    assert why(advice) == "run.sh is not executable: chmod +x run.sh; it has what this job needs"


def test_who_passed_a_job_on_is_named() -> None:
    stated = Statement(AbstentionCode.NO_JOB, {"model": "generic", "jobs": 600, "failure_rate": 0.2})
    assert passed(stated) == (
        "generic: not enough evidence: no earlier job of this user has ended; "
        "on 600 such jobs the model was no better than their failure rate, 20%"
    )


@pytest.mark.parametrize("code", SummaryCode)
def test_every_summary_is_a_sentence(code: SummaryCode) -> None:
    odd = Oddness(oddities=(Oddity(rule="r", code=OddityCode.NO_GPUS, values={"partition": "", "asked": 1}),))
    assessment = with_verdict(replace(PLAIN, failure=failing(0.3), findings=(DOUBT,), oddness=odd))
    certain = replace(odd, oddities=tuple(replace(one, impossible=True) for one in odd.oddities))
    if code is SummaryCode.CANNOT_RUN:
        assessment = replace(assessment, oddness=certain)
    text = summary(replace(assessment, summary=Statement(code, assessment.summary.values)))
    assert text
    assert "None" not in text


# --- no words outside ---------------------------------------------------------------------------------------

_LOGIC = [
    *SOURCE.glob("assess/*.py"),
    *(
        file
        for room in ("explanation", "oddness", "advice", "script")
        for file in SOURCE.glob(f"assess/{room}/*.py")
    ),
    *(
        SOURCE / "assess/post_mortem" / f"{name}.py"
        for name in ("advice", "explain", "find_job", "likely_cause", "nearby_failures", "record_evidence")
    ),
    *(
        SOURCE / "learn" / name
        for name in ("heads/oddness.py", "heads/oddness_columns.py", "registry/bundle.py")
    ),
    *(SOURCE / "job/sbatch" / name for name in ("directives.py", "getopt.py", "options.py", "request.py")),
    *(SOURCE / "operate" / name for name in ("advise.py", "script_check.py", "live_assessment.py")),
]
# Text that is no evidence: the description of the JSON form, names of kinds of evidence, a line of `diff`.
_ALLOWED = {"json_schema.py", "groups.py", "diff.py"}
_SENTENCE = re.compile(r"[A-Za-z]{2,},? [a-z]{2,},? [a-z]{2,}")


def _sentences(file: Path) -> Iterator[str]:
    """Strings that read as English; docstrings, errors, log lines, patterns and lists of words are none."""
    tree = ast.parse(file.read_text())
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped.add(node.value)
        if isinstance(node, ast.Raise) or (
            isinstance(node, ast.Call) and ast.unparse(node.func) in ("re.compile", "log.warning", "log.info")
        ):
            skipped |= set(ast.walk(node))
        if isinstance(node, ast.Assign) and any(
            isinstance(name, ast.Name) and name.id.endswith("_WORDS") for name in node.targets
        ):
            skipped |= set(ast.walk(node))
    for node in ast.walk(tree):
        if node in skipped or not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if _SENTENCE.search(node.value):
            yield f"{file.name}:{node.lineno}: {node.value!r}"


@pytest.mark.parametrize("file", _LOGIC, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_logic_holds_no_sentences(file: Path) -> None:
    assert file.name in _ALLOWED or list(_sentences(file)) == []


def test_a_sentence_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        'def f(n: int) -> str:\n    """Say it."""\n    return f"requests {n} and more"\n'
    )
    assert not list(_sentences(tmp_path / "a.py")), "two words are no sentence"
    (tmp_path / "a.py").write_text(
        'x = f"requests more than {3} nodes"\nraise ValueError("this is not for them")\n'
    )
    assert len(list(_sentences(tmp_path / "a.py"))) == 1
