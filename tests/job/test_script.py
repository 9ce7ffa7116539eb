from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.job.script import script_facts


@pytest.mark.parametrize(
    ("script", "language"),
    [
        ("#!/bin/bash\n./solver --in x\n", "bash"),
        ("#!/bin/bash -l\nsrun -n 4 /opt/py/bin/python3.11 train.py\n", "python"),
        ("#!/usr/bin/env python3\nprint(1)\n", "python"),
        ("#!/usr/bin/env -S julia --threads 4\n1\n", "julia"),
        ("#!/bin/sh\nmodule load python\n./a.out\n", "sh"),
        ("#!/bin/sh\n# python a.py\nRscript fit.R\n", "r"),
        ("#!/bin/bash\ncp python.tar x; ./my-python\n", "bash"),
        ("#!/usr/bin/tcl\n", "tcl"),
        ("echo no shebang\nmatlab -batch run\n", "matlab"),
        ("", "sh"),
    ],
)
def test_language(script: str, language: str) -> None:
    assert script_facts(script).language == language


@pytest.mark.parametrize(
    ("line", "modules"),
    [
        ("module load gcc/12.2 openmpi", "gcc/12.2,openmpi"),
        ("  module -q load b a  # why", "a,b"),
        ("module add x && ./run", "x"),
        ("ml gcc", "gcc"),
        ("ml purge", None),
        ("module purge", None),
        ("module use /opt/modules", None),
        ("# module load old", None),
        ("mlflow run", None),
    ],
)
def test_modules(line: str, modules: str | None) -> None:
    assert script_facts(f"#!/bin/bash\n{line}\n").modules == modules


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    facts = script_facts(text)
    assert facts == script_facts(text)
    assert facts.language
    assert facts.modules != ""


def test_a_changed_script_is_another() -> None:
    assert script_facts("#!/bin/sh\ntrue").hash != script_facts("#!/bin/sh\nfalse").hash
