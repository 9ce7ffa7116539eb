"""The online state in the store: one small row per entity, weight and job in flight, one per cluster."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import StoreError
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.entities import row_of, rows_of
from forewarn.features.kernel.regression import regression_slots
from forewarn.features.kernel.state import (
    FREE_FLIGHTS,
    USED_RINGS,
    USED_ROWS,
    Floats,
    Hashes,
    State,
    new_state,
    with_room,
)
from forewarn.features.keys import text_hash
from forewarn.job.outcomes import Policy
from forewarn.store.base import ClusterFacts, Store, Writer

VERSION = 3  # of what the kernel computes: 3 since means fade with every job that ended
ENTITY, RING, WEIGHT, FLIGHT, LANDED = "entity", "ring", "weight", "flight", "landed"
CLUSTER, META = "cluster", "meta"
_SPACES = (ENTITY, RING, WEIGHT, FLIGHT, LANDED, CLUSTER, META)
_MARK = 1  # beside META's row 0, which says what the state depends on
_RING_SHAPE = (L.RING_JOBS, L.N_RING)
_NOBODY = np.zeros(0, np.uint64)
_KEY_BYTES, _SLOT_BYTES = 8 * L.N_ENTITIES, 4 * L.N_KEYS


def job_key(job_id: str, submit: int) -> int:
    """The key of a job in flight within its cluster."""
    return _signed(text_hash(f"{job_id} {submit}"))


def _signed(key: int) -> int:
    """Stores keep signed integers."""
    return key - (1 << 64) if key >= 1 << 63 else key


def _meta(policy: Policy, facts: ClusterFacts, programs: int) -> bytes:
    """What saved state depends on: another layout, policy or reading of fields makes it worthless.

    So do program runs (their revision) that the state does not know: they may be of any job before it.
    """
    layout = (L.ENTITIES, L.STATE, L.CLUSTER, L.RING, L.RING_JOBS, L.FLIGHT, L.KEYS, L.WEIGHT, L.WEIGHT_SLOTS)
    digest = hashlib.sha256(repr((VERSION, layout)).encode()).hexdigest()[:16]
    read = json.dumps([facts.timezone, dict(facts.fields)], sort_keys=True)
    facts_digest = hashlib.sha256(read.encode()).hexdigest()[:16]
    meta: dict[str, str | int] = {"layout": digest, "policy": policy.name, "facts": facts_digest}
    return json.dumps(meta | ({"programs": programs} if programs else {})).encode()


def check_meta(store: Store, cluster: str, policy: Policy) -> None:
    """Raise a `StoreError` unless the saved state is of this layout and policy and the cluster's facts."""
    facts = store.clusters().get(cluster, ClusterFacts())
    programs = store.revision("program", cluster=cluster)
    if store.get_state(cluster, META, [0]).get(0) != _meta(policy, facts, programs):
        raise StoreError(
            f"no online state of cluster {cluster!r} for policy {policy.name!r} and this version: "
            "it has to be made from history"
        )


@dataclass(frozen=True, slots=True)
class Landed:
    """A job whose outcome became known recently: more of it may become known later."""

    known: int  # when
    number: int  # they are numbered in the order in which they were walked
    keys: Hashes  # of its entities
    result: Floats  # as far as it is known

    @property
    def counts(self) -> bool:
        """Whether the policy counts it, as a failure or not."""
        return not np.isnan(self.result[L.R_FAILS])

    def to_bytes(self) -> bytes:
        """For the store."""
        return struct.pack("<qq", self.known, self.number) + self.keys.tobytes() + self.result.tobytes()

    @classmethod
    def from_bytes(cls, value: bytes) -> Landed:
        """From the store."""
        known, number = struct.unpack_from("<qq", value)
        rest = 16 + _KEY_BYTES
        return cls(known, number, np.frombuffer(value[16:rest], np.uint64), np.frombuffer(value[rest:]))


