"""Every real log beside the repository: the rows it holds, the outcomes its README gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.operate.ingest_file import ingest, source_of
from forewarn.sources.base import SourceOptions
from forewarn.store.opening import open_store

pytestmark = [pytest.mark.shared_data, pytest.mark.slow]

# Of the README there: rows, and shares in percent.
LOGS = [
    ("swf/CTC-SP2-1996-3.1-cln.swf.gz", 77_222, {"failed": 21.6}),
    ("swf/SDSC-BLUE-2000-4.2-cln.swf.gz", 243_306, {"cancelled": 19.6}),
    ("swf/SDSC-SP2-1998-4.2-cln.swf.gz", 59_715, {"cancelled": 27.8}),
    ("swf/LANL-CM5-1994-4.1-cln.swf.gz", 122_060, {"failed": 16.7}),
    ("swf/LLNL-Thunder-2007-1.1-cln.swf.gz", 121_039, {"failed": 7.3, "cancelled": 6.6}),
    ("swf/Sandia-Ross-2001-1.1-cln.swf.gz", 57_882, {"failed": 74.2, "completed": 19.6}),
    ("nrel/sample_eagle_data.csv", 1_000, {}),
    ("nrel/sample_eagle_data.json", 1_000, {}),
    ("sacct/pozidriv.log.gz", 11_704, {"completed": 86.6, "failed": 8.6, "cancelled": 4.0}),
]
POZIDRIV = (
    "JobID JobIDRaw Cluster Partition QOS Account Group GID User UID Submit Eligible Start End Elapsed "
    "ExitCode State NNodes NCPUS ReqCPUS ReqMem ReqTRES AllocTRES Timelimit NodeList JobName"
)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "rows", "shares"), LOGS, ids=[log[0] for log in LOGS])
def test_a_log_is_read_whole_and_only_once(
    name: str, rows: int, shares: dict[str, float], shared_data: Path, tmp_path: Path
) -> None:
    options = SourceOptions(fields=tuple(POZIDRIV.split()) if name.startswith("sacct") else None)
    spec = f"{name.partition('/')[0]}:{shared_data / name}"
    store = open_store(Config(home=tmp_path / "home"))
    report = ingest(store, source_of(spec, Config(), options))
    assert (report.new, report.bad, store.count()) == (rows, 0, rows)
    for outcome, percent in shares.items():
        assert round(100 * report.outcomes[outcome] / rows, 1) == pytest.approx(percent, abs=0.051), outcome
    inverted = any("inverted" in note for note in report.notes)
    assert inverted == ("Sandia" in name)
    again = ingest(store, source_of(spec, Config(), options))
    assert (again.new, again.same, again.bad, store.count()) == (0, rows, 0, rows)
    store.close()
