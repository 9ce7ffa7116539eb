"""A hundred batch scripts, in the styles of users of four computing centres.

How often each style is met was counted over 793 real scripts (none of which is here): long options with
``=`` and with a space, short ones with a space and glued, values in quotes, comments behind values,
abbreviations, placeholders of the site in names of files, options behind the first command, several options
in a line, blank lines and comments between. ``@NODE@``, ``@NODES@`` and ``@JOB@`` stand for what a cluster
has.
"""

from __future__ import annotations

from itertools import product

SERIAL = "\nmodule purge\nmodule load python/3.11\npython train.py --epochs 5\n"
MPI = (
    "\nmodule load gcc/12.2 openmpi/4.1\nexport OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK\nsrun ./solver in.dat\n"
)
PLAIN = "\necho begin\n./a.out > result.txt\n"


def script(*lines: str, body: str = PLAIN, first: str = "#!/bin/bash") -> str:
    """Build a script from lines of options; a line without #SBATCH is inserted as it is."""
    rows = [line if line == "" or line.startswith("#") else f"#SBATCH {line}" for line in lines]
    return "\n".join([first, *rows]) + "\n" + body


WRITTEN: dict[str, str] = {
    # long options with =
    "long": script(
        "--job-name=long", "--account=science", "--partition=main", "--time=00:15:00", "--nodes=1"
    ),
    "long_mpi": script(
        *("--job-name=mpi", "--account=science", "--partition=low", "--time=02:00:00", "--nodes=2"),
        *("--ntasks-per-node=40", "--mem=4000", "--output=%x_%j.out", "--error=%x_%j.err"),
        body=MPI,
    ),
    "long_hybrid": script(
        *("--job-name=hybrid", "--time=1-00:00:00", "--nodes=4", "--ntasks-per-node=8"),
        *("--cpus-per-task=4", "--mem-per-cpu=500M", "--partition=main"),
        body=MPI,
    ),
    "long_gpu": script(
        *("--job-name=gpu", "--account=teaching", "--partition=main", "--time=00:15:00", "--ntasks=1"),
        *("--cpus-per-task=10", "--mem-per-cpu=800", "--gres=gpu:v100:1"),
        body=SERIAL,
    ),
    "gpu_nvme": script(
        "--time=36:00:00", "--ntasks=1", "--mem=32G", "--gres=gpu:v100:2,nvme:100", body=SERIAL
    ),
    "nvme_only": script("--time=10", "--gres=nvme:100"),
    "long_array": script(
        "--job-name=array_job", "--array=1-4%4", "--output=out_%A_%a.txt", "--time=00:15:00"
    ),
    "long_qos": script("--qos=normal", "--time=5", "--ntasks=2", "--mem=480M"),
    "reservation": script("--reservation=course", "--account=teaching", "--time=0-00:10"),
    "constraint": script("--constraint=skylake", "--time=1:00:00", "-n", "#SBATCH 2"),
    "constraint_or": script("-C 'skylake|ib'", "-t 1:00"),
    "constraint_and": script("--constraint=skylake&ib", "-t 0-1"),
    "mail": script("--mail-type=END,FAIL", "--mail-user=ann@example.org", "-t 20", "-J mailed"),
    "open_mode": script("--open-mode=append", "--export=ALL", "--hint=nomultithread", "--time=30"),
    "exclusive": script("--exclusive", "--nodes=2", "--time=00:30:00", body=MPI),
    "exclusive_user": script("--exclusive=user", "-N 1", "-n 4"),
    "dependency": script("--dependency=afterok:@JOB@", "--time=15"),
    "dependencies": script("-d afterany:@JOB@:@JOB@", "--time=15"),
    "singleton": script("--dependency=singleton", "-J one_at_a_time"),
    # long options with a space
    "spaced": script("--job-name spaced", "--account science", "--partition short", "--time 10", "--nodes 1"),
    "spaced_more": script("--ntasks 6", "--cpus-per-task 2", "--mem 2G", "--output slurm-%j.log"),
    "spaced_gpu": script("--gpus-per-node 2", "--nodes 2", "--time 1-00", body=SERIAL),
    # short options
    "short": script("-J short", "-A science", "-p main", "-t 00:15:00", "-N 1", "-n 4", "-o out", "-e err"),
    "short_days": script("-t 1-00", "-n 2", "-c 8", "--mem-per-cpu=100"),
    "short_days_hours": script("-t 2-12", "-N 2"),
    "short_days_minutes": script("-t 0-00:10", "-p low"),
    "short_days_seconds": script("-t 1-02:03:04"),
    "short_array": script("-a 0-9", "-t 5"),
    "short_gpus": script("-G 2", "-t 30", "-c 4"),
    "short_gpus_typed": script("-G v100:3", "-N 1"),
    "short_qos": script("-q normal", "-p short", "-t 3"),
    "short_exclude": script("-x @NODE@", "-N 2", "-n 2"),
    "short_nodelist": script("-w @NODES@", "-t 9"),
    "nodelist_tasks": script("--nodelist=@NODES@", "-n 6"),
    "short_chdir": script("-D /tmp", "-J elsewhere"),
    # glued
    "glued": script("-N1", "-n4", "-t30", "-pmain", "-Ascience", "-Jglued"),
    "glued_more": script("-N2", "-n8", "-c2", "-oout.%j", "-eerr.%j"),
    "glued_array": script("-a1,3,5-7", "-t1:30:00"),
    "glued_flags": script("-sn2", "-t 5"),
    "glued_gpus": script("-G1", "-c4"),
    # abbreviations
    "tasks_is_per_node": script("--tasks=3", "-N 2", "--time=10"),
    "out": script("--out=run.log", "--err=run.err", "--part=low", "--accou=science", "-t 8"),
    "cpus_abbreviated": script("--cpus-per-t=3", "--ntasks=2", "--outp=x.%j"),
    "tasks_per_node": script("--tasks-per-node=5", "-N 2"),
    "job_abbreviated": script("--job=brief", "--const=ib", "--dep=singleton"),
    "mail_abbreviated": script("--mail-t=ALL"),
    # quotes, escapes, comments
    "quoted": script('--job-name="my job"', '--comment="a # no comment"', "--time=10"),
    "single_quoted": script("-J 'it is mine'", "-A 'science'", "-t '15'"),
    "quoted_inside": script('-J my" "job', "-n '2'"),
    "escaped": script(r"-J my\ job", r"--comment=50\#", "-n 2"),
    "escaped_quote": script(r"-J \"quoted\"", "-t 5"),
    "commented": script("--time=00:30:00  # half an hour", "-n 4 # four", "--mem=1G#all of it"),
    "comment_with_option": script("-n 2 # --mem=50G", "## --time=5", "-t 7"),
    "commented_out": script("-n 2", "##SBATCH --mem=50G", "# SBATCH --mem=60G", "#SBATCH --time=5"),
    "tabs": script("#SBATCH\t--ntasks=3", "#SBATCH\t\t-t\t20"),
    "trailing_blanks": script("--ntasks=3   ", "--time=20 \t"),
    "leading_blanks": script("    --ntasks=3", "   -t 20"),
    "several": script("-N 1 -n 2 -c 3 -t 4 --mem=500", "--account=science --partition=low"),
    "value_in_next_line": script("--ntasks", "3", "-t", "10"),
    "no_blank": script("#SBATCH--ntasks=3", "#SBATCH-t10"),
    "slurm_magic": script("#SLURM --ntasks=3", "-t 10"),
    # between and behind
    "blank_lines": script("", "-n 2", "", "# the time", "", "-t 12", ""),
    "behind_command": script("-n 2", "", "echo hello", "#SBATCH --mem=50G").replace("#SBATCH echo", "echo"),
    "behind_set": script("-n 2").replace("echo begin", "set -e\n#SBATCH --ntasks=50\n#SBATCH -t 1"),
    "behind_indented": script("-n 2", "   ", "\t# a comment", "-c 2").replace("#SBATCH    \n", "   \n"),
    "twice": script("-n 2", "-n 3", "--time=5", "-t 6"),
    "python": script(
        "-n 2", "--mem=300M", first="#!/usr/bin/env python3", body="\nimport os\nprint(os.getpid())\n"
    ),
    "tcsh": script("-n 1", "-c 4", first="#!/bin/tcsh -f", body="\nsetenv A 1\necho $A\n"),
    "bash_login": script("-N 2", first="#!/bin/bash -l", body=MPI),
    # numbers
    "range": script("-N 1-3", "-t 5"),
    "range_tasks": script("-N 2-4", "-n 8"),
    "range_alone": script("--nodes=2-4"),
    "range_per_node": script("-N 2-4", "--ntasks-per-node=2"),
    "fewer_tasks_than_nodes": script("-N 3", "-n 2"),
    "tasks_per_node_only": script("--ntasks-per-node=3"),
    "tasks_per_node_too": script("-n 5", "--ntasks-per-node=2"),
    "three_numbers": script("-N 2", "-n 4", "--ntasks-per-node=2", "-c 2"),
    "mem_zero": script("--mem=0", "--nodes=1"),
    "mem_kilo": script("--mem=1000K"),
    "mem_bytes": script("--mem=2GB", "-c 2"),
    "mem_small_letter": script("--mem=2g"),
    "mem_tera": script("--mem=1T"),
    "mem_per_gpu": script("-G 2", "--mem-per-gpu=1G"),
    "overcommit": script("-O", "-n 8"),
    "overcommit_nodes": script("-O", "-n 8", "-N 2"),
    "unlimited": script("--time=UNLIMITED"),
    "time_zero": script("-t 0"),
    "time_seconds": script("-t 00:00:30"),
    "time_minutes_seconds": script("-t 02:30"),
    "time_uneven": script("--time=2:30:15"),
    "array_steps": script("--array=0-15:4"),
    "array_unordered": script("--array=3,1,2"),
    "array_limit": script("--array=0-9%20", "-n 2"),
    "array_one": script("--array=5"),
    "gpus_per_task": script("--gpus-per-task=1", "-n 3"),
    "gpus_and_per_task": script("--gpus-per-task=1", "-G 4"),
    "gpus_nodes": script("--gpus=v100:2", "-N 2"),
    "gpus_per_socket": script("--gpus-per-socket=1", "--sockets-per-node=2"),
    "tasks_per_gpu": script("--ntasks-per-gpu=2", "-G 2"),
    "tasks_per_gpu_by_tasks": script("--ntasks-per-gpu=2", "-n 4"),
    "cpus_per_gpu": script("-G 2", "--cpus-per-gpu=4"),
    "range_cpus": script("-N 2-3", "-c 4"),
    "layout": script("-B 2:1"),
    "sockets": script("--sockets-per-node=2", "-N 1"),
    "threads": script("--threads-per-core=1", "-n 2"),
    "mincpus": script("--mincpus=4", "-n 2"),
    "nice": script("--nice=100", "-n 2"),
    "nice_alone": script("--nice", "-n 2"),
    "signal": script("--signal=B:USR1@60", "--requeue", "-t 10"),
    "many_flags": script(
        "--no-requeue", "--contiguous", "--spread-job", "--no-kill", "-n 2", "--use-min-nodes"
    ),
    "tmp": script("--tmp=500", "--mem=50"),
    "partitions": script("-p main,low", "-t 5"),
    "distribution": script("-m cyclic:block", "-N 2", "-n 4"),
}


