"""Write docs/events.schema.json anew, after a change of what an event has."""

from __future__ import annotations

from pathlib import Path

from forewarn.operate.events.json_schema import written

if __name__ == "__main__":
    (Path(__file__).parents[1] / "docs/events.schema.json").write_text(written())