@dataclass(frozen=True, slots=True)
class Mark:
    """How far the saved state has come."""

    revision: int  # of the store's jobs, all of which it knows
    at: int  # Unix seconds: what became known until then
    kept: int | None = None  # when a collector last saw to it; None where somebody made it for once


def read_mark(store: Store, cluster: str) -> Mark | None:
    """How far the saved state has come; None where there is none."""
    found = store.get_state(cluster, META, [_MARK]).get(_MARK)
    return Mark(**json.loads(found)) if found else None


def fitting_mark(store: Store, cluster: str, policy: Policy) -> Mark | None:
    """The same; None too where what is saved is of another layout or policy."""
    try:
        check_meta(store, cluster, policy)
    except StoreError:
        return None
    return read_mark(store, cluster)


def save_mark(writer: Writer, cluster: str, mark: Mark) -> None:
    """Say how far it has come, in the same write as the state itself."""
    writer.put_state(cluster, META, [(_MARK, json.dumps(asdict(mark)).encode())])


def save_changes(
    writer: Writer,
    cluster: str,
    policy: Policy,
    facts: ClusterFacts,
    programs: int,
    state: State,
    *,
    flying: Mapping[int, int],
    landed: Mapping[int, Landed],
    forgotten: Iterable[int],
    learned: Iterable[int],
) -> None:
    """Write what changed: entities by their mark, jobs in flight, jobs that landed, slots that learned.

    `forgotten` are those of the landed that are so old that nobody asks.
    """
    rows = np.flatnonzero(state.entity[: state.used[USED_ROWS], L.S_DIRTY])
    writer.put_state(cluster, ENTITY, _entities(state, rows))
    writer.put_state(cluster, RING, _rings(state, rows))
    writer.put_state(cluster, WEIGHT, ((slot, state.weight[slot].tobytes()) for slot in learned))
    writer.put_state(cluster, FLIGHT, ((key, _flight(state, place)) for key, place in flying.items()))
    writer.drop_state(cluster, FLIGHT, landed)
    writer.put_state(cluster, LANDED, ((key, job.to_bytes()) for key, job in landed.items()))
    writer.drop_state(cluster, LANDED, forgotten)
    writer.put_state(cluster, CLUSTER, [(0, state.cluster.tobytes())])
    writer.put_state(cluster, META, [(0, _meta(policy, facts, programs))])
    state.entity[rows, L.S_DIRTY] = 0.0


def clear(writer: Writer, cluster: str) -> None:
    """Forget all online state of a cluster."""
    for space in _SPACES:
        writer.drop_state(cluster, space)


