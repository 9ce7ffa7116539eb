"""What a test does where this machine cannot have a lab: skip, or fail where a lab is required."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

from lab.errors import LabMissingError


def skip_unless_required(error: LabMissingError) -> NoReturn:
    """Skip the test with the reason, or fail it where FOREWARN_REQUIRE_LAB is 1."""
    if os.environ.get("FOREWARN_REQUIRE_LAB") == "1":
        pytest.fail(f"a lab is required here: {error}")
    pytest.skip(str(error))
