"""Several processes at one store: a writer, readers, a second writer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.errors import StoreBusyError
from forewarn.store.embedded import open_embedded

pytestmark = pytest.mark.slow

WRITE = """
import sys
from pathlib import Path
from forewarn.store.embedded import open_embedded
from tests.store.samples import many

store = open_embedded(Path(sys.argv[1]))
for batch in range(40):
    with store.writing() as writer:
        writer.observe("job", many(100, first=batch * 100).head(50))
        writer.observe("job", many(100, first=batch * 100))
        writer.set_cursor("batch", str(batch + 1))
"""

READ = """
import sys, time
from pathlib import Path
from forewarn.store.embedded import open_embedded

store, looks, last = open_embedded(Path(sys.argv[1]), read_only=True), 0, 0
while not Path(sys.argv[2]).exists():
    before = int(store.cursor("batch") or 0)
    found = [submit for frame in store.scan(columns=["submit"]) for submit in frame["submit"]]
    counted, after = store.count(), int(store.cursor("batch") or 0)
    assert found == list(range(len(found))), "not whole, or not in order"
    assert len(found) % 100 == counted % 100 == 0, "half a write"
    assert last <= before * 100 <= len(found) <= counted <= after * 100, "time ran backwards"
    time.sleep(0.01)
    looks, last = looks + 1, len(found)
print(looks)
"""

HOLD = """
import sys
from pathlib import Path
from forewarn.store.embedded import open_embedded

with open_embedded(Path(sys.argv[1])).writing() as writer:
    writer.set_cursor("held", "1")
    print("holding", flush=True)
    sys.stdin.read()
"""

CLAIM = """
import sys, time
from pathlib import Path
from forewarn.store.embedded import open_embedded

with open_embedded(Path(sys.argv[1])) as store:
    claim = store.claim("state alps")
    print("none" if claim is None else "held", flush=True)
    sys.stdin.read()
"""

OPEN = """
import sys
from pathlib import Path
from forewarn.store.embedded import open_embedded
from tests.store.samples import many

sys.stdin.readline()
with open_embedded(Path(sys.argv[1])) as store, store.writing() as writer:
    writer.observe("job", many(10, first=int(sys.argv[2]) * 10))
"""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "POLARS_MAX_THREADS": "1"},  # many processes, few cores
    )


def end(process: subprocess.Popen[str]) -> str:
    output, wrong = process.communicate(timeout=60)
    assert (process.returncode, wrong) == (0, "")
    return output


def test_readers_beside_a_writer_see_whole_writes(tmp_path: Path) -> None:
    home, done = tmp_path / "home", tmp_path / "done"
    open_embedded(home).close()
    readers = [start(READ, home, done) for _ in range(2)]
    end(start(WRITE, home))
    done.touch()
    assert all(int(end(reader)) > 2 for reader in readers)
    with open_embedded(home) as store:
        assert store.count() == 4000


def test_a_second_writer_waits_then_its_error_names_who_writes(tmp_path: Path) -> None:
    with open_embedded(tmp_path, busy_seconds=0.2) as store:
        first = start(HOLD, tmp_path)
        assert first.stdout is not None
        assert first.stdout.readline() == "holding\n"
        with (
            pytest.raises(StoreBusyError, match=rf"process {first.pid} .*within 0.2 s") as error,
            store.writing(),
        ):
            pass
        assert "Try again" in str(error.value)
        assert store.cursor("held") is None  # a reader does not wait
        end(first)
        with store.writing() as writer:
            writer.set_cursor("second", "1")
        assert store.cursor("held") == "1"


def test_the_error_of_a_writer_within_a_writer_names_its_own_process(tmp_path: Path) -> None:
    with (
        open_embedded(tmp_path, busy_seconds=0.1) as store,
        store.writing(),
        pytest.raises(StoreBusyError, match=str(os.getpid())),
        store.writing(),
    ):
        pass


def test_several_may_make_the_store_at_once(tmp_path: Path) -> None:
    openers = [start(OPEN, tmp_path / "home", n) for n in range(4)]
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("go\n")
        opener.stdin.flush()
    errors = [opener.communicate(timeout=60)[1] for opener in openers]  # of all, before any is judged
    assert errors == [""] * 4
    assert {opener.returncode for opener in openers} == {0}
    with open_embedded(tmp_path / "home") as store:
        assert store.count() == 40
        assert sum(f.height for f in store.scan()) == 40


def claimed(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_one_process_at_a_time_holds_a_claim(tmp_path: Path) -> None:
    """Who is killed holds nothing any more: one who waits for it follows at once."""
    with open_embedded(tmp_path) as store:
        first = start(CLAIM, tmp_path)
        assert claimed(first) == "held"
        second = start(CLAIM, tmp_path)
        assert claimed(second) == "none"
        assert store.claim("state alps") is None
        other = store.claim("state other")
        assert other is not None
        with store.writing() as writer, other:  # a claim keeps nobody from writing in short
            writer.set_cursor("x", "y")
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=60)
        held = store.claim("state alps")
        assert held is not None
        third = start(CLAIM, tmp_path)
        assert claimed(third) == "none"
        with held:
            pass
        end(third)
        fourth = start(CLAIM, tmp_path)
        assert claimed(fourth) == "held"
        end(fourth)
        end(second)
        last = store.claim("state alps")
        assert last is not None, "a process that ends holds nothing either"
        with last:
            pass


def test_one_process_writes_observations_for_long(tmp_path: Path) -> None:
    """What an embedded store's long-running writers agree by; a command between them waits for its turn."""
    with open_embedded(tmp_path) as collector, open_embedded(tmp_path) as stream:
        assert not stream.allows_many_writers
        mine = collector.claim("observations")
        assert mine is not None
        assert stream.claim("observations") is None
        with mine, collector.writing() as writer:
            writer.set_cursor("collector", "1")
        with stream.writing() as writer:
            writer.set_cursor("command", "1")
        assert collector.cursor("command") == stream.cursor("collector") == "1"
