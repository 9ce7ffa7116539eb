"""The online state in the store: one small row per entity, weight and live job, one per cluster."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.errors import StoreError
from forewarn.features.kernel import layout as L  # noqa: N812
from forewarn.features.kernel.state import (
    FREE_FLIGHTS,
    USED_RINGS,
    USED_ROWS,
    Floats,
    Hashes,
    State,
    index_rows,
    new_state,
    with_room,
)
from forewarn.features.keys import text_hash
from forewarn.job.outcomes import FailurePolicy
from forewarn.store.base import ClusterFacts, Store, StoreWriter

VERSION = 3  # of what the kernel computes: 3 since means fade with every job that ended
ENTITY, RING, WEIGHT, FLIGHT, LANDED = "entity", "ring", "weight", "flight", "recent"
CLUSTER, META = "cluster", "meta"
_SPACES = (ENTITY, RING, WEIGHT, FLIGHT, LANDED, CLUSTER, META)
_MARK = 1  # beside META's row 0, which says what the state depends on
_RING_SHAPE = (L.RING_JOBS, L.N_RING)
_KEY_BYTES, _SLOT_BYTES = 8 * L.N_ENTITIES, 4 * L.N_KEYS


def job_key(job_id: str, submit: int) -> int:
    """Return the key of a live job within its cluster."""
    return _signed(text_hash(f"{job_id} {submit}"))


def _signed(key: int) -> int:
    """Convert a key to a signed integer, as stores keep them."""
    return key - (1 << 64) if key >= 1 << 63 else key


def _meta(policy: FailurePolicy, facts: ClusterFacts, programs: int) -> bytes:
    """Describe what saved state depends on: another layout, policy or field treatment makes it invalid.

    So do program runs (their revision) that the state does not know: they may be of any job before it.
    """
    layout = (L.ENTITIES, L.STATE, L.CLUSTER, L.RING, L.RING_JOBS, L.FLIGHT, L.KEYS, L.WEIGHT, L.WEIGHT_SLOTS)
    digest = hashlib.sha256(repr((VERSION, layout)).encode()).hexdigest()[:16]
    read = json.dumps([facts.timezone, dict(facts.fields)], sort_keys=True)
    facts_digest = hashlib.sha256(read.encode()).hexdigest()[:16]
    meta: dict[str, str | int] = {"layout": digest, "policy": policy.name, "facts": facts_digest}
    return json.dumps(meta | ({"programs": programs} if programs else {})).encode()


def check_meta(store: Store, cluster: str, policy: FailurePolicy) -> None:
    """Raise `StoreError` unless the saved state has this layout, policy and the cluster's facts."""
    facts = store.clusters().get(cluster, ClusterFacts())
    programs = store.revision("program", cluster=cluster)
    if store.get_state(cluster, META, [0]).get(0) != _meta(policy, facts, programs):
        raise StoreError(
            f"no online state of cluster {cluster!r} for policy {policy.name!r} and this version: "
            "rebuild it from history"
        )


@dataclass(frozen=True, slots=True)
class RecentOutcome:
    """A job whose outcome became known recently: more of it may become known later."""

    known: int  # when
    number: int  # they are numbered in the order in which they were walked
    keys: Hashes  # of its entities
    result: Floats  # as far as it is known

    @property
    def counts(self) -> bool:
        """Whether the policy counts the job, as a failure or not."""
        return not np.isnan(self.result[L.R_FAILS])

    def to_bytes(self) -> bytes:
        """Encode it for the store."""
        return struct.pack("<qq", self.known, self.number) + self.keys.tobytes() + self.result.tobytes()

    @classmethod
    def from_bytes(cls, value: bytes) -> RecentOutcome:
        """Decode it from the store."""
        known, number = struct.unpack_from("<qq", value)
        rest = 16 + _KEY_BYTES
        return cls(known, number, np.frombuffer(value[16:rest], np.uint64), np.frombuffer(value[rest:]))


@dataclass(frozen=True, slots=True)
class StatePosition:
    """How far the saved state has come."""

    revision: int  # of the store's jobs, all of which it knows
    at: int  # Unix seconds: what became known until then
    kept: int | None = None  # when a collector last updated it; None if a command built it once


def read_position(store: Store, cluster: str) -> StatePosition | None:
    """Read how far the saved state has come; None if there is none."""
    found = store.get_state(cluster, META, [_MARK]).get(_MARK)
    return StatePosition(**json.loads(found)) if found else None


def valid_position(store: Store, cluster: str, policy: FailurePolicy) -> StatePosition | None:
    """Read how far the saved state has come; None if it has another layout or policy."""
    try:
        check_meta(store, cluster, policy)
    except StoreError:
        return None
    return read_position(store, cluster)


def save_position(writer: StoreWriter, cluster: str, mark: StatePosition) -> None:
    """Save how far the state has come, in the same write as the state itself."""
    writer.put_state(cluster, META, [(_MARK, json.dumps(asdict(mark)).encode())])


def save_changes(
    writer: StoreWriter,
    cluster: str,
    policy: FailurePolicy,
    facts: ClusterFacts,
    programs: int,
    state: State,
    *,
    live_among: Mapping[int, int],
    recent: Mapping[int, RecentOutcome],
    forgotten: Iterable[int],
    learned: Iterable[int],
) -> None:
    """Save what changed: entities by their mark, live jobs, recent outcomes, learned slots.

    `forgotten` are those of the recent that are so old that nobody asks.
    """
    rows = np.flatnonzero(state.entity[: state.used[USED_ROWS], L.S_DIRTY])
    writer.put_state(cluster, ENTITY, _entities(state, rows))
    writer.put_state(cluster, RING, _rings(state, rows))
    writer.put_state(cluster, WEIGHT, ((slot, state.weight[slot].tobytes()) for slot in learned))
    writer.put_state(cluster, FLIGHT, ((key, _flight(state, place)) for key, place in live_among.items()))
    writer.drop_state(cluster, FLIGHT, recent)
    writer.put_state(cluster, LANDED, ((key, job.to_bytes()) for key, job in recent.items()))
    writer.drop_state(cluster, LANDED, forgotten)
    writer.put_state(cluster, CLUSTER, [(0, state.cluster.tobytes())])
    writer.put_state(cluster, META, [(0, _meta(policy, facts, programs))])
    state.entity[rows, L.S_DIRTY] = 0.0


