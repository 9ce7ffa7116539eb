"""Findings in what a script uses: files, programs, modules, Python, binaries. Real files, nothing run."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forewarn.assess.script import findings
from forewarn.assess.script.host import Host
from forewarn.assess.script.unknown_host import UnknownHost
from forewarn.assess.wording import finding as what
from forewarn.assess.wording import fix
from forewarn.job.sbatch.script import read_script
from forewarn.local_host.elf import loader_cache, read_program
from forewarn.local_host.local_host import LocalHost
from tests.assess.script.checking import ENVIRONMENT, check, rules_found

HEAD = "#!/bin/sh\n"


def rules(folder: Path, text: str, **more: object) -> list[str]:
    return [rule for rule, _, _ in rules_found(folder, text, **more)]


def program(folder: Path, name: str, content: bytes, mode: int = 0o755) -> Path:
    path = folder / name
    path.write_bytes(content)
    path.chmod(mode)
    return path


def binary() -> bytes:
    """Return a real, dynamically linked program."""
    return Path(os.path.realpath("/bin/ls")).read_bytes()


@pytest.mark.parametrize(
    "body",
    [
        "FILES=(a.txt b.txt)\necho ${FILES[0]}\n",
        "RATES=(\n  0.1\n  0.2\n)\necho\n",
        "for ((i=0; i<10; i++)); do\n  echo $i\ndone\n",
        "(( $# < 3 )) || echo\n",
        "case $1 in\n  fast ) echo 1;;\n  * ) echo 2;;\nesac\n",
        "cleanup () {\n  rm -f x\n}\ntrap cleanup EXIT\n",
        "OPTIONS+=-v\nOPTIONS[1]=-q\necho\n",
    ],
)
def test_what_is_no_command_is_not_looked_for(tmp_path: Path, body: str) -> None:
    assert rules(tmp_path, f"#!/bin/bash\nset -e\n{body}") == []


# A module system whose modules cannot be looked at.
HAS_MODULES = {"MODULESHOME": "/usr/share/modules", "PATH": os.environ["PATH"]}

# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "rule", "severity"),
    [
        ("python3 train.py\n", "missing-input", "error"),
        ("cat < data.csv\n", "missing-input", "error"),
        ("./solver\n", "missing-program", "error"),
        ("cd results\n", "missing-folder", "error"),
        (". ./setup.sh\n", "missing-input", "error"),
        ("cp in/a.dat .\n", "missing-input", "error"),
        ("if true; then cat data.csv; fi\n", "missing-input", "warning"),
        ("test -f x && cat data.csv\n", "missing-input", "warning"),
        ("true --input=data/in.csv\n", "missing-input", "error"),
        ("echo a > results/out.txt\n", "unwritable-output", "error"),
        ("X=data.csv\ncat $X\n", "missing-input", "error"),
        ("cat $HOME/data.csv\n", "missing-input", "error"),
    ],
)
def test_missing(tmp_path: Path, body: str, rule: str, severity: str) -> None:
    line = 1 + body.count("\n")
    assert (rule, line, severity) in rules_found(tmp_path, HEAD + body)


@pytest.mark.parametrize(
    "body",
    [
        "cat $1\ncat $SLURM_JOB_ID.txt\ncat data_*.csv\n",
        "mkdir -p results\ncd results\necho a > out.txt\n",
        "echo a > made.csv\ncat made.csv\n",
        "touch made.csv\ncat < made.csv\n",
        "cat <<EOF > made.ini\n./nothing\nEOF\n",
        "cat there.csv\ncd folder\ncat inside.csv\n",
        "cp there.csv folder\n",
        "case a in\n a) echo b;;\nesac\n",
        "cp there.csv ann@host:/backup/there.csv\n",
        "echo a > $TMPDIR/x\necho b > /dev/null\n",
        "echo apptainer exec\n",
    ],
)
def test_not_missing(tmp_path: Path, body: str) -> None:
    (tmp_path / "there.csv").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/inside.csv").touch()
    assert rules_found(tmp_path, HEAD + body) == []


def test_permissions(tmp_path: Path) -> None:
    program(tmp_path, "run.sh", b"#!/bin/sh\n", 0o644)
    assert ("not-executable", 2, "error") in rules_found(tmp_path, HEAD + "./run.sh\n")
    assert rules(tmp_path, HEAD + "sh run.sh\n") == []


def test_no_permission_to_read_or_write(tmp_path: Path) -> None:
    class Forbidden(LocalHost):
        """A user who may do nothing; root, as tests may run, may do all."""

        def may_access(self, path: str, mode: str) -> bool | None:
            return False

    (tmp_path / "in.csv").touch()
    text = HEAD + "#SBATCH -o x.out\ncat in.csv\necho a > out.txt\n"
    found = findings(read_script(text), tmp_path / "job", Forbidden({"PATH": "/bin:/usr/bin"}))
    assert [(f.rule, f.line) for f in found] == [
        ("unwritable-output", 2), ("unwritable-output", 4), ("no-permission", 3),
    ]  # fmt: skip


def test_the_folder_of_the_output(tmp_path: Path) -> None:
    text = HEAD + "#SBATCH -o logs/%x.out\n#SBATCH -e logs/%j.err\ntrue\n"
    found = check(tmp_path, text)
    assert [(f.rule, f.line, f.severity) for f in found] == [
        ("missing-output-folder", 2, "warning"), ("missing-output-folder", 3, "warning"),
    ], "no sbatch here: nobody knows whether Slurm makes it"  # fmt: skip
    assert fix(found[0]) == f"mkdir -p {tmp_path}/logs"
    (tmp_path / "logs").mkdir()
    assert rules_found(tmp_path, text) == []
    assert rules(tmp_path, HEAD + "#SBATCH -o $HOME/x.out\ntrue\n") == ["variable-in-option"]
    assert rules(tmp_path, HEAD + "#SBATCH -o logs/%j/x.out\ntrue\n") == []


class Version(LocalHost):
    """A machine with this Slurm."""

    def __init__(self, version: tuple[int, int]) -> None:
        super().__init__(ENVIRONMENT)
        self._version = version

    @property
    def slurm(self) -> tuple[int, int] | None:
        return self._version


@pytest.mark.parametrize(
    ("version", "severity"), [((22, 5), "error"), ((23, 2), "warning"), ((24, 11), None), ((26, 5), None)]
)
def test_newer_slurms_make_the_folder_of_the_output(
    tmp_path: Path, version: tuple[int, int], severity: str | None
) -> None:
    """As `tests/lab/test_scripts.py` shows of real ones."""
    script = read_script(HEAD + "#SBATCH -o logs/deep/%x.out\ntrue\n")
    found = findings(script, tmp_path / "job", Version(version))
    assert [f.severity for f in found] == ([severity] if severity else [])
    read = read_script(HEAD + "#SBATCH -i logs/in.txt\ntrue\n")
    (missing,) = findings(read, tmp_path / "job", Version(version))
    assert missing.severity == "error", "no version creates an input"


def test_what_another_job_or_an_earlier_program_may_make_is_not_certain(tmp_path: Path) -> None:
    text = HEAD + "cat data.csv\n"
    assert rules_found(tmp_path, text) == [("missing-input", 2, "error")]
    (waits,) = check(tmp_path, text, command_line=["--dependency=afterok:7"])
    assert waits.severity == "note"
    assert rules_found(tmp_path, HEAD + "cat data.csv || echo none\n") == [("missing-input", 2, "note")]
    assert rules_found(tmp_path, HEAD + "cat data.csv || exit 1\n") == [("missing-input", 2, "warning")]
    assert "unless a job that this one depends on creates it" in what(waits)
    (possible,) = check(tmp_path, HEAD + "sort -o x y\ncat data.csv\n")
    assert (possible.severity, "unless sort creates it" in what(possible)) == ("warning", True)
    assert rules_found(tmp_path, HEAD + "cat /opt/site/data.csv\n") == [("missing-input", 2, "warning")], (
        "a node may"
    )


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("./gone\n", "error"),
        ("echo a\n./gone\n", "error"),
        ("./gone\necho done\n", "warning"),
        ("set -e\n./gone\necho done\n", "error"),
        ("set -euo pipefail\n./gone | tee log\n", "error"),
        ("set -e\n./gone | tee log\n", "warning"),
        ("set -e\nset +e\n./gone\necho done\n", "warning"),
        ("./gone | tee log\n", "warning"),
        ("./gone || exit 1\n", "warning"),
        ("./gone &\n", "warning"),
        ("set -e\n./gone > log 2>&1 &\n", "warning"),
        ("set -euo pipefail\n./gone | tee log &\n", "warning"),
        ("set -e\n( ./gone ) &\n", "warning"),
        ("set -e\n(\n  ./gone\n) &\n", "warning"),
        ("set -e\n(\n  ./gone\n) > log &\nwait\n", "warning"),
        ("set -e\n(\n  ./gone\n)\n", "error"),
        ("set -e\n! ./gone\necho done\n", "warning"),
        ("! ./gone\n", "warning"),
        ("./gone\nRC=$?\n", "warning"),
        ("./gone; RC=$?\n", "warning"),
        ("set -e\n./gone\nRC=$?\n", "error"),
        ("A=1; ./gone\n", "error"),
    ],
)
def test_only_what_ends_the_script_ends_the_job(tmp_path: Path, body: str, severity: str) -> None:
    """`./gone; echo done` ends as COMPLETED."""
    (found,) = (f for f in check(tmp_path, HEAD + body) if f.rule == "missing-program")
    assert found.severity == severity


@pytest.mark.parametrize(
    ("begin", "severity"), [("now+2hours", "warning"), ("tomorrow", "warning"), ("now", "error")]
)
def test_an_input_may_be_there_when_a_job_of_later_begins(tmp_path: Path, begin: str, severity: str) -> None:
    (found,) = check(tmp_path, HEAD + f"#SBATCH --begin={begin}\ncat data.csv\n")
    assert (found.rule, found.severity) == ("missing-input", severity)
    assert what(found).endswith("unless it exists when the job begins") == (severity == "warning")
    (of_slurm,) = check(tmp_path, HEAD + f"#SBATCH --begin={begin}\n#SBATCH -i logs/in.txt\ntrue\n")
    assert of_slurm.severity == severity


def test_what_the_tasks_of_an_array_read(tmp_path: Path) -> None:
    text = HEAD + "#SBATCH --array=1-3\nset -e\ncat part_${SLURM_ARRAY_TASK_ID}.txt\n"
    for task in (1, 2):
        (tmp_path / f"part_{task}.txt").touch()
    (lacks,) = check(tmp_path, text)
    assert (lacks.rule, lacks.line, lacks.severity) == ("missing-input", 4, "warning")
    assert "part_3.txt does not exist: 1 of 3 array tasks lack their file" in what(lacks)
    (tmp_path / "part_3.txt").touch()
    assert rules(tmp_path, text) == []


def test_where_the_job_begins(tmp_path: Path) -> None:
    assert rules(tmp_path, HEAD + "#SBATCH -D /nowhere/at/all\ntrue\n") == ["missing-folder"]
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/in.csv").touch()
    assert rules(tmp_path, HEAD + "#SBATCH --chdir=sub\ncat in.csv\n") == []


# --- programs and modules --------------------------------------------------------------------------


def test_programs_by_name(tmp_path: Path) -> None:
    assert ("missing-program", 2, "warning") in rules_found(tmp_path, HEAD + "samtoolz sort x\n")
    assert rules(tmp_path, HEAD + "module load bio\nsamtoolz sort x\n", environment=HAS_MODULES) == []
    assert rules_found(tmp_path, HEAD + "mpirun_rsh -np 2 hostname\n") == [("missing-program", 2, "warning")]
    assert rules(tmp_path, HEAD + "srun -n 2 hostname\n") == [], "Slurm brings it"
    assert rules(tmp_path, HEAD + "run_all() { echo a; }\nrun_all\n") == []
    assert rules(tmp_path, "#!/bin/bash -l\nsamtoolz sort x\n") == []


@pytest.mark.parametrize("first", ["#!/usr/bin/zshell\n", "#!/usr/bin/env pythonn\n"])
def test_the_interpreter(tmp_path: Path, first: str) -> None:
    assert ("missing-interpreter", 1, "warning") in rules_found(tmp_path, first + "true\n")


def test_modules(tmp_path: Path) -> None:
    for name in ("gcc/12.2.lua", "gcc/11.1.lua", "openmpi/4.1.5"):
        path = tmp_path / "modules" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    around = {"MODULEPATH": str(tmp_path / "modules")}
    text = HEAD + "module load gcc/12.2\nmodule load gcc openmpi/4.1.5\nml openmpi\n"
    assert rules(tmp_path, text, environment=around) == []
    (finding,) = check(tmp_path, HEAD + "module load gcc/12.3\n", environment=around)
    assert (finding.rule, finding.line, finding.severity) == ("missing-module", 2, "warning")
    assert fix(finding) == "did you mean gcc/12.2?"
    # Behind another module it may be in a hierarchy: not sure.
    later = rules_found(tmp_path, HEAD + "module load gcc/12.2\nmodule load petsc\n", environment=around)
    assert later == [("missing-module", 3, "warning")]
    assert rules(tmp_path, HEAD + "module load petsc\n", environment=HAS_MODULES) == []
    (none,) = check(tmp_path, HEAD + "module load petsc\nmodule load gcc\n", environment={})
    assert (none.line, none.severity, "no module system" in what(none)) == (2, "warning", True)
    brought = HEAD + "source /etc/profile\nmodule load petsc\n"
    assert rules(tmp_path, brought, environment={}) == [], "it may set one up"
    (misspelt,) = check(tmp_path, HEAD + "module load opnmpi\n", environment=around)
    assert fix(misspelt) == "did you mean openmpi?"
    (tmp_path / "modules/gcc/.modulerc").touch()  # it may call a version otherwise
    assert rules(tmp_path, HEAD + "module load gcc/12.3\n", environment=around) == []


# --- Python ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def environment_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a real environment without packages."""
    folder = tmp_path_factory.mktemp("venv") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def test_imports_that_an_environment_lacks(tmp_path: Path, environment_folder: Path) -> None:
    (tmp_path / "helpers.py").touch()
    (tmp_path / "train.py").write_text(
        "import os, json\nimport helpers\nimport numpy as np\nfrom nothing_there.sub import x\n"
        "try:\n    import optional_thing\nexcept ImportError:\n    pass\nopen('ran', 'w')\n"
    )
    text = HEAD + f"source {environment_folder}/bin/activate\npython train.py\n"
    found = check(tmp_path, text)
    assert [(f.rule, f.line, f.severity) for f in found] == [("missing-import", 3, "error")] * 2
    assert "imports nothing_there (line 4)" in what(found[0])
    assert "imports numpy (line 3)" in what(found[1])
    assert not (tmp_path / "ran").exists(), "nothing of the user's is run"


