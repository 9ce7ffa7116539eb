"""Write docs/assessment.schema.json and docs/retry.schema.json anew, after a change of what they describe."""

from __future__ import annotations

from pathlib import Path

from forewarn.assess.json_schema import retry_schema, written

if __name__ == "__main__":
    docs = Path(__file__).parents[1] / "docs"
    (docs / "assessment.schema.json").write_text(written())
    (docs / "retry.schema.json").write_text(written(retry_schema()))
