"""`forewarn config`, and how values are found."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from forewarn.config import all_settings, resolve, template, variable
from forewarn.errors import UsageError
from tests.serve.conftest import Forewarn, sacct_line, write_sacct


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_precedence(tmp_path: Path) -> None:
    """Flag over environment over file over default, and each says so."""
    write(tmp_path / "config.toml", 'policy = "papers"\nknown_delay = 60\ncluster = "file"\n')
    environ = {"FOREWARN_HOME": str(tmp_path), "FOREWARN_KNOWN_DELAY": "120", "FOREWARN_CLUSTER": "env"}
    found = resolve({"cluster": "flag", "timezone": None}, environ)
    assert (found.config.store, found.origins["store"].layer) == ("embedded", "default")
    assert (found.config.policy, found.origins["policy"].layer) == ("papers", "file")
    assert (found.config.known_delay, found.origins["known_delay"].layer) == (120, "environment")
    assert (found.config.cluster, str(found.origins["cluster"])) == ("flag", "flag --cluster")
    assert found.origins["policy"].place == str(tmp_path / "config.toml")


def test_home(tmp_path: Path) -> None:
    assert resolve({}, {"XDG_DATA_HOME": "/data"}).config.home == Path("/data/forewarn")
    assert resolve({}, {"HOME": "/x"}).config.home.parts[-3:] == (".local", "share", "forewarn")
    assert resolve({"home": tmp_path}, {"FOREWARN_HOME": "/other"}).config.home == tmp_path
    named = write(tmp_path / "site.toml", 'home = "state"\n')
    found = resolve({}, {"FOREWARN_CONFIG": str(named)})
    assert (found.config.home, found.file) == (tmp_path / "state", named)


def test_cluster_tables(tmp_path: Path) -> None:
    text = 'timezone = "Europe/Zurich"\n[clusters.ross]\nswf_status = "exit-code"\ntimezone = "US/Mountain"\n'
    config = resolve({}, {"FOREWARN_CONFIG": str(write(tmp_path / "c.toml", text))}).config
    assert config.of_cluster("ross").timezone == "US/Mountain"
    assert config.of_cluster("ross").swf_status == "exit-code"
    assert config.of_cluster("other").timezone == "Europe/Zurich"
    assert config.of_cluster(None).swf_status is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('polcy = "papers"', "polcy: no such setting; did you mean policy?"),
        ("xyz = 1", "xyz: no such setting; known are home, cluster"),
        ('policy = "strict"', "policy: 'strict' is not one of"),
        ('known_delay = "soon"', "known_delay: 'soon' is not a whole number of seconds"),
        ("known_delay = -1", "known_delay: -1 is not"),
        ("known_delay = true", "known_delay: True is not"),
        ('timezone = "Mars/Olympus"', "timezone: 'Mars/Olympus' is not a time zone"),
        ("cluster = 5", "cluster: 5 is not a text"),
        ('slurmrestd = "slurm:6820"', "slurmrestd: 'slurm:6820' is not an address like http://HOST:6820"),
        ('scheduler = "rest"', "scheduler: 'rest' is not one of auto, slurmrestd, commands"),
        (
            '[clusters.a]\ntimezon = "UTC"',
            "clusters.a.timezon: no such setting; did you mean clusters.a.timezone?",
        ),
        ("clusters = 3", "clusters: must hold tables"),
        ("policy = ", "not a TOML file"),
        ("[clusters]\na = 5", "clusters: must hold tables"),
        ("assessments_kept = 0", "assessments_kept: 0 is not a whole number of days, 1 or more"),
        ("known_delay = 1.0", "known_delay: 1.0 is not a whole number of seconds"),
        ("cluster = ' '", "cluster: ' ' is not a text that is not empty"),
        ("model = 5", "model: 5 is not a text"),
        ("slurm_user = '-x'", "slurm_user: '-x' is not a user name"),
        ("tracking = 'x'", "tracking: 'x' is not an MLflow tracking URI"),
        ('home = "/elsewhere"', "home: this file is found through the home folder"),
    ],
)
def test_wrong_values_name_file_and_key(text: str, message: str, tmp_path: Path) -> None:
    file = write(tmp_path / "config.toml", text)
    with pytest.raises(UsageError) as error:
        resolve({"home": tmp_path}, {})
    assert str(file) in str(error.value)
    assert message in str(error.value)


def test_wrong_values_name_variable_and_flag(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="environment FOREWARN_POLICY: policy: 'x'"):
        resolve({"home": tmp_path}, {"FOREWARN_POLICY": "x"})
    with pytest.raises(UsageError, match="flag --timezone: timezone: 'x'"):
        resolve({"home": tmp_path, "timezone": "x"}, {})
    with pytest.raises(UsageError, match=r"nowhere.toml: no such file \(named by FOREWARN_CONFIG"):
        resolve({}, {"FOREWARN_CONFIG": str(tmp_path / "nowhere.toml")})


def test_the_template_is_the_table(tmp_path: Path) -> None:
    assert tomllib.loads(template()) == {}
    bare = "\n".join(
        line.removeprefix("# ") for line in template().splitlines() if " = " in line or "# [" in line
    )
    config = resolve({"home": tmp_path}, {"FOREWARN_CONFIG": str(write(tmp_path / "c.toml", bare))}).config
    assert config.clusters["alps"].swf_status == "exit-code"
    assert all(name.rpartition(".")[2] in bare for name in all_settings() if name != "home")


def test_show(forewarn: Forewarn, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWARN_POLICY", "papers")
    monkeypatch.setenv("FOREWARN_POLCY", "papers")
    write(home / "config.toml", "[clusters.alps]\ntimezone = 'Europe/Zurich'\n")
    result = forewarn("config", "show")
    rows = {line.split()[0]: line.split()[1:] for line in result.out.splitlines()}
    assert rows["home"] == [str(home), "environment", "FOREWARN_HOME"]
    assert rows["policy"] == ["papers", "environment", "FOREWARN_POLICY"]
    assert rows["timezone"] == ["n/a", "default"]
    assert rows["clusters.alps.timezone"] == ["Europe/Zurich", "file", str(home / "config.toml")]
    assert "FOREWARN_POLCY" in result.err
    shown = forewarn("config", "show", "--json").json
    assert set(shown["values"]) == {*all_settings(), "clusters.alps.timezone"}
    assert shown["values"]["policy"] == {
        "value": "papers",
        "from": "environment",
        "place": variable("policy"),
    }


def test_a_secret_is_shown_nowhere(
    forewarn: Forewarn, home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FOREWARN_SLURM_TOKEN", "hush")
    for flags in ((), ("--json",)):
        result = forewarn("config", "show", *flags)
        assert "hush" not in result.out + result.err
        assert "(set, not shown)" in result.out
    assert "hush" not in repr(resolve({}, {"FOREWARN_SLURM_TOKEN": "hush"}).config)
    write(home / "config.toml", "slurm_token = ['hush']\n")
    monkeypatch.delenv("FOREWARN_SLURM_TOKEN")
    result = forewarn("config", "show")
    assert "slurm_token: its value is not a text" in result.err
    assert "hush" not in result.err


def test_init_and_path(forewarn: Forewarn, home: Path) -> None:
    assert forewarn("config", "path").out == f"{home / 'config.toml'}\n"
    assert forewarn("config", "init").code == 0
    assert (home / "config.toml").read_text() == template()
    again = forewarn("config", "init")
    assert again.code == UsageError.exit_code
    assert "--force" in again.err
    assert forewarn("config", "init", "--force").code == 0
    assert forewarn("config", "show").code == 0


def test_the_zone_of_a_cluster_comes_from_its_table_unless_a_flag_says_otherwise(
    forewarn: Forewarn, home: Path, tmp_path: Path
) -> None:
    write(home / "config.toml", "timezone = 'Asia/Tokyo'\n[clusters.alps]\ntimezone = 'Europe/Zurich'\n")
    seconds = []
    for name, flags in [("alps", ()), ("other", ()), ("third", ("--timezone", "UTC"))]:
        path = write_sacct(tmp_path / f"{name}.txt", sacct_line("1"))
        assert forewarn("ingest", *flags, f"sacct:{path}").code == 0
        seconds.append(forewarn("jobs", "--json", "-M", name).lines[0]["submit"])
    eight_utc = 1704873600
    assert seconds == [eight_utc - 3600, eight_utc - 9 * 3600, eight_utc]


def test_sections(tmp_path: Path) -> None:
    """A section of the file, its variables, its flags; a wrong one is named with its dotted name."""
    file = write(tmp_path / "c.toml", '[serve]\nlisten = "0.0.0.0:80"\ntrusted_proxies = ["10.0.0.1"]\n')
    environ = {"FOREWARN_CONFIG": str(file), "FOREWARN_SERVE_INTERVAL": "7"}
    found = resolve({"serve.gather": 5}, environ)
    assert (found.config.serve.listen, found.config.serve.trusted_proxies) == ("0.0.0.0:80", ("10.0.0.1",))
    assert (found.config.serve.interval, found.config.serve.gather) == (7, 5)
    assert str(found.origins["serve.interval"]) == "environment FOREWARN_SERVE_INTERVAL"
    assert str(found.origins["serve.gather"]) == "flag --gather"
    for text, message in (
        ("serve = 1", r"serve: must be a table: \[serve\]"),
        ("[serve]\nlisen = 1", r"serve\.lisen: no such setting; did you mean serve\.listen\?"),
        ('[serve]\nlisten = "here"', r"serve\.listen: 'here' is not a port"),
        ("[serve]\nbehind_proxy = 3", r"serve\.behind_proxy: 3 is not true or false"),
    ):
        write(file, text)
        with pytest.raises(UsageError, match=message):
            resolve({}, {"FOREWARN_CONFIG": str(file)})
