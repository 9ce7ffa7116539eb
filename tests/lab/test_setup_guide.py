"""docs/slurm-setup.md, followed literally: every command of it, on each version."""

from __future__ import annotations

import json
import re
from pathlib import Path

from lab.cluster import Lab
from lab.jobs import submit
from tests.lab.test_lab import NEWEST_API

GUIDE = Path(__file__).resolve().parents[2] / "docs/slurm-setup.md"


def test_the_guide_can_be_followed(lab: Lab) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(blocks) == 7
    outputs = [lab.run("root", "bash", "-e", "-o", "pipefail", "-c", block) for block in blocks]
    assert NEWEST_API[lab.settings.version] in outputs[5].split()

    job = submit(lab, "alice", "--hold", script="true")
    token = (lab.state / "etc/forewarn/slurm.token").read_text().strip()
    name = ("-H", "X-SLURM-USER-NAME: forewarn", "-H", f"X-SLURM-USER-TOKEN: {token}")
    url = f"{lab.rest_url}/slurm/{NEWEST_API[lab.settings.version]}/jobs"
    jobs = json.loads(lab.run("root", "curl", "--silent", "--fail", *name, url))["jobs"]
    assert job in {found["job_id"] for found in jobs}, "Forewarn's user sees the jobs of others"
    lab.run("alice", "scancel", str(job))