def test_a_package_that_is_run(tmp_path: Path) -> None:
    python = HEAD + f"{sys.executable} -m "
    assert rules_found(tmp_path, python + "no_such_tool.main run\n") == [("missing-import", 2, "error")]
    assert rules(tmp_path, python + "json.tool x\n") == []
    (tmp_path / "mine.py").touch()
    assert rules(tmp_path, python + "mine\n") == []
    assert rules(tmp_path, HEAD + f"pip install tool\n{sys.executable} -m tool\n") == []


def test_the_interpreter_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import polars\nimport not_there_at_all\n")
    found = check(tmp_path, HEAD + f"{sys.executable} a.py\n")
    assert [what(f).split(" (")[0] for f in found] == ["a.py imports not_there_at_all"]


def test_what_is_no_program_is_not_asked(tmp_path: Path) -> None:
    """A `python` that somebody wrote is not started to find out."""
    (tmp_path / "a.py").write_text("import not_there_at_all\n")
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "python", f"#!/bin/sh\ntouch {tmp_path}/ran\n".encode())
    assert rules(tmp_path, HEAD + "bin/python a.py\n") == []
    assert not (tmp_path / "ran").exists()


def test_an_environment_that_is_not_there(tmp_path: Path) -> None:
    found = rules_found(tmp_path, HEAD + "source nowhere/bin/activate\n")
    assert ("missing-environment", 2, "error") in found
    (tmp_path / "miniconda3/envs/torch/bin").mkdir(parents=True)
    around = {"HOME": str(tmp_path)}
    assert rules(tmp_path, HEAD + "conda activate torch\n", environment=around) == []
    (none,) = check(tmp_path, HEAD + "conda activate torch\n", environment={"HOME": "/nowhere", "PATH": ""})
    assert (none.rule, none.severity) == ("missing-environment", "warning")
    assert "there is no conda here" in what(none)
    assert rules(tmp_path, HEAD + "conda activate other\n", environment=around) == [], (
        "no conda to be sure of"
    )
    (tmp_path / "miniconda3/conda-meta").mkdir()
    other = rules_found(tmp_path, HEAD + "conda activate other\n", environment=around)
    assert other == [("missing-environment", 2, "error")]
    by_module = HEAD + "module load conda\nconda activate other\n"
    assert rules(tmp_path, by_module, environment=around | HAS_MODULES) == []
    assert (
        LocalHost({"HOME": str(tmp_path)}).conda_environment("torch") == f"{tmp_path}/miniconda3/envs/torch"
    )


