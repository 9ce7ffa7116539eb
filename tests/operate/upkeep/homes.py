"""A home with jobs of several users, nodes, assessments, people's entries and a model that serves."""

from __future__ import annotations

import json
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl

from forewarn.assess.assessment import Assessment
from forewarn.config import Config
from forewarn.job.columns import SCHEMAS, complete
from forewarn.learn.registry.serving import Serving
from forewarn.operate.engine import Engine
from forewarn.store.base import ASSESSMENT_SCHEMA, ClusterFacts, Store
from forewarn.store.database import connect
from forewarn.store.opening import location_of, open_store
from forewarn.store.segments import unpacked
from tests.operate.notices.samples import warning
from tests.operate.test_engine import NOW, job, new_request, outcome_of, promote, write_jobs

DAY = 86400
AT = NOW + 400 * DAY  # when the tests prune and erase
JOBS = 400


def day_job(number: int, **fields: Any) -> Any:
    """A job, one for each day; every tenth is of zoe."""
    user = "zoe" if number % 10 == 0 else None
    submit = NOW + number * DAY
    usual: dict[str, Any] = {
        "submit": submit,
        "start": submit + 5,
        "end": submit + 50,
        "work_dir": f"/home/{user}/fit",
    }
    usual |= {"user": user, "outcome": outcome_of(number)}
    return job(number, **(usual | fields))


def fill(store: Store, numbers: range = range(JOBS)) -> None:
    """Write jobs, nodes, programs, assessments and cursors."""
    with store.writing() as writer:
        writer.describe_cluster("alps", ClusterFacts())
    write_jobs(store, *map(day_job, numbers))
    node = {"cluster": "alps", "name": "n1", "source": "test", "reconstructed": False}
    program = {**node, "job_id": "10", "run_id": "1", "user": "zoe", "path": "/home/zoe/a.out"}
    del program["name"]
    rows = [
        {"cluster": "alps", "job_id": str(n), "submit": NOW + n * DAY, "phase": "submit", "model": "m/1"}
        | {"made_at": NOW + n * DAY, "probability": 0.5, "verdict": "fine"}
        | {
            "body": json.dumps(
                warning(str(n), user=day_job(n).user, name="x", hours=0.0, risk=0.05).to_json()
            )
        }
        for n in numbers
    ]
    with store.writing() as writer:
        states = [{**node, "state": state, "seen_at": NOW + n * DAY} for n, state in enumerate("ABC")]
        writer.observe("node", complete(pl.DataFrame(states), "node"))
        writer.observe("program", complete(pl.DataFrame([{**program, "seen_at": NOW}]), "program"))
        writer.keep_assessments(pl.DataFrame(rows, schema=dict(ASSESSMENT_SCHEMA)))
        writer.set_cursor("collect alps of zoe", "17")
        writer.set_cursor("collect alps", "17")


def make_home(home: Path) -> Config:
    """Make the whole home."""
    config = Config(home=home)
    with open_store(config) as store:
        fill(store)
    promote(home, 1)
    with location_of(config).open_people() as people:
        people.add("session", {"user": "zoe"}, at=AT)
        people.add("session", {"user": "ann"}, at=AT - 200 * DAY)
        people.add("audit", {"action": "threshold.set", "by": "zoe"}, at=AT)
        people.add("audit", {"action": "threshold.set", "by": "ann"}, at=AT - 2000 * DAY)
    (home / "rejects").mkdir()
    lines = [{"line": 1, "text": "17|zoe|FAILED"}, {"line": 2, "text": "18|ann|FAILED"}]
    (home / "rejects" / "log-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return config


def answer(store: Store, home: Path) -> tuple[Assessment, Assessment]:
    """Assess a request by a new engine."""
    engine = Engine(store, "alps", Serving(home / "models"), clock=lambda: AT)
    engine.follow(AT)
    return answer_of(engine)


def answer_of(engine: Engine) -> tuple[Assessment, Assessment]:
    """Assess a request of a user whose jobs stay, in brief and in full."""
    new = new_request(AT, 1)
    with engine.open_assessor(AT) as assessor:
        return assessor.assess_all([new])[0], assessor.assess(new)


def everything_readable(home: Path) -> bytes:
    """All bytes of a home, with those of compressed segments and texts beside them."""
    parts = [path.read_bytes() for path in sorted(home.rglob("*")) if path.is_file()]
    with closing(connect(home / "forewarn.db", read_only=True, busy_seconds=1)) as connection:
        for kind, data in connection.execute("SELECT kind, data FROM segment").fetchall():
            if kind in SCHEMAS:
                parts.append(unpacked(data, kind).write_csv().encode())
        parts += [zlib.decompress(body) for (body,) in connection.execute("SELECT body FROM assessment")]
    return b"\n".join(parts)
