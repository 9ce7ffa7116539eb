"""Checks of a batch script before it is submitted: findings, and the script with changes applied.

`findings(script, path, host)` applies the rules, one small function each. `LocalHost` is the machine that the
check runs on; any other `Host` can replace it. Nothing of the script is run.
"""

from __future__ import annotations

from forewarn.assess.script.diff import script_diff
from forewarn.assess.script.host import Host
from forewarn.assess.script.repair import repaired
from forewarn.assess.script.rules import findings
from forewarn.assess.script.sbatch_test import ask_sbatch
from forewarn.local_host.local_host import LocalHost

__all__ = ["Host", "LocalHost", "ask_sbatch", "findings", "repaired", "script_diff"]
