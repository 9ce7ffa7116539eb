"""Documents of Slurm's jobcomp/elasticsearch plugin: one for each run of a job that ended.

jobcomp/kafka sends the same fields (src/plugins/jobcomp/common/jobcomp_common.c makes both): `JOBCOMP_JOB`
reads them, whatever brought them.
"""

from __future__ import annotations

from forewarn.sources.jobcomp.fields import JOBCOMP_JOB
from forewarn.sources.jobcomp.source import JobcompSource

__all__ = ["JOBCOMP_JOB", "JobcompSource"]