def test_a_script_in_python_itself(tmp_path: Path) -> None:
    text = f"#!{sys.executable}\n#SBATCH -n 1\nimport json\nimport not_there_at_all\n"
    assert rules_found(tmp_path, text) == [("missing-import", 4, "error")]
    assert rules_found(tmp_path, f"#!{sys.executable}\nprint 'two'\n") == [("python-syntax", 1, "warning")]


def test_python_that_does_not_parse(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print 'two'\n")
    assert ("python-syntax", 2, "warning") in rules_found(tmp_path, HEAD + "python3 a.py\n")


# --- binaries ----------------------------------------------------------------------------------------


def test_a_real_program_is_read() -> None:
    read = read_program(binary())
    assert read is not None
    assert read.machine == os.uname().machine
    assert "libc.so.6" in read.needed
    assert read.interpreter is not None


def test_a_program_written_to_be_slow() -> None:
    """Thousands of dynamic segments, each with thousands of entries, cost no more than one."""
    load = struct.pack("<IIQQQQQQ", 1, 4, 0, 0, 0, 1 << 24, 1 << 24, 8)
    dynamic = struct.pack("<IIQQQQQQ", 2, 4, 64 + 56 * 4000, 0, 0, 1 << 20, 1 << 20, 8)
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    header = struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, 4000, 0, 0, 0)
    entries = struct.pack("<qQ", 1, 1) * 4000 + struct.pack("<qQqQ", 5, 0, 0, 0)
    begun = time.thread_time()
    read = read_program(identity + header + load + dynamic * 3999 + entries)
    assert time.thread_time() - begun < 2
    assert read is not None
    assert (read.machine, read.needed[:1], len(read.needed)) == ("x86_64", ("ELF\x02\x01\x01",), 4000)