def _generated() -> dict[str, str]:
    """Yield every way to write an option, combined with every context."""
    nodes = ("-N 2", "-N2", "--nodes=2", "--nodes 2", '--nodes="2"')
    tasks = ("-n 6", "-n6", "--ntasks=6", "--ntasks 6", "--ntasks='6'")
    memory = ("--mem=2G", "--mem 2048", "--mem=2048M", "--mem-per-cpu=300", "--mem-per-cpu 300M")
    time = ("-t 90", "-t90", "--time=01:30:00", "--time 1:30:00", "-t 0-01:30")
    found = {}
    for number, (shape, style) in enumerate(product(range(2), range(5))):
        lines = [nodes[style], tasks[(style + shape) % 5], memory[(style + 2 * shape) % 5], time[style]]
        text = script(*lines) if shape else script(" ".join(lines), "# all in one")
        found[f"generated_{number}"] = text
    return found


SCRIPTS: dict[str, str] = WRITTEN | _generated()


def idle(*lines: str) -> str:
    """Build a script in which only the options can be wrong."""
    return script(*lines, body="\ntrue\n")


# What sbatch refuses outright, whatever the cluster.
REFUSED: dict[str, str] = {
    "unknown": idle("--memory=4G"),
    "misspelt": idle("--ntaks=4"),
    "ambiguous": idle("--n=4"),
    "ambiguous_gpus": idle("--gpu=1"),
    "no_value": idle("-t 5", "--mem"),
    "empty_value": idle('-J ""'),
    "unwanted_value": idle("--hold=yes"),
    "word": idle("main -n 2"),
    "optional_with_space": idle("--nice 5"),
    "exclusive_with_space": idle("--exclusive user"),
    "open_quote": idle('-J "my job', "-n 2"),
    "colon": idle("-n 2 : -n 4"),
    "two_memories": idle("--mem=500", "--mem-per-cpu=100"),
    "decimals": idle("--mem=1.5G"),
    "mem_unit": idle("--mem=4X"),
    "no_number": idle("-n four"),
    "no_tasks": idle("-n 0"),
    "time_unit": idle("-t 10m"),
    "time_words": idle("--time=1hour"),
    "time_open": idle("-t 5:"),
    "nodes_word": idle("-N one"),
    "cpus": idle("-c 2.5"),
    "short_unknown": idle("-l nodes=2"),
    "windows": idle("-n 2").replace("\n", "\r\n"),
    "no_shebang": "#SBATCH -n 2\necho hello\n",
    "empty": "",
    "blank": "  \n\n",
    "array_word": idle("--array=all"),
}
