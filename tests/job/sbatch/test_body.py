"""Tests of the body of a script: programs, launchers, files, and the memory that it sets."""

from __future__ import annotations

import pytest

from forewarn.job.sbatch.body import read_body
from forewarn.job.sbatch.files import Use
from forewarn.job.sbatch.script import read_script
from forewarn.job.sbatch.script_facts import line_facts, script_facts

G = 1 << 30


@pytest.mark.parametrize(
    ("body", "language", "launcher"),
    [
        ("srun -n 4 --mpi=pmix ./solver", "bash", "srun"),
        ("mpirun -np 8 --map-by core -x A python3 a.py", "python", "mpirun"),
        ("mpiexec -genv I_MPI_DEBUG 5 -n 2 Rscript a.R", "r", "mpiexec"),
        ("matlab -nodisplay -batch run", "matlab", "none"),
        ("julia --threads 4 a.jl", "julia", "none"),
        ("java -jar a.jar", "java", "none"),
        ("apptainer exec --nv -B /data:/data image.sif python a.py", "python", "apptainer"),
        ("srun singularity run --bind /a image.sif", "bash", "srun+singularity"),
        ("parallel -j 8 python a.py ::: 1 2 3", "python", "parallel"),
        ("nextflow run main.nf -profile slurm", "groovy", "nextflow"),
        ("snakemake --cores 4", "python", "snakemake"),
        ("torchrun --nproc_per_node 4 train.py", "python", "torchrun"),
        ("time numactl -C 0-3 perl a.pl", "perl", "none"),
        ("conda run -n torch python a.py", "python", "none"),
        ("srun -N1 -n1 -c2 --exclusive time -f %e python a.py &", "python", "srun"),
        ("echo hello", "bash", "none"),
    ],
)
def test_language_and_launcher(body: str, language: str, launcher: str) -> None:
    facts = script_facts(f"#!/bin/bash\n{body}\n")
    assert (facts.language, facts.launcher) == (language, launcher)


@pytest.mark.parametrize(
    ("body", "tool", "name"),
    [
        ("source ~/env/bin/activate", "venv", "~/env"),
        (". venv/bin/activate", "venv", "venv"),
        ("conda activate torch", "conda", "torch"),
        ("source ~/miniconda3/bin/activate torch", "conda", "torch"),
        ("mamba activate /envs/x", "conda", "/envs/x"),
        ("conda run -n torch python a.py", "conda", "torch"),
        ("uv run a.py", "uv", ".venv"),
    ],
)
def test_environments(body: str, tool: str, name: str) -> None:
    (found,) = read_body(f"#!/bin/bash\n\n{body}\n").environments
    assert (found.tool, found.name, found.line) == (tool, name, 3)


@pytest.mark.parametrize(
    ("body", "amount"),
    [
        ("java -Xmx8g -jar a.jar", 8 * G),
        ("java -Xms1g -Xmx512m A\njava -Xmx2G B", 2 * G),
        ("export JAVA_OPTS='-Xmx3g -server'", 3 * G),
        ('gatk --java-options "-Xmx4g -Xms1g" HaplotypeCaller', 4 * G),
        ("samtools sort -@ 8 -m 2G x.bam", 16 * G),
        ("samtools sort -m 2G x.bam", 2 * G),
        ("Trinity --max_memory 50G --CPU 8", 50 * G),
        ("spades.py -m 200 -1 a -2 b", 200 * G),
        ("cellranger count --localmem=64", 64 * G),
        ("sort -S4G x", 4 * G),
        ("sort --buffer-size=2G x", 2 * G),
        ("ulimit -v 4194304", 4 * G),
        ("node --max-old-space-size=4096 a.js", 4 * G),
        ("spark-submit --driver-memory 6g a.py", 6 * G),
        ("STAR --limitBAMsortRAM 32000000000", 32_000_000_000),
        ("tool --max-mem 16GB", 16 * G),
        ("plink2 --memory 8192", 8 * G),
        ("srun --mem=99G java -Xmx1g A", G),
        ("srun --mem=99G ./solver", None),
        ("tool --memory 8", None),  # of what?
        ("java -Xmx${MEM}g A", None),
        ("tool --max-mem $SLURM_MEM_PER_NODE", None),
        ("# java -Xmx8g", None),
    ],
)
def test_memory_that_it_sizes_itself_to(body: str, amount: int | None) -> None:
    floor = read_script(f"#!/bin/bash\n#SBATCH --mem=77G\n{body}\n").memory_floor
    assert (floor.bytes if floor else None) == amount


