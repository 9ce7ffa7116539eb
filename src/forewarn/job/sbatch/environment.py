"""The environment variables that set options of sbatch.

Taken from `env_vars` in src/sbatch/opt.c and from the names inside sbatch 22.05, 24.11 and 26.05.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# Options whose variable has the same name.
_SAME = """account acctg-freq batch cluster-constraint clusters consolidate-segments constraint container
    container-id container-type core-spec cpus-per-gpu delay-boot distribution error exclusive export
    get-user-env gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint
    input job-name mem-bind mem-per-cpu mem-per-gpu network no-kill no-requeue open-mode output overcommit
    partition power profile qos requeue reservation signal spread-job spread-segments thread-spec
    threads-per-core tres-bind tres-per-task use-min-nodes wait wait-all-nodes wckey"""

VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        **{"SLURM_CLUSTERS": "clusters", "SLURM_HINT": "hint"},
        **{f"SBATCH_{name.upper().replace('-', '_')}": name for name in _SAME.split()},
        **{"SBATCH_ARRAY_INX": "array", "SBATCH_BURST_BUFFER": "bb", "SBATCH_CPU_FREQ_REQ": "cpu-freq"},
        **{"SBATCH_MEM_PER_NODE": "mem", "SBATCH_REQ_SWITCH": "switches", "SBATCH_TIMELIMIT": "time"},
        **{"SBATCH_SEGMENT_SIZE": "segment"},
    }
)
