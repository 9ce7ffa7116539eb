"""What a batch script says about the job: which script it is, in what language, with what modules."""

from __future__ import annotations

from forewarn.job.sbatch.script_facts import ScriptFacts, script_facts

__all__ = ["ScriptFacts", "script_facts"]