def test_the_loader_s_cache_is_read() -> None:
    assert "libc.so.6" in (loader_cache(Path("/etc/ld.so.cache").read_bytes()) or ())
    assert loader_cache(b"something else") is None


def test_another_processor(tmp_path: Path) -> None:
    other = bytearray(binary())
    other[18:20] = (183 if os.uname().machine == "x86_64" else 62).to_bytes(2, "little")
    program(tmp_path, "solver", bytes(other))
    assert ("wrong-architecture", 2, "error") in rules_found(tmp_path, HEAD + "srun ./solver\n")


def test_a_library_that_nobody_has(tmp_path: Path) -> None:
    program(tmp_path, "good", binary())
    program(tmp_path, "bad", binary().replace(b"libc.so.6\0", b"libq.so.6\0"))
    assert rules(tmp_path, HEAD + "./good\n") == []
    (finding,) = check(tmp_path, HEAD + "./bad\n")
    assert (finding.rule, finding.line) == ("missing-library", 2)
    assert "libq.so.6" in what(finding)
    (tmp_path / "libq.so.6").touch()
    assert rules(tmp_path, HEAD + "./bad\n", environment={"LD_LIBRARY_PATH": str(tmp_path)}) == []
    by_module = rules(tmp_path, HEAD + "module load q\n./bad\n", environment=HAS_MODULES)
    assert by_module == [], "the module may bring it"


