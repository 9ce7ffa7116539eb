"""Changes of options in a script: what sbatch reads afterwards, and what stays as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.assess.assessment import Change
from forewarn.assess.script import script_diff
from forewarn.job.sbatch.script import read_script
from tests.job.sbatch.corpus import SCRIPTS, script


def change(option: str, after: str, before: str | None = None) -> Change:
    return Change(option=option, before=before, after=after)


@pytest.mark.parametrize(
    ("line", "option", "after", "new"),
    [
        ("--mem=4G", "mem", "8G", "--mem=8G"),
        ("--mem 4G  # enough", "mem", "8G", "--mem 8G  # enough"),
        ("-t30", "time", "01:00:00", "-t01:00:00"),
        ("-t 30 -n 2", "time", "60", "-t 60 -n 2"),
        ("-sN1", "nodes", "2", "-sN2"),
        ("--out=x", "output", "y", "--out=y"),
        ('--job-name="a b" -n 2', "job-name", "c d", '--job-name="c d" -n 2'),
        ("-J 'a b'", "job-name", "c", "-J c"),
        ("--tasks-per-node=2", "ntasks-per-node", "4", "--tasks-per-node=4"),
    ],
)
def test_a_line_keeps_how_it_is_written(line: str, option: str, after: str, new: str) -> None:
    text, diff = script_diff(script(line), [change(option, after)])
    assert text == script(new)
    assert f"-#SBATCH {line}\n+#SBATCH {new}\n" in diff


def test_what_was_not_there_is_added() -> None:
    text, diff = script_diff(script("-n 2"), [change("exclude", "n[3,7]")], name="a.sh")
    assert text == script("-n 2", "--exclude=n[3,7]")
    assert diff.startswith("--- a/a.sh\n+++ b/a.sh\n")
    assert script_diff("#!/bin/sh\ntrue\n", [change("mem", "4G")])[0] == "#!/bin/sh\n#SBATCH --mem=4G\ntrue\n"
    assert script_diff("true", [change("mem", "4G")])[0] == "#SBATCH --mem=4G\ntrue"


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        (("--mem-per-cpu=1G", "-n 2"), ("-n 2", "--mem=8G")),
        (("-n 2 --mem-per-cpu=1G -c 2",), ("-n 2 -c 2", "--mem=8G")),
        (("--mem-per-cpu=1G # each", "-n 2"), ("-n 2", "--mem=8G")),
    ],
)
def test_what_excludes_it_goes(lines: tuple[str, ...], left: tuple[str, ...]) -> None:
    assert script_diff(script(*lines), [change("mem", "8G")])[0] == script(*left)


def test_an_option_twice_and_one_behind_the_first_command() -> None:
    text, _ = script_diff(script("-n 2", "-n 3") + "#SBATCH -n 9\n", [change("ntasks", "4")])
    assert text == script("-n 2", "-n 4") + "#SBATCH -n 9\n"


def test_no_change_is_no_difference() -> None:
    assert script_diff(script("--mem=4G"), [change("mem", "4G")]) == (script("--mem=4G"), "")
    assert script_diff(script("-n 2"), []) == (script("-n 2"), "")


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize(("option", "after"), [("mem", "7G"), ("time", "07:00:00"), ("exclude", "n7")])
def test_sbatch_reads_the_change_and_the_rest_as_before(name: str, option: str, after: str) -> None:
    before = read_script(SCRIPTS[name])
    text, diff = script_diff(SCRIPTS[name], [change(option, after)])
    then = read_script(text)
    assert then.options.value(option) == after
    assert len(diff.splitlines()) < 20
    others = {"mem", "mem-per-cpu", "mem-per-gpu"} if option == "mem" else {option}
    assert [(g.option, g.value) for g in then.options.entries if g.option not in others] == [
        (g.option, g.value) for g in before.options.entries if g.option not in others
    ]
    assert then.problems == before.problems
    assert then.body.calls[0].arguments == before.body.calls[0].arguments if before.body.calls else True


@pytest.mark.slow
@given(st.text(max_size=200), st.sampled_from(["mem", "time", "nodes"]))
def test_any_text(text: str, option: str) -> None:
    new, diff = script_diff(f"#!/bin/sh\n#SBATCH {text}", [change(option, "7")])
    assert bool(diff) == (new != f"#!/bin/sh\n#SBATCH {text}")
