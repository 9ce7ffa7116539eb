"""Whatever stands in a script, a check ends with findings and not with a crash."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from forewarn.assess.wording import finding as what
from tests.assess.script.checking import check

_WORDS = """#!/bin/sh #SBATCH --mem= -o -D cat < > >> python3 a.py ./x /dev/null cd .. ~/a $HOME $X * ? \\ ' "
    ; && || | module load gcc source activate srun mpirun -n 4 java -Xmx9g -jar env time exec /proc/self/mem
    /bin/sh apptainer exec x.sif conda --input=a/b.c 2>&1 tee cp -r tar xzf ulimit -v"""
_ODD = ("\n", "\n", " ", " ", " ", "\0", "\udcff", "\r\n", "\n#SBATCH ", "<<E\n")
PIECES = st.sampled_from([*_WORDS.split(), *_ODD])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("any")
    (folder / "a.py").write_text("import os\n")
    (folder / "x").write_bytes(b"\x7fELF\x02\x01" + bytes(range(200)))
    return folder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_script(folder: Path, text: str) -> None:
    for finding in check(folder, text):
        assert what(finding)
        assert finding.severity in ("error", "warning", "note")
        assert finding.line is None or 1 <= finding.line <= text.count("\n") + 1