def test_a_script_with_an_interpreter_of_its_own(tmp_path: Path) -> None:
    program(tmp_path, "a.sh", b"#!/bin/sh\r\necho\r\n")
    program(tmp_path, "b.sh", b"#!/opt/nowhere/tool\n")
    found = rules_found(tmp_path, HEAD + "set -e\n./a.sh\n./b.sh\n")
    assert ("windows-line-ends", 3, "error") in found
    assert ("missing-interpreter", 4, "error") in found


@pytest.mark.parametrize("cut", [4, 20, 64, 200, 5000])
def test_half_a_program_is_no_crash(tmp_path: Path, cut: int) -> None:
    program(tmp_path, "half", binary()[:cut])
    check(tmp_path, HEAD + "./half\n")


# --- tasks --------------------------------------------------------------------------------------------


def test_copies_of_a_program_that_knows_no_mpi(tmp_path: Path) -> None:
    (tmp_path / "serial.py").write_text("import numpy\n")
    (tmp_path / "parallel.py").write_text("from mpi4py import MPI\n")
    (tmp_path / "own.py").write_text("import my_model\n")
    (tmp_path / "fit.R").write_text("x <- 1\n")
    program(tmp_path, "solver", binary())
    text = HEAD + "#SBATCH -n 4\nmodule load x\n"
    for line, found in (
        ("srun python3 serial.py", True), ("srun -n1 python3 serial.py", False), ("srun ./solver", True),
        ("srun hostname", False), ("srun python3 parallel.py", False), ("srun python3 own.py", False),
        ("mpirun -np 4 Rscript fit.R", True),
        ("srun python3 serial.py $SLURM_PROCID", False),
    ):  # fmt: skip
        assert ("srun-without-mpi" in rules(tmp_path, f"{text}{line}\n")) is found, line


