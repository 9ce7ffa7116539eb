"""A script takes time in proportion to its length: whoever checks it did not write it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.assess.script.checking import check

pytestmark = pytest.mark.slow

REPEATED = {
    "line breaks": "\n", "blanks": " " * 6, "words": "a ", "substitutions": "$(", "quotes": "'",
    "pipes": "a|", "functions": "a()\n", "hashes": "#", "variables": "${",
    "continued lines": "\\\n", "names": "x",
    "subshells": "(a\n", "subshells in the background": "(a) &\n", "ends of subshells": "a;(\n) &\n",
    "folders": "cd a\n", "files": "cat < a > b\n",
    "here-documents without end": "<<E\n" * 3, "blocks in a line": "{)" * 8,
    "arrays": "a=(", "arrays in lines": "a=(\n", "arithmetic": "((a ", "tests": "[[ ",
    "lists": "a || ", "lists in lines": "a &&\n", "cases": "case a in b) ",
}  # fmt: skip
LENGTH = 6_000


@pytest.mark.parametrize("name", REPEATED)
def test_scripts_written_to_be_slow(tmp_path: Path, name: str) -> None:
    text = "#!/bin/bash\n" + REPEATED[name] * LENGTH + "\ntrue\n"
    begun = time.thread_time()
    check(tmp_path, text)
    assert time.thread_time() - begun < 2  # squares of it took many seconds