def test_files() -> None:
    body = read_body(
        "#!/bin/bash\nIN=/data/in.csv\ncd /proj\npython fit.py --config run.toml < $IN > out/log.txt\n"
        "mkdir -p out\n./solver -i grid.dat | tee all.log\napptainer exec a.sif cat inside.txt\n"
    )
    assert [(use.use, use.path, use.line) for use in body.files] == [
        (Use.ENTER, "/proj", 3),
        (Use.READ, "/data/in.csv", 4),
        (Use.WRITE, "/proj/out/log.txt", 4),
        (Use.SOURCE, "/proj/fit.py", 4),
        (Use.READ, "/proj/run.toml", 4),
        (Use.MAKE, "/proj/out", 5),
        (Use.RUN, "/proj/./solver", 6),
        (Use.READ, "/proj/grid.dat", 6),
        (Use.WRITE, "/proj/all.log", 6),
        (Use.READ, "/proj/a.sif", 7),
    ]


def test_here_documents_and_comments_are_no_commands() -> None:
    body = read_body(
        "#!/bin/bash\ncat <<'EOF' > a.ini\npython no.py\nEOF\n# python no.py\necho 'python no.py'\n"
    )
    assert [call.name for call in body.calls] == ["cat", "echo"]
    assert body.language == "bash"


def test_patterns_of_a_case_are_no_commands() -> None:
    text = "#!/bin/bash\ncase $1 in\n  a|b) python x.py;;\n  *) (cd d; ./run);;\nesac\n./last\n"
    body = read_body(text)
    assert [(call.name, call.line, call.command.depth) for call in body.calls] == [
        *(("python", 3, 1), ("cd", 4, 1), ("run", 4, 1), ("last", 6, 0))
    ]


@pytest.mark.parametrize(
    ("text", "tested"),
    [
        ("( cd run; ./gone ) &\n./last", {"cd": True, "gone": True, "last": False}),
        ("(\n  cd run\n  ./gone\n) &\n./last", {"cd": True, "gone": True, "last": False}),
        ("(\n  cd run\n  ./gone\n) > log 2>&1 &\nwait", {"cd": True, "gone": True, "wait": False}),
        (
            "(\n  cd run\n  ./gone\n) | tee log &\nwait",
            {"cd": True, "gone": True, "tee": True, "wait": False},
        ),
        ("{\n  ./gone\n} &\n./last", {"gone": True, "last": False}),
        ("for i in 1 2; do\n  ./gone $i\ndone &\n./last", {"gone": True, "last": False}),
        ("(\n  (\n ./a\n )\n ./b\n) || true\n./last", {"a": True, "b": True, "true": True, "last": False}),
        ("./first\n(\n  ./gone\n)\n./last", {"first": False, "gone": False, "last": False}),
        ("cd run && ./gone &\n./last", {"cd": True, "gone": True, "last": False}),
        ("cd run && ./gone || ./other\n./last", {"cd": True, "gone": True, "other": True, "last": False}),
        (
            "cd run &&\n\n  ./gone ||  # or\n./other\n./last",
            {"cd": True, "gone": True, "other": True, "last": False},
        ),
        ("./first; ./gone &\n./last", {"first": False, "gone": True, "last": False}),
        ("(\n  ./gone", {"gone": False}),
        ("./first )\n./last", {"first": False, "last": False}),
    ],
)
def test_what_may_fail_as_a_group(text: str, tested: dict[str, bool]) -> None:
    """A subshell or block before `&` or `||`, on one line or on many: the script goes on without it."""
    found = read_body(f"#!/bin/bash\n{text}\n").calls
    assert {call.name: call.command.tested for call in found} == tested


