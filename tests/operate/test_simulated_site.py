"""A site whose cluster is simulated, at a speed at which its time is not the wall clock's."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from forewarn.config import Config
from forewarn.operate.collect import collecting
from forewarn.operate.doctor.examine import examine
from forewarn.operate.doctor.findings import Severity
from forewarn.operate.nodes import judge_nodes
from forewarn.operate.workspace import Workspace
from forewarn.sources.slurm.connect import clock_of, connect
from forewarn.sources.slurm.script_submission import submission_from_script

SCRIPT = "#!/bin/bash\n#SBATCH -J mine -p scavenger --exclude=n001\nsleep 1\n"


@pytest.mark.slow
def test_a_fast_cluster_is_collected(tmp_path: Path) -> None:
    config = Config(
        home=tmp_path, scheduler="simulator", simulator="small", simulator_days=4, simulator_speed=3600.0
    )
    assert {finding.level for finding in examine(config)} == {Severity.FINE}
    with closing(connect(config, acting="ann")) as scheduler:
        job = scheduler.submit(submission_from_script(SCRIPT, work_dir="/w"))
        submit = scheduler.diag().at
        with collecting(config, since=submit - 86400, assess=False) as collector:
            for this_round in collector.forever(60):
                rows = [row for batch in scheduler.job(job) for row in batch.frame.iter_rows(named=True)]
                if rows[0]["outcome"] and this_round.at > rows[0]["end"] + 1800:
                    collector.stop()
        with Workspace(config) as workspace:
            assert workspace.now() >= this_round.at
            store = workspace.reading()
            found = store.observations("job", {"cluster": "small"})
            ours = found.filter(found["job_id"] == job)
            assert ours["outcome"].to_list()[-1] == "completed"
            assert found["seen_at"].max() <= int(clock_of(config).now())  # type: ignore[operator]
            assert found.filter(found["outcome"].is_not_null()).height > 100
            assert len(judge_nodes(workspace).nodes) == 24
