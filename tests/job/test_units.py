"""Tests of Slurm's units: a written value reads back the same, and an invalid one is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.job.units import (
    MOST_BYTES,
    UNLIMITED,
    JobId,
    Memory,
    check_nodes,
    compress_nodes,
    expand_nodes,
    format_duration,
    format_memory,
    format_tres,
    gpus_in_tres,
    parse_duration,
    parse_job_id,
    parse_memory,
    parse_tres,
)

WORD = st.text("abcdefghijklmnopqrstuvwxyz0123456789.-", min_size=1, max_size=8)


class TestDuration:
    @given(st.integers(0, UNLIMITED))
    def test_round_trip(self, seconds: int) -> None:
        assert parse_duration(format_duration(seconds)) == seconds

    @pytest.mark.parametrize(
        ("text", "seconds"),
        [
            ("30", 1800),
            ("02:30", 150),
            ("1:00:00", 3600),
            ("1-00", 86400),
            ("0-00:10", 600),
            ("1-02:03:04", 93784),
            ("00:01.250", 1),  # sacct's TotalCPU
            ("UNLIMITED", UNLIMITED),
            ("Partition_Limit", None),  # what sacct says of a job that asked for none
            ("", None),
            ("INVALID", None),
        ],
    )
    def test_slurms_forms(self, text: str, seconds: int | None) -> None:
        assert parse_duration(text) == seconds

    def test_a_lone_number_has_the_unit_that_is_asked_for(self) -> None:
        assert parse_duration("90", bare=1) == 90

    @pytest.mark.parametrize("text", ["soon", "1:2:3:4", "-5", "1-", "1h", "٣"])
    def test_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="not a Slurm duration"):
            parse_duration(text)

    def test_no_negative(self) -> None:
        with pytest.raises(ValueError, match="negative"):
            format_duration(-1)


class TestMemory:
    @given(st.integers(0, MOST_BYTES), st.sampled_from(["cpu", "node", None]))
    def test_round_trip_is_exact(self, amount: int, per: str | None) -> None:
        assert parse_memory(format_memory(amount, per)) == Memory(amount, per)

    @pytest.mark.parametrize(
        ("text", "memory"),
        [
            ("4000Mc", Memory(4000 << 20, "cpu")),
            ("4Gn", Memory(4 << 30, "node")),
            ("0n", Memory(0, "node")),
            ("2.5G", Memory(5 << 29)),
            ("1000", Memory(1000 << 20)),
            ("12K", Memory(12 << 10)),
            ("16GiB", Memory(16 << 30)),
            ("480GB", Memory(480 << 30)),
            ("", None),
        ],
    )
    def test_slurms_forms(self, text: str, memory: Memory | None) -> None:
        assert parse_memory(text) == memory

    def test_a_bare_number_has_the_unit_that_is_asked_for(self) -> None:
        assert parse_memory("2048", bare="K") == Memory(2 << 20)

    @pytest.mark.parametrize("text", ["lots", "4X", "-4G", "4G4", "1e9"])
    def test_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="not a Slurm memory size"):
            parse_memory(text)


class TestTres:
    NAMES = st.sampled_from(
        ["cpu", "mem", "node", "billing", "energy", "vmem", "pages", "fs/disk"]
    ) | WORD.map(lambda w: f"gres/{w}")

    @given(st.dictionaries(NAMES, st.integers(0, MOST_BYTES)))
    def test_round_trip(self, resources: dict[str, int]) -> None:
        assert parse_tres(format_tres(resources)) == resources

    @given(st.dictionaries(NAMES, st.integers(0, MOST_BYTES)))
    def test_equal_requests_are_equal_text(self, resources: dict[str, int]) -> None:
        backwards = dict(reversed(resources.items()))
        assert format_tres(resources) == format_tres(backwards)

    @pytest.mark.parametrize(
        "text",
        ["cpu", "=4", "cpu=", "cpu=2,,mem=1G", "cpu=2.5", "cpu=two", "cpu=²", "cpu=1:x", f"cpu={10**20}"],
    )
    def test_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="not a TRES string"):
            parse_tres(text)

    def test_cpu_time_as_steps_have_it(self) -> None:
        assert parse_tres("cpu=1-00:00:01,fs/disk=5") == {"cpu": 86401, "fs/disk": 5}

    def test_gpus(self) -> None:
        assert gpus_in_tres(parse_tres("cpu=1,gres/gpu=2,gres/gpu:a100=2")) == 2
        assert gpus_in_tres(parse_tres("gres/gpu:a100=1,gres/gpu:h100=3")) == 4
        assert gpus_in_tres(parse_tres("cpu=1")) is None


class TestNodeList:
    # Names that Slurm itself prints for "no nodes" cannot be told from them.
    NODES = st.sets(
        st.from_regex(r"[a-z][a-z.-]{0,4}[0-9]{0,4}(c[0-9]{1,2})?", fullmatch=True).filter(
            lambda name: name.upper() not in {"NONE", "UNKNOWN", "INVALID"}
        ),
        min_size=1,
        max_size=40,
    )

    @given(NODES)
    def test_round_trip(self, nodes: set[str]) -> None:
        expanded = expand_nodes(compress_nodes(nodes))
        assert len(expanded) == len(nodes)
        assert set(expanded) == nodes

    @given(st.integers(0, 5000), st.integers(0, 300), st.integers(1, 5))
    def test_a_range_is_one_range(self, first: int, more: int, width: int) -> None:
        names = [f"n{number:0{width}}" for number in range(first, first + more + 1)]
        text = compress_nodes(names)
        assert expand_nodes(text) == names
        assert text.count(",") <= 4  # once for each further number of digits

    def test_slurms_forms(self) -> None:
        assert expand_nodes("n[01-03,7]") == ["n01", "n02", "n03", "n7"]
        assert expand_nodes("a1, b[2-3]x") == ["a1", "b2x", "b3x"]
        assert expand_nodes("None assigned") == []

    def test_the_order_of_the_list_stays(self) -> None:
        assert expand_nodes("n[3,1-2],a,n[08-10]") == ["n3", "n1", "n2", "a", "n08", "n09", "n10"]
        assert expand_nodes("n[7,01-02]") == ["n7", "n01", "n02"]

    @pytest.mark.parametrize("text", ["n[-1]", "n[1-3/2]", "n[٣]"])
    def test_ranges_of_other_tools_are_refused(self, text: str) -> None:
        """ClusterShell reads them; Slurm never writes them."""
        with pytest.raises(ValueError, match="not a range in a node list"):
            expand_nodes(text)

    @pytest.mark.parametrize(
        "text",
        ["n[1-", "n]1[", "n[]", "n[a-b]", "n[3-1]", "a,,b", "n[[1]]", "n[0-99999999999]", "n[1-2-3]", "n[²]"],
    )
    def test_refused(self, text: str) -> None:
        for read in (expand_nodes, check_nodes):
            with pytest.raises(ValueError, match="node list"):
                read(text)

    @pytest.mark.parametrize("text", ["n[0-9999][0-9999]", "n[0-999999],m", ",".join(["n[0-99999]"] * 11)])
    def test_more_nodes_than_there_can_be(self, text: str) -> None:
        with pytest.raises(ValueError, match="more than 1,000,000 nodes"):
            expand_nodes(text)


class TestJobId:
    IDS = st.builds(
        lambda number, part, step: JobId(number, step=step, **part),
        st.integers(1, 2**32),
        st.one_of(
            st.just({}),
            st.builds(lambda n: {"task": n}, st.integers(0, 4_000_000)),
            st.builds(lambda n: {"offset": n}, st.integers(0, 127)),
            st.builds(lambda a, b: {"tasks": f"{a}-{a + b}%2"}, st.integers(0, 99), st.integers(0, 99)),
        ),
        st.none() | st.sampled_from(["batch", "extern", "interactive", "0", "12"]),
    )

    @given(IDS)
    def test_round_trip(self, job_id: JobId) -> None:
        assert parse_job_id(str(job_id)) == job_id

    @given(IDS)
    def test_a_step_belongs_to_its_job(self, job_id: JobId) -> None:
        assert parse_job_id(job_id.job) == JobId(job_id.number, job_id.task, job_id.tasks, job_id.offset)

    @pytest.mark.parametrize("text", ["", "abc", "12_", "12_x", "12+", "_4", "12.", "1 2"])
    def test_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="not a Slurm job id"):
            parse_job_id(text)


@pytest.mark.parametrize("text", ["99999999999999-00:00:00", "9" * 20])
def test_a_duration_beyond_all_bounds(text: str) -> None:
    with pytest.raises(ValueError, match="that is too large"):
        parse_duration(text)


def test_a_memory_size_beyond_all_bounds() -> None:
    with pytest.raises(ValueError, match="that is too large"):
        parse_memory("99999999999P")
