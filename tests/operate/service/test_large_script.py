"""A script that is sent as text has a largest size: each line costs the time of all callers."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.operate.check_text import MOST_LINES, check_text
from forewarn.operate.workspace import Workspace


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("srun ./a\n" * 400_000, "3600000 bytes"),
        ("#SBATCH --mem=1G\n" * 50_000, "50001 lines"),
        ("\n" * MOST_LINES + "x", "20001 lines"),
        ("#!/bin/bash\n" + "#SBATCH --mem=1G\n" * 10_000, "160000 bytes of options"),
        ("#!/bin/bash\n#SBATCH" + " -n 1" * 20_000, "100007 bytes of options"),
    ],
)
def test_a_script_that_is_too_large_is_refused_at_once(tmp_path: Path, script: str, problem: str) -> None:
    with Workspace(Config(home=tmp_path)) as workspace:
        begin = monotonic()
        with pytest.raises(UsageError, match=f"{problem}.*at most.*forewarn check FILE"):
            check_text(workspace, script, user="ann")
        assert monotonic() - begin < 1


def test_lines_like_options_after_the_first_command_are_no_options(tmp_path: Path) -> None:
    """A script that writes scripts has many of them."""
    with Workspace(Config(home=tmp_path)) as workspace:
        text = "#!/bin/bash\ncat > a.sh <<E\n" + "#SBATCH --mem=1G\n" * 10_000 + "E\n"
        assert check_text(workspace, text, user="ann") is not None


def test_a_script_of_usual_size_is_checked(tmp_path: Path) -> None:
    with Workspace(Config(home=tmp_path)) as workspace:
        checked = check_text(workspace, "#!/bin/bash\n" + "srun ./a\n" * 100, user="ann")
    assert checked is not None