def test_an_mpi_program_without_a_launcher(tmp_path: Path) -> None:
    program(tmp_path, "solver", binary().replace(b"libc.so.6\0", b"libmpi.so\0"))
    text = HEAD + "#SBATCH -n 4\nmodule load openmpi\n"
    assert "mpi-without-launcher" in rules(tmp_path, text + "./solver\n")
    assert "mpi-without-launcher" not in rules(tmp_path, text + "srun ./solver\n")
    assert stat.S_IXUSR & (tmp_path / "solver").stat().st_mode


@pytest.mark.parametrize("interpreter", ["/bin/bash", "/usr/bin/env bash", "/opt/no/such/shell"])
def test_nothing_is_claimed_about_a_machine_that_is_not_known(interpreter: str) -> None:
    """A script that was sent over the network: what is not known is never a finding."""
    text = f"""#!{interpreter}
#SBATCH --output=/no/such/folder/%j.out --time=0:10:00
module load no-such-module
conda activate no-such-environment
source no-such-venv/bin/activate
sleep 60
python3 no_such_script.py < no-such-input.dat
srun hostname
mpirun -n 4 ./no_such_solver
apptainer run no-such-image.sif
"""
    for script in (
        text,
        text.replace("module load no-such-module\n", ""),
        "#!/bin/sh\nsleep 1\nmpirun ./a\n",
    ):
        assert findings(read_script(script), Path("/home/ann/job"), UnknownHost()) == ()


def test_every_question_to_an_unknown_machine_is_open() -> None:
    questions = [name for name in vars(Host) if not name.startswith("_")]
    assert set(questions) <= set(vars(UnknownHost))
    assert UnknownHost().has_program("sh") is None
