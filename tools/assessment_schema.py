"""Write docs/assessment.schema.json anew, after a change of what an assessment has."""

from __future__ import annotations

from pathlib import Path

from forewarn.assess.json_schema import written

if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs/assessment.schema.json").write_text(written())