@pytest.mark.parametrize(
    ("text", "commands"),
    [
        ("FILES=(a.txt b.txt)\n./last", [(2, "./last", 0)]),
        ("RATES=(\n  0.1  # low\n  0.2\n)\n./last", [(5, "./last", 0)]),
        ("declare -A size=([a]=1 [b]=2)\n./last", [(1, "declare", 0), (2, "./last", 0)]),
        ("FILES+=(c.txt)\nOPTIONS[0]=-v\nPATH+=:/opt/bin\n./last", [(4, "./last", 0)]),
        ("for ((i=0; i<10; i++)); do\n  ./run $i\ndone\n./last", [(2, "./run", 1), (4, "./last", 0)]),
        ("(( N > 3 )) && ./run\n./last", [(1, "(( N > 3 ))", 0), (1, "./run", 0), (2, "./last", 0)]),
        ("if [[ $A =~ ^(x|y)$ && -f z ]]; then\n  ./run\nfi", [(1, "[[", 0), (2, "./run", 1)]),
        ("cleanup () {\n  rm -f x\n}\n./last", [(2, "rm", 1), (4, "./last", 0)]),
        ("x=$(sort a |\n  head -1)\n./last", [(3, "./last", 0)]),
        ('x="$(sort "it\'s" |\n  head -1)"\n./last', [(3, "./last", 0)]),
        ("x=$(sort a\n./last", [(2, "./last", 0)]),  # never closed
        ("cat <<A <<B\n./a\nA\n./b\nB\n./last", [(1, "cat", 0), (6, "./last", 0)]),
        ("cat <<'A'; ./run\n./a\nA\n./last", [(1, "cat", 0), (1, "./run", 0), (4, "./last", 0)]),
        ("cat <<A 2>&1 | sort\n./a\nA\n./last", [(1, "cat", 0), (1, "sort", 0), (4, "./last", 0)]),
        ("for f; do ./run; done\n./last", [(1, "./run", 1), (2, "./last", 0)]),
    ],
)
def test_commands_of_a_script(text: str, commands: list[tuple[int, str, int]]) -> None:
    """Arrays, arithmetic and tests hold no commands; the lines are those of the script."""
    found = read_body(f"{text}\n").commands
    assert [(c.line, c.words[0], c.depth) for c in found if c.words] == commands


@pytest.mark.parametrize(
    "text",
    [
        "case $1 in\n  a ) ./a;;\n  'b' | c* ) ./b ;&\n  (d)\n    ./d\n    ;;\n  * ) ./e;;\nesac\n./last",
        "case $1 in a) ./a;; b|c) ./b;; d) ./d;; *) ./e;; esac\n./last",
    ],
)
def test_commands_of_a_case(text: str) -> None:
    found = read_body(f"{text}\n").commands
    assert [(c.words, c.depth) for c in found] == [
        *((("./a",), 1), (("./b",), 1), (("./d",), 1), (("./e",), 1), (("./last",), 0))
    ]


def test_a_value_that_is_appended_to() -> None:
    found = read_body("A=x\nA+=yz\n./run $A\nA+=$B\n./run $A\n").commands
    assert [command.words for command in found if command.words] == [("./run", "xyz"), ("./run", "$A")]


def test_what_it_submits_itself() -> None:
    assert read_body("#!/bin/bash\nsbatch -n 2 --dependency=singleton next.sh\n").submits == ("next.sh",)


def test_a_script_of_another_language_has_no_commands() -> None:
    body = read_body("#!/usr/bin/env python3\n#SBATCH -n 2\nimport os\nos.system('srun x')\n")
    assert (body.language, body.calls, body.is_shell) == ("python", (), False)


@pytest.mark.parametrize(
    ("line", "language", "launcher"),
    [
        ("srun -n 4 python train.py --x 1", "python", "srun"),
        ("srun --pty bash", None, "srun"),
        ("/usr/bin/srun --mem=4G apptainer exec a.sif python a.py", "python", "srun+apptainer"),
        ("sbatch -n 4 job.sh", None, None),
        ("salloc -N 1", None, None),
        ("", None, None),
    ],
)
def test_a_submit_line_tells_a_little(line: str, language: str | None, launcher: str | None) -> None:
    assert line_facts(line) == (language, launcher)
