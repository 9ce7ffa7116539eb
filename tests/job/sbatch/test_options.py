"""Tests of options: their lines, words and spellings, and which overrides which."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.job.sbatch.option_table import LETTERS, OPTIONS, Argument, options_of
from forewarn.job.sbatch.script import read_script
from forewarn.job.sbatch.word_split import WordError, split_words
from tests.job.sbatch.corpus import REFUSED, SCRIPTS, idle, script


def values(text: str, slurm: str | None = None) -> dict[str, str | None]:
    options = read_script(text, slurm=slurm).options
    return {option: options.value(option) for option in options}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-n 4 --mem=2G", ["-n", "4", "--mem=2G"]),
        ("-J 'a b' # why", ["-J", "a b"]),
        ('--comment="x # y"z', ["--comment=x # yz"]),
        (r"-J a\ b\"c", ["-J", 'a b"c']),
        (r'-J "a\"b"', ["-J", 'a"b']),
        ("-n 4\r", ["-n", "4"]),
        ("-J '' -n 4", ["-J"]),  # sbatch takes an empty word for the line's end
        ("--mem=2G#all", ["--mem=2G"]),
        ("", []),
        ("-n 4\0 -c 2", ["-n", "4"]),
        ("-J a\\", ["-J", "a"]),
    ],
)
def test_words(line: str, words: list[str]) -> None:
    assert [word.text for word in split_words(line)] == words


@pytest.mark.parametrize("line", ["-J 'open", '-J "open', ": -n 4"])
def test_lines_that_sbatch_ends_at(line: str) -> None:
    with pytest.raises(WordError):
        split_words(line)


def test_a_word_knows_its_place() -> None:
    line = "#SBATCH --mem=2G  -J 'a b'"
    assert [line[word.begin : word.end] for word in split_words(line, 7)] == ["--mem=2G", "-J", "'a b'"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-N1", {"nodes": "1"}),
        ("--nodes 1-4", {"nodes": "1-4"}),
        ("--out=x", {"output": "x"}),
        ("--tasks=3", {"ntasks-per-node": "3"}),  # the one option that begins so
        ("--tasks-per-node 3", {"ntasks-per-node": "3"}),
        ("--cluster=a", {"clusters": "a"}),
        ("-sHn2", {"oversubscribe": None, "hold": None, "ntasks": "2"}),
        ("--exclusive", {"exclusive": None}),
        ("--exclusive=user", {"exclusive": "user"}),
        ("--nice -n 2", {"nice": None, "ntasks": "2"}),
        ("-n 2 -n 3", {"ntasks": "3"}),
        ("--mem=", {"mem": ""}),
        ("-t -1", {"time": "-1"}),
        ("-- -n 2", {}),
    ],
)
def test_spellings(line: str, expected: dict[str, str | None]) -> None:
    assert values(script(line)) == expected


@pytest.mark.parametrize(
    ("line", "rule", "fix"),
    [
        ("--ntaks=4", "unknown-option", "similar_option"),
        ("--memory=4G", "unknown-option", None),
        ("--n=4", "ambiguous-option", None),
        ("--gpu=1", "ambiguous-option", None),
        ("--mem", "missing-value", None),
        ("--hold=1", "unexpected-value", None),
        ("-l", "unknown-option", None),
        ("main", "not-an-option", "option_begins_with_dash"),
        ("-J 'x", "unreadable-line", None),
        ("-n four", "bad-value", None),
        ("-t 10m", "bad-value", None),
        ("--mem=1.5G", "bad-value", None),
    ],
)
def test_problems_are_returned_not_raised(line: str, rule: str, fix: str | None) -> None:
    (problem,) = read_script(script("-c 2", line)).problems
    assert (problem.rule, problem.line, problem.refused) == (rule, 3, True)
    assert problem.fix == fix if fix else True


def test_versions_know_different_options() -> None:
    text = script("--segment=4", "--power=x")
    assert [problem.rule for problem in read_script(text, slurm="22.05").problems] == ["unknown-option"]
    (newer,) = read_script(text, slurm="22.05").problems
    assert (newer.code, newer.values["since"]) == ("newer_option", "24.11")
    assert read_script(text, slurm="26.05").problems[0].code == "former_option"
    assert not read_script(text).problems


def test_an_abbreviation_that_a_newer_sbatch_calls_ambiguous() -> None:
    text = script("--cons=ib")
    assert values(text) == values(text, "24.11") == {"constraint": "ib"}
    assert read_script(text, slurm="26.05").problems[0].rule == "ambiguous-option"


def test_options_of_a_plugin_are_no_mistake() -> None:
    read = read_script(script("--container-image=nvcr.io/nvidia/pytorch", "--container-mounts /a:/b", "-n 2"))
    assert [(problem.rule, problem.refused) for problem in read.problems] == [("plugin-option", False)] * 2
    assert read.options.value("container-mounts") == "/a:/b"
    assert read.options.value("ntasks") == "2"


def test_only_before_the_first_command() -> None:
    read = read_script(script("-n 2", "", "# comment").replace("echo begin", "set -e\n#SBATCH -n 9"))
    assert read.options.value("ntasks") == "2"
    assert read.directives.ignored == (7,)
    assert read.directives.first_command == 6


def test_what_only_looks_like_an_option() -> None:
    read = read_script(script("##SBATCH -n 9", "# SBATCH -n 8", "#sbatch -n 7", "#SBATCH -n 2"))
    assert read.options.value("ntasks") == "2"
    assert read.directives.lookalikes == (2, 3, 4)


def test_a_value_in_the_next_line() -> None:
    given = read_script(script("--ntasks", "3")).options["ntasks"]
    assert (given.value, given.line, given.value_line) == ("3", 2, 3)


def test_command_line_over_environment_over_script() -> None:
    text = script("-t 1", "-p script", "-n 1")
    environment = {"SBATCH_TIMELIMIT": "2", "SBATCH_PARTITION": "environment", "SBATCH_NOTHING": "x"}
    options = read_script(
        text, command_line=["--time=3", "job.sh", "-n", "9"], environment=environment
    ).options
    assert (options.value("time"), options["time"].origin) == ("3", "command line")
    assert (options.value("partition"), options["partition"].origin) == ("environment", "environment")
    assert options.value("ntasks") == "1"  # behind the script's name all is the script's
    assert options.arguments == ("job.sh", "-n", "9")


def test_the_jobs_that_it_waits_for() -> None:
    text = script("--dependency=afterok:7:8_3,after:9+5,singleton")
    assert read_script(text).depends_on == ("7", "8_3", "9")
    assert read_script(script("-n 2")).depends_on == ()


def test_components_have_options_of_their_own() -> None:
    read = read_script(script("-n 2", "hetjob", "-n 3", "packjob -n 4"))
    assert [options.value("ntasks") for options in read.components] == ["2", "3", "4"]


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_hundred_are_fine(name: str) -> None:
    text = SCRIPTS[name].replace("@NODES@", "n1,n2").replace("@NODE@", "n1").replace("@JOB@", "7")
    assert not read_script(text).problems


BY_RULE = {"two_memories", "windows", "no_shebang", "empty", "blank"}  # reported by rules, not by the parser


@pytest.mark.parametrize("name", sorted(REFUSED.keys() - BY_RULE))
def test_what_sbatch_refuses_is_a_problem(name: str) -> None:
    assert [problem for problem in read_script(REFUSED[name]).problems if problem.refused]


# --- the same options in other spellings -----------------------------------------------------------

CHOICES: dict[str, list[str]] = {
    **{
        "nodes": ["1", "2", "1-4"],
        "ntasks": ["1", "8"],
        "cpus-per-task": ["2", "16"],
        "mem": ["0", "4G", "500"],
    },
    **{"time": ["30", "1-00", "00:15:00"], "partition": ["main", "a,b"], "account": ["science"]},
    **{"job-name": ["x", "my job", 'a"b', "a#b"], "gres": ["gpu:1", "gpu:v100:2"], "array": ["0-9%2", "3,1"]},
    **{"qos": ["normal"], "constraint": ["a&b"], "dependency": ["afterok:7:8"], "ntasks-per-node": ["4"]},
    **{"exclusive": ["", "user"], "overcommit": [""], "gpus": ["2"], "chdir": ["/tmp"], "reservation": ["r"]},
}


def shortest(name: str) -> str:
    """Return the shortest unambiguous abbreviation."""
    for length in range(1, len(name)):
        if sum(option.startswith(name[:length]) for option in OPTIONS) == 1:
            return name[:length]
    return name


@st.composite
def spelt(draw: st.DrawFn, option: str, value: str) -> str:
    """Choose one of the ways to write an option."""
    quote = draw(st.sampled_from(['"', "'"]))
    written = value
    if set(value) & set(" \"'#\\"):
        written = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    elif draw(st.booleans()):
        written = f"{quote}{value}{quote}" if value else value
    kind = OPTIONS[option].argument
    long = draw(st.sampled_from([option, shortest(option)]))
    ways = [f"--{long}={written}"] if value else [f"--{long}"]
    if kind is Argument.REQUIRED:
        ways.append(f"--{long} {written}")
    if (letter := LETTERS.get(option)) is not None:
        ways.append(f"-{letter}{written}" if value else f"-{letter}")
        if kind is Argument.REQUIRED:
            ways.append(f"-{letter} {written}")
    return draw(st.sampled_from(ways)) + draw(st.sampled_from(["", "  ", " # why", "\t"]))


@given(st.data())
def test_the_same_options_are_the_same_job(data: st.DataObject) -> None:
    chosen = {
        name: data.draw(st.sampled_from(CHOICES[name]))
        for name in data.draw(st.sets(st.sampled_from(list(CHOICES))))
    }
    plain = []
    for name, value in chosen.items():
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        plain.append(f'--{name}="{quoted}"' if value else f"--{name}")
    lines = [data.draw(spelt(name, value)) for name, value in chosen.items()]
    order = data.draw(st.permutations(lines))
    between = data.draw(st.sampled_from(["\n#SBATCH ", "\n\n# comment\n#SBATCH "]))
    text = "#!/bin/sh\n#SBATCH " + between.join(order) + "\ntrue\n"
    one = read_script(script(*plain, body="\ntrue\n", first="#!/bin/sh"))
    other = read_script(text)
    assert not one.problems
    assert not other.problems
    jobs = [read.job("c", "u", 0, "/home/u", script_name="s") for read in (one, other)]
    for job in jobs:
        assert job.script_language == "sh"
    assert {f: getattr(jobs[0], f) for f in ASKED} == {f: getattr(jobs[1], f) for f in ASKED}


ASKED = (
    *("name", "account", "partition", "qos", "reservation", "constraint", "nodes_asked", "tasks_asked"),
    *("cpus_asked", "memory_asked", "memory_per", "time_limit", "gpus_asked", "array_tasks", "dependency"),
    *("work_dir", "defaulted"),
)


def test_tables_are_sound() -> None:
    assert all(name in OPTIONS for name in LETTERS)
    assert all(option.means in OPTIONS for option in OPTIONS.values())
    assert options_of("26.05").keys() - options_of("24.11").keys() == {
        *("consolidate-segments", "container-type", "external", "mem-update", "resources", "spread-segments")
    }
    assert read_script(idle("-n 2")).job("c", None, 0).defaulted is not None