def clear(writer: StoreWriter, cluster: str) -> None:
    """Delete all online state of a cluster."""
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
    """Load the whole state of a cluster, and the place of each live job."""
    entities, rings = dict(store.all_state(cluster, ENTITY)), dict(store.all_state(cluster, RING))
    state, places = _filled(entities, rings, dict(store.all_state(cluster, FLIGHT)))
    slots, weights = _columns(dict(store.all_state(cluster, WEIGHT)), len(L.WEIGHT))
    state.weight[slots] = weights
    state.cluster[:] = cluster_state(store, cluster)
    return state, places


def load_recent_outcomes(store: Store, cluster: str) -> dict[int, RecentOutcome]:
    """Load the recent outcomes, in order."""
    found = [(key, RecentOutcome.from_bytes(value)) for key, value in store.all_state(cluster, LANDED)]
    return dict(sorted(found, key=lambda pair: pair[1].number))


def load_some(
    store: Store, cluster: str, keys: Hashes, nodes: Hashes, jobs: Sequence[int], weight: Floats
) -> tuple[State, dict[int, int]]:
    """Load what some jobs need: their entities (jobs × `keys`), users' rings, nodes, and the live ones
    among the jobs, with their places.

    `weight` is a table to put weights into: to make one, most of it never touched, costs more than all else.
    """
    flights = store.get_state(cluster, FLIGHT, jobs)
    # What a job in flight asked for at its submit may have changed since, and its entities with it.
    then = [np.frombuffer(flight[:_KEY_BYTES], np.uint64) for flight in flights.values()]
    wanted = {_signed(int(key)) for part in (keys.ravel(), nodes, *then) for key in part if key}
    users = {_signed(int(key)) for key in keys[:, L.E_USER] if key}
    entities = store.get_state(cluster, ENTITY, list(wanted))
    state, places = _filled(entities, store.get_state(cluster, RING, list(users)), flights, weight)
    state.cluster[:] = cluster_state(store, cluster)
    return state, places


def load_weights(store: Store, cluster: str, state: State, slots: NDArray[np.int32]) -> None:
    """Load the regression's weights at some slots into a state; clear those that nobody learned."""
    wanted = np.unique(slots).tolist()
    state.weight[wanted] = 0.0
    for slot, values in store.get_state(cluster, WEIGHT, wanted).items():
        state.weight[slot] = np.frombuffer(values)


def live_among(store: Store, cluster: str, jobs: Iterable[int]) -> set[int]:
    """Return those of some jobs, by their keys, that are live."""
    return set(store.get_state(cluster, FLIGHT, list(jobs)))


def _filled(
    entities: Mapping[int, bytes],
    rings: Mapping[int, bytes],
    flights: Mapping[int, bytes],
    weight: Floats | None = None,
) -> tuple[State, dict[int, int]]:
    """Build a state from saved rows, with the place of each live job."""
    keys, rows = _columns(entities, L.N_STATE)
    first, last = 1, 1 + len(keys)  # row 0 is nobody's
    state = with_room(new_state(weight), rows=len(keys), rings=len(rings), flights=len(flights))
    state.entity[first:last] = rows
    state.key[first:last] = keys.view(np.uint64)
    state.used[USED_ROWS] = last
    index_rows(state)
    row_of_key = dict(zip(keys.tolist(), range(first, last), strict=True))
    for number, (key, ring) in enumerate(rings.items(), 1):
        if key in row_of_key:
            state.ring[number - 1] = np.frombuffer(ring).reshape(_RING_SHAPE)
            state.entity[row_of_key[key], L.S_RING] = number
    state.used[USED_RINGS] = len(rings)
    places: dict[int, int] = {}
    for key, values in flights.items():
        state.used[FREE_FLIGHTS] -= 1
        place = places[key] = int(state.flight_free[state.used[FREE_FLIGHTS]])
        _put_flight(state, place, values)
        state.flight_row[place] = [
            row_of_key.get(_signed(int(entity)), 0) for entity in state.flight_key[place]
        ]
    return state, places


def _columns(saved: Mapping[int, bytes], width: int) -> tuple[NDArray[np.int64], Floats]:
    """Decode keys, and rows of so many numbers."""
    keys = np.fromiter(saved.keys(), np.int64, len(saved))
    return keys, np.frombuffer(b"".join(saved.values())).reshape(len(saved), width)


def _put_flight(state: State, place: int, values: bytes) -> None:
    rest = _KEY_BYTES + _SLOT_BYTES
    state.flight_key[place] = np.frombuffer(values[:_KEY_BYTES], np.uint64)
    state.flight_slot[place] = np.frombuffer(values[_KEY_BYTES:rest], np.int32)
    state.flight[place] = np.frombuffer(values[rest:])


def cluster_state(store: Store, cluster: str) -> Floats:
    """Read the cluster's own row; all 0 if none was saved."""
    found = store.get_state(cluster, CLUSTER, [0]).get(0)
    return np.frombuffer(found) if found else np.zeros(len(L.CLUSTER))
