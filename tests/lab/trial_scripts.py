"""Scripts as people write them, right and wrong, with what becomes of each on a lab of Slurm 24.11."""

from __future__ import annotations

from dataclasses import dataclass, field

REFUSED, PENDING = "refused", "pending"  # by sbatch; accepted, and it will never start
BASH = "#!/bin/bash"
USE_200_MB = "python3 -c 'import time; kept = bytearray(200 << 20); time.sleep(2)'"


@dataclass(frozen=True)
class Trial:
    """A script, the files that lie beside it, and how it ends: an outcome, `REFUSED` or `PENDING`."""

    name: str
    text: str
    ends: str
    files: dict[str, str] = field(default_factory=dict)
    makes: str | None = None  # a file that a job makes first, on which this one depends
    has_flaw: bool = False  # it completes, and yet does not do what it says


def trial(
    name: str, ends: str, *lines: str, files: dict[str, str] | None = None, has_flaw: bool = False
) -> Trial:
    """A script of bash, with what every one of them asks for."""
    usual = (BASH, "#SBATCH -t 2", "#SBATCH -o %x.%A_%a.out", f"#SBATCH -J {name}")
    return Trial(name, "\n".join((*usual, *lines)) + "\n", ends, files or {}, has_flaw=has_flaw)


TRIALS = (
    trial("plain", "completed", "#SBATCH --mem=50", "hostname"),
    trial("plain_with_input", "completed", "set -e", "cat input.txt", files={"input.txt": "1\n"}),
    # --- programs and their environment
    trial("missing_module", "failed", "set -e", "module load gromacs/2024", "gmx mdrun -s topol.tpr"),
    trial("conda", "failed", "set -e", "conda activate torch", "python3 -c 'print(1)'"),
    trial("missing_program", "failed", "./solver --fast"),
    trial("mpirun_absent", "failed", "#SBATCH -n 2", "mpirun -n 2 hostname"),
    trial("mpi_by_srun", "completed", "#SBATCH -n 2", "srun -n 2 hostname"),
    trial("python_syntax", "failed", "python3 broken.py", files={"broken.py": "def f(:\n    pass\n"}),
    trial("python_import", "failed", "python3 needs.py", files={"needs.py": "import no_such_package_here\n"}),
    Trial("interpreter", "#!/opt/none/bin/bash\n#SBATCH -t 2\n#SBATCH -J interpreter\nhostname\n", "failed"),
    # --- what is asked for
    trial("gpu", REFUSED, "#SBATCH --gres=gpu:1", "hostname"),
    trial("too_much_memory", REFUSED, "#SBATCH --mem=900G", "hostname"),
    trial("memory_per_cpu", REFUSED, "#SBATCH -c 4", "#SBATCH --mem-per-cpu=30G", "hostname"),
    trial("too_little_memory", "out_of_memory", "#SBATCH --mem=30", USE_200_MB),
    trial("partition", REFUSED, "#SBATCH -p fast", "hostname"),
    trial("account", REFUSED, "#SBATCH -A nobodys", "hostname"),
    trial("qos", REFUSED, "#SBATCH --qos=urgent", "hostname"),
    Trial("time_of_partition", f"{BASH}\n#SBATCH -p short\n#SBATCH -t 1:00:00\nhostname\n", PENDING),
    trial("het", "completed", "#SBATCH -n 1 --mem=50", "#SBATCH hetjob", "#SBATCH -n 2 --mem=60", "hostname"),
    # --- files
    trial("missing_input", "failed", "set -e", "wc -l < measured.csv"),
    Trial(
        "output_folder",
        f"{BASH}\n#SBATCH -t 2\n#SBATCH -J output_folder\n#SBATCH -o logs/%j.out\nhostname\n",
        "completed",
    ),
    trial(
        "array",
        "completed",
        "#SBATCH --array=0-2",
        "set -e",
        "cat part_${SLURM_ARRAY_TASK_ID}.txt",
        files={f"part_{n}.txt": "1\n" for n in range(3)},
    ),
    trial(
        "array_short_of_input",
        "failed",
        "#SBATCH --array=0-3",
        "set -e",
        "cat part_${SLURM_ARRAY_TASK_ID}.txt",
        files={f"part_{n}.txt": "1\n" for n in range(3)},
    ),
    Trial(
        "dependency",
        f"{BASH}\n#SBATCH -t 2\n#SBATCH -J dependency\n#SBATCH -d afterok:@JOB@\nset -e\ncat made.txt\n",
        "completed",
        makes="made.txt",
    ),
    trial("input_by_loop", "completed", "set -e", "for f in part_*.txt; do wc -l < $f; done"),
    trial(
        "makes_its_own",
        "completed",
        "set -e",
        "mkdir -p run_$SLURM_JOB_ID",
        "cd run_$SLURM_JOB_ID",
        "date > a.txt",
        "cat a.txt",
    ),
    trial(
        "list_of_inputs",
        "completed",
        "#SBATCH --array=1-2",
        "set -e",
        'name=$(sed -n "${SLURM_ARRAY_TASK_ID}p" list.txt)',
        "cat $name",
        files={"list.txt": "part_0.txt\npart_1.txt\n"},
    ),
    trial(
        "sources_setup",
        "completed",
        "set -e",
        "source setup.sh",
        "greet",
        files={"setup.sh": "greet() { echo hello; }\n"},
    ),
    trial("helper_script", "completed", "bash steps.sh", files={"steps.sh": "echo one\n"}),
    trial("python_module", "failed", "python3 -m no_such_tool run"),
    trial(
        "python_helper",
        "completed",
        "python3 main.py",
        files={"main.py": "import helper\nprint(helper.ONE)\n", "helper.py": "ONE = 1\n"},
    ),
    trial(
        "optional_import",
        "completed",
        "python3 maybe.py",
        files={"maybe.py": "try:\n    import no_such_thing\nexcept ImportError:\n    pass\n"},
    ),
    trial("unset_variable", "failed", "set -u", "cat $DATA_FOLDER_OF_NOBODY/a.csv"),
    trial("steps_too_wide", "failed", "#SBATCH -n 2", "srun -n 8 hostname"),
    trial("exits_by_test", "failed", "set -e", "test -s part_0.txt", "grep -q needle part_0.txt"),
    trial("goes_on", "completed", "cat not_here.txt || echo none", "echo done"),
    trial(
        "background",
        "completed",
        "#SBATCH -n 2",
        "srun -n 1 --exact hostname &",
        "srun -n 1 --exact hostname &",
        "wait",
    ),
    # --- the script itself
    Trial("line_ends", f"{BASH}\r\n#SBATCH -t 2\r\n#SBATCH -J line_ends\r\nhostname\r\n", REFUSED),
    Trial("no_shebang", "#SBATCH -t 2\nhostname\n", REFUSED),
    trial("late_directive", "completed", "hostname", "#SBATCH --mem=900G", has_flaw=True),
    trial("misspelt", REFUSED, "#SBATCH --tiem=10", "hostname"),
)