def _entities(state: State, rows: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    for row in rows:
        values = state.entity[row].copy()
        values[[L.S_RING, L.S_DIRTY]] = 0.0  # where its ring lies is this process's business
        yield _signed(int(state.key[row])), values.tobytes()


def _rings(state: State, rows: NDArray[np.int64]) -> Iterator[tuple[int, bytes]]:
    for row in rows[state.entity[rows, L.S_RING] > 0]:
        ring = int(state.entity[row, L.S_RING]) - 1
        yield _signed(int(state.key[row])), state.ring[ring].tobytes()


def _flight(state: State, place: int) -> bytes:
    parts = state.flight_key[place], state.flight_slot[place], state.flight[place]
    return b"".join(part.tobytes() for part in parts)


def load_all(store: Store, cluster: str) -> tuple[State, dict[int, int]]:
    """The whole state of a cluster, and where each job in flight lies."""
    entities, rings = dict(store.all_state(cluster, ENTITY)), dict(store.all_state(cluster, RING))
    flights = dict(store.all_state(cluster, FLIGHT))
    state = with_room(new_state(), rows=len(entities), rings=len(rings), flights=len(flights))
    _put_entities(state, entities, rings)
    for slot, values in store.all_state(cluster, WEIGHT):
        state.weight[slot] = np.frombuffer(values)
    state.cluster[:] = cluster_state(store, cluster)
    places: dict[int, int] = {}
    for key, values in flights.items():
        state.used[FREE_FLIGHTS] -= 1
        place = int(state.flight_free[state.used[FREE_FLIGHTS]])
        places[key] = place
        _put_flight(state, place, values)
        rows_of(state, state.flight_key[place], state.flight_row[place])
    return state, places


def load_landed(store: Store, cluster: str) -> dict[int, Landed]:
    """The jobs that landed recently, in that order."""
    found = [(key, Landed.from_bytes(value)) for key, value in store.all_state(cluster, LANDED)]
    return dict(sorted(found, key=lambda pair: pair[1].number))


def load_entities(
    store: Store, cluster: str, keys: Hashes, nodes: Hashes, flight: bytes | None, weight: Floats
) -> State:
    """A state that holds some entities, the user's ring, some nodes, and one job in flight, at place 0.

    `weight` is a table to put weights into: to make one, most of it never touched, costs more than all else.
    """
    # What a job in flight asked for at its submit may have changed since, and its entities with it.
    then = np.frombuffer(flight[:_KEY_BYTES], np.uint64) if flight else _NOBODY
    wanted = list({_signed(int(key)) for key in (*keys, *nodes, *then) if key})
    entities = store.get_state(cluster, ENTITY, wanted)
    rings = store.get_state(cluster, RING, [_signed(int(keys[L.E_USER]))])
    state = with_room(new_state(weight), rows=len(wanted) + L.N_ENTITIES, rings=1, flights=1)
    _put_entities(state, entities, rings)
    state.cluster[:] = cluster_state(store, cluster)
    if flight is not None:
        state.used[FREE_FLIGHTS] = 0
        _put_flight(state, 0, flight)
    return state


def load_weights(store: Store, cluster: str, state: State, keys: Hashes, numbers: Floats, at: int) -> None:
    """Put the regression's weights into a state that one job's features at a moment need.

    Its table may hold what another job needed: of this one's slots, those that nobody learned are cleared.
    """
    rows, slots = np.zeros(L.N_ENTITIES, np.int64), np.zeros(L.N_KEYS, np.int32)
    rows_of(state, keys, rows)
    regression_slots(state, float(at), numbers, keys, rows, slots)
    wanted = {
        int(slot) for slot in (*slots, *state.flight_slot[0])
    }  # at a start some are those of the submit
    state.weight[sorted(wanted)] = 0.0
    for slot, values in store.get_state(cluster, WEIGHT, sorted(wanted)).items():
        state.weight[slot] = np.frombuffer(values)


def flight_of(store: Store, cluster: str, job_id: str, submit: int) -> bytes | None:
    """A job in flight as it was saved."""
    key = job_key(job_id, submit)
    return store.get_state(cluster, FLIGHT, [key]).get(key)


def _put_entities(state: State, entities: Mapping[int, bytes], rings: Mapping[int, bytes]) -> None:
    for key, values in entities.items():
        row = row_of(state, np.uint64(key % (1 << 64)))
        state.entity[row] = np.frombuffer(values)
        if key in rings:
            state.ring[state.used[USED_RINGS]] = np.frombuffer(rings[key]).reshape(_RING_SHAPE)
            state.used[USED_RINGS] += 1
            state.entity[row, L.S_RING] = state.used[USED_RINGS]


def _put_flight(state: State, place: int, values: bytes) -> None:
    rest = _KEY_BYTES + _SLOT_BYTES
    state.flight_key[place] = np.frombuffer(values[:_KEY_BYTES], np.uint64)
    state.flight_slot[place] = np.frombuffer(values[_KEY_BYTES:rest], np.int32)
    state.flight[place] = np.frombuffer(values[rest:])


def cluster_state(store: Store, cluster: str) -> Floats:
    """The cluster's own row; all 0 where none was saved."""
    found = store.get_state(cluster, CLUSTER, [0]).get(0)
    return np.frombuffer(found) if found else np.zeros(len(L.CLUSTER))
