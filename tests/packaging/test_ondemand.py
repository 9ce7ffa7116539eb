"""The Open OnDemand app as a WSGI program, with the real command; not in a running Open OnDemand."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode
from wsgiref.util import setup_testing_defaults
from wsgiref.validate import validator

import pytest

from tests.packaging.conftest import ROOT

FOLDER = ROOT / "packaging/ondemand"
SCRIPT = "#!/bin/bash\n#SBATCH --time=00:10:00 --ntasks=1\nsrun hostname </pre><script>alert(1)</script>\n"
Ask = Callable[..., tuple[str, str]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Send a form to the app; the status and the page."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("passenger_wsgi", FOLDER / "passenger_wsgi.py")
    assert spec is not None
    assert spec.loader is not None
    app = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(app)
    monkeypatch.setenv("FOREWARN", str(Path(sys.executable).parent / "forewarn"))
    monkeypatch.setenv("FOREWARN_HOME", str(tmp_path / "home"))

    def send(form: dict[str, str] | None = None, **headers: str) -> tuple[str, str]:
        environ: dict[str, object] = {}
        setup_testing_defaults(environ)
        environ["QUERY_STRING"] = ""
        if form is not None:
            body = urlencode(form).encode()
            environ |= {"REQUEST_METHOD": "POST", "wsgi.input": io.BytesIO(body)}
            environ |= {"CONTENT_LENGTH": str(len(body)), **headers}
        statuses: list[str] = []

        def start(status: str, _headers: object, _error: object = None) -> Callable[[bytes], object]:
            statuses.append(status)
            return lambda _: None

        answer = validator(app.application)(environ, start)
        page = b"".join(answer).decode()
        answer.close()  # type: ignore[attr-defined]
        return statuses[0], page

    return send


def test_the_form(ask: Ask) -> None:
    status, page = ask()
    assert status == "200 OK"
    assert re.findall(r'name="(\w+)"', page) == ["path", "script", "options"]
    assert "$" not in page, "every placeholder is filled"


@pytest.mark.slow
def test_a_script_is_checked(ask: Ask, tmp_path: Path) -> None:
    status, page = ask({"script": SCRIPT, "options": "--mem=1G"})
    assert status == "200 OK"
    assert "job.sbatch" in page
    assert "<script>" not in page, "the user's text is only text"
    file = tmp_path / "other.sbatch"
    file.write_text("#!/bin/bash\n#SBATCH --tme=1\nhostname\n")
    assert "tme" in ask({"path": str(file)})[1]


def test_wrong_forms(ask: Ask) -> None:
    assert "Name a file, or paste a script" in ask({})[1]
    assert "No closing quotation" in ask({"script": "x", "options": "--comment='x"})[1]
    assert "too large" in ask({"script": "x" * (2 << 20)})[1]
    assert ask({"script": SCRIPT}, HTTP_SEC_FETCH_SITE="cross-site")[0] == "403 Forbidden"


def test_the_manifest_has_what_the_dashboard_reads() -> None:
    lines = (FOLDER / "manifest.yml").read_text().splitlines()
    keys = [line.partition(":")[0] for line in lines if re.match(r"\w+:", line)]
    assert lines[0] == "---"
    assert keys == ["name", "category", "subcategory", "icon", "description"]
