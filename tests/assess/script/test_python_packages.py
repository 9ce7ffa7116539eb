"""Packages are looked up by reading folders: nothing that a script names is run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from forewarn.assess.wording import finding as what
from forewarn.local_host.python_packages import missing_packages
from tests.assess.script.checking import check

HEAD = "#!/bin/bash\n"
VERSION = f"python{sys.version_info[0]}.{sys.version_info[1]}"
_started: list[str] | None = None


def _watch(event: str, args: tuple[object, ...]) -> None:
    if _started is not None and event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system"):
        _started.append(f"{event} {args!r}")


sys.addaudithook(_watch)


@contextmanager
def nothing_starts() -> Iterator[None]:
    """Fail where a process is started."""
    global _started
    _started = []
    try:
        yield
        assert _started == []
    finally:
        _started = None


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("venv") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


@pytest.fixture
def site(venv: Path) -> Iterator[Path]:
    folder = venv / "lib" / VERSION / "site-packages"
    yield folder
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_no_code_of_an_environment_is_run(tmp_path: Path, venv: Path, site: Path) -> None:
    ran = tmp_path / "ran"
    (site / "evil.pth").write_text(f"import os; open({str(ran)!r}, 'w')\n")
    (tmp_path / "a.py").write_text("import not_there_at_all\n")
    with nothing_starts():
        assert check(tmp_path, HEAD + f"source {venv}/bin/activate\npython a.py\n") == []
        assert check(tmp_path, f"#!{venv}/bin/python\nimport not_there_at_all\n") == []
    assert not ran.exists()


def test_no_program_called_python_is_run(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import not_there_at_all\n")
    shutil.copy("/bin/true", tmp_path / "python")
    with nothing_starts():
        assert "missing-import" not in [f.rule for f in check(tmp_path, HEAD + "./python a.py\n")]


def missing(venv: Path, *names: str, **environment: str) -> set[str] | None:
    found = missing_packages(str(venv / "bin/python"), names, environment)
    return None if found is None else set(found)


def test_what_an_environment_has(venv: Path, site: Path) -> None:
    (site / "package").mkdir()
    (site / "single.py").touch()
    (site / f"compiled.cpython-{sys.version_info[0]}{sys.version_info[1]}-x86_64-linux-gnu.so").touch()
    (site / "stable.abi3.so").touch()
    (site / "named-1.0.dist-info").mkdir()
    names = ("package", "single", "compiled", "stable", "named", "json", "_ctypes", "absent")
    assert missing(venv, *names) == {"named", "absent"}


def test_paths_of_pth_files_are_followed(tmp_path: Path, venv: Path, site: Path) -> None:
    (tmp_path / "src/edited").mkdir(parents=True)
    (site / "beside/nested").mkdir(parents=True)
    (site / "__editable__.edited.pth").write_text(f"# a comment\n{tmp_path}/src\nbeside\nnowhere\n")
    (site / "distutils-precedence.pth").write_text("import os; enabled and __import__('x')\n")
    assert missing(venv, "edited", "nested", "absent") == {"absent"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("__editable___finder.pth", "import __editable___x_finder; __editable___x_finder.install()\n"),
        ("easy-install.pth", "./old.egg\n"),
        ("sitecustomize.py", "import sys\nsys.path.append('/opt/more')\n"),
    ],
)
def test_where_packages_may_be_elsewhere_the_missing_are_unknown(
    venv: Path, site: Path, name: str, text: str
) -> None:
    (site / "old.egg").write_bytes(b"PK")
    (site / name).write_text(text)
    assert missing(venv, "absent") is None


def test_packages_from_elsewhere(tmp_path: Path, venv: Path) -> None:
    (tmp_path / "mine").mkdir()
    assert missing(venv, "mine", PYTHONPATH=str(tmp_path)) == set()
    assert missing(venv, "mine", PYTHONHOME=str(tmp_path)) is None


def test_a_real_interpreter_agrees(tmp_path: Path) -> None:
    """This one has everything in it: folders, an editable install, compiled modules, setuptools' shim."""
    names = ["polars", "numpy", "click", "forewarn", "yaml", "six", "absent", "distutils", "imp", "tomllib"]
    code = "import importlib.util as u, sys; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])"
    environment = {"HOME": str(tmp_path), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    asked = subprocess.run(
        [sys.executable, "-c", code, *names], env=environment, cwd=tmp_path, capture_output=True, check=True
    )
    missing = missing_packages(sys.executable, names, environment)
    assert missing == set(asked.stdout.decode().split())


@pytest.mark.parametrize(
    "before",
    ["module load scipy\n", "export PYTHONPATH=/opt/x\n", "pip install x\n", "python -m pip install x\n"],
)
def test_a_script_that_brings_packages_is_not_judged(tmp_path: Path, venv: Path, before: str) -> None:
    (tmp_path / "a.py").write_text("import not_there_at_all\n")
    text = HEAD + f"source {venv}/bin/activate\n{before}python a.py\n"
    # (That this environment has no pip to be run is another finding.)
    assert not [f for f in check(tmp_path, text) if "not_there_at_all" in what(f)]


def test_a_script_that_looks_elsewhere_is_not_judged(tmp_path: Path, venv: Path) -> None:
    (tmp_path / "a.py").write_text("import sys\nsys.path.insert(0, 'lib')\nimport not_there_at_all\n")
    assert check(tmp_path, HEAD + f"source {venv}/bin/activate\npython a.py\n") == []


@pytest.mark.parametrize(
    ("body", "severity"),
    [
        ("{python} a.py\n", "error"),
        ("{python} a.py &\n", "warning"),
        ("set -e\n! {python} a.py\n", "warning"),
        ("set -e\nif {python} a.py; then echo fine; fi\n", "warning"),
    ],
)
def test_a_program_that_the_script_outlives_ends_no_job(
    tmp_path: Path, venv: Path, body: str, severity: str
) -> None:
    (tmp_path / "a.py").write_text("import not_there_at_all\n")
    found = check(tmp_path, HEAD + body.format(python=venv / "bin/python"))
    assert [f.severity for f in found if f.rule == "missing-import"] == [severity]
