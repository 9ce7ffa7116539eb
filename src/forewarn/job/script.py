"""The facts that a batch script states about its job: which script, in which language, with which modules."""

from __future__ import annotations

from forewarn.job.sbatch.script_facts import ScriptFacts, script_facts

__all__ = ["ScriptFacts", "script_facts"]
