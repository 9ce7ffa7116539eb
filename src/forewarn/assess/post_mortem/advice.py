"""What to do about a cause, with the job's own numbers."""

from __future__ import annotations

from collections.abc import Iterator

from forewarn.assess.explanation.amounts import memory
from forewarn.assess.post_mortem.record_evidence import memory_of_a_node
from forewarn.job.record import Job
from forewarn.job.units import UNLIMITED, format_duration

_MEMORY_STEPS = (1.5, 2.0)  # times what it had: where only the limit is known, how much it needs is not
_GIB = 1 << 30


def with_numbers(job: Job, family: str | None) -> Iterator[str]:
    """Lines to add to the script, where the record tells enough for one."""
    if family == "out_of_memory":
        had = memory_of_a_node(job)
        if had:
            more = max(had * _MEMORY_STEPS[1], (job.max_memory or 0) * _MEMORY_STEPS[0])
            line = f"#SBATCH --mem={_rounded(more)}"
            if job.memory_per == "cpu" and job.memory_asked:
                line = f"#SBATCH --mem-per-cpu={_rounded(job.memory_asked * more / had)}"
            yield f"It had {memory(had)} on a node; try `{line}`, and see what it then uses."
    if family == "time_limit" and job.time_limit and job.time_limit < UNLIMITED:
        line = f"#SBATCH --time={format_duration(2 * job.time_limit)}"
        yield f"Its limit was {format_duration(job.time_limit)}; `{line}` would be twice that."
    if family in ("node_failure", "gpu_hardware", "network") and job.nodes:
        yield f"If it happens there again: `#SBATCH --exclude={job.nodes}`."


def _rounded(size: float) -> str:
    """Up to what a person would write.

    >>> _rounded(1.2 * (1 << 30)), _rounded(200 << 20), _rounded(33 * (1 << 30))
    ('2G', '200M', '36G')
    """
    if size < 1000 << 20:
        return f"{-(-int(size) // (10 << 20)) * 10}M"
    whole = -(-int(size) // _GIB)
    step = 1 if whole < 16 else 4
    return f"{-(-whole // step) * step}G"
