"""The thread that keeps a service up to date: it collects from Slurm, or follows a collector beside it.

Requests never wait for it: the engines' answers come from memory, which only this thread changes.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing, suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from time import monotonic, time

from forewarn.errors import (
    CollectedElsewhereError,
    ForewarnError,
    SchedulerError,
    StoreBusyError,
    UsageError,
)
from forewarn.formatting import count
from forewarn.operate.collect import collecting
from forewarn.operate.collector import Collector
from forewarn.operate.collector_round import CollectorRound, PublishRound
from forewarn.operate.engine import Engine
from forewarn.operate.live_assessment import LiveAssessment
from forewarn.operate.workspace import Workspace
from forewarn.progress import Note, log_note
from forewarn.sources.slurm.connect import choose_scheduler, connect
from forewarn.sources.slurm.retry import PAUSED, RetryPolicy

FOLLOW_EVERY = 1.0  # seconds between looks at the store, where another process writes to it
_TRIES = 2  # of a request within a round: what is wrong should be known soon, and another round follows
RETRY_EVERY = 30.0  # seconds until the scheduler is tried again after an error that ended the collector
_FOLLOWS = "following what other processes write to the store"
_NO_SLURM = (
    "no Slurm is configured: set slurmrestd, or FOREWARN_SCHEDULER=simulator; serving what the store has"
)


@dataclass(slots=True)
class UpdateStatus:
    """What the thread did last, for health checks and metrics."""

    mode: str = "starting"  # collecting, following, stopped
    started_at: float = field(default_factory=time)
    rounds: int = 0
    last_round_at: float | None = None
    last_success_at: float | None = None
    lag: int | None = None  # seconds of history not read yet
    is_reading_history: bool = False  # for the first time
    troubles: dict[str, str] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)  # how often each part failed


class Updates:
    """A thread that updates a workspace's engines, from Slurm or from what another process writes."""

    def __init__(
        self,
        workspace: Workspace,
        publish: PublishRound,
        note: Note = log_note,
    ) -> None:
        """Prepare the thread; `note` receives what its owner should know, once each."""
        self.status = UpdateStatus()
        self._workspace, self._publish, self._note = workspace, publish, note
        self.clusters: tuple[str, ...] = ()  # that the store knows
        self._mode_text = ""  # what was said about the mode
        self._jobs_read = 0  # until the history is read
        self._stopped = Event()
        self._collector: Collector | None = None
        self._thread = Thread(target=self._run, name="updates", daemon=True)

    @property
    def has_died(self) -> bool:
        """Whether the thread has ended though nobody stopped it."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._stopped.is_set()

    def check_configuration(self) -> None:
        """Raise `UsageError` where the configuration is wrong, which waiting does not change."""
        self._workspace.now()  # reads a simulated cluster's clock
        if self._collects():
            with suppress(SchedulerError), closing(connect(self._workspace.config)):
                pass

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after what it is doing."""
        self._stopped.set()
        if collector := self._collector:
            collector.stop()
        if self._thread.is_alive():
            self._thread.join()
        self.status.mode = "stopped"

    def hurry(self) -> bool:
        """Look for new jobs soon; return False where this process does not collect."""
        if collector := self._collector:
            collector.hurry()
            return True
        return False

    def look_at_clusters(self) -> None:
        """Read which clusters the store knows."""
        self.clusters = tuple(self._workspace.reading().clusters())

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                if self._collects():
                    self._collect()
                else:
                    never = self._workspace.config.serve.collect == "never"
                    self._follow(until=float("inf"), text=_FOLLOWS if never else _NO_SLURM)
            except Exception as error:  # this thread must outlive a broken store, a full disk, a wrong record
                self._note_trouble("updates", error)
                self._follow(until=monotonic() + RETRY_EVERY, is_enough=False)

    def _collects(self) -> bool:
        config = self._workspace.config
        if config.serve.collect == "never":
            return False
        if config.scheduler != "auto":
            return True
        try:
            choose_scheduler(config)
        except UsageError:
            return False
        return True

    def _collect(self) -> None:
        """Collect until the service stops; follow for a while where that is not possible now."""
        workspace = self._workspace
        try:
            with collecting(
                workspace.config,
                store=workspace.writing(),
                engine_of=self._engine_to_collect,
                publish=self._publish,
                retry=RetryPolicy(tries=_TRIES),
            ) as collector:
                self._collector = collector
                self.status.troubles.clear()
                for this_round in collector.forever(workspace.config.serve.interval):
                    self._note_round(this_round)
        except CollectedElsewhereError as error:
            workspace.slurm_trouble = None
            self.status.troubles.clear()
            text = f"another process collects {error.cluster}; this one follows it"
            self._follow(until=monotonic() + RETRY_EVERY, text=text)
        except (StoreBusyError, SchedulerError) as error:
            # Slurm is away since the start: serve what the store has.
            self._note_trouble("collector", error)
            workspace.slurm_trouble = str(error) if isinstance(error, SchedulerError) else None
            self._follow(until=monotonic() + RETRY_EVERY, is_enough=False)
        finally:
            self._collector = None
            self.status.is_reading_history = False

    def _engine_to_collect(self, cluster: str) -> Engine:
        self._set_mode("collecting", f"collecting from {cluster}")
        if cluster not in self._workspace.reading().clusters():
            self.status.is_reading_history = True
            self._say(f"reading the history of {cluster} …")
        return self._own_engine(cluster)

    def _own_engine(self, cluster: str) -> Engine:
        engine = self._workspace.engine(cluster, follow=False)
        engine.has_follower = True
        return engine

    def _follow(self, until: float, *, text: str = _FOLLOWS, is_enough: bool = True) -> None:
        """Update the engines from the store, and publish what other processes assessed.

        Where this process should collect and cannot, that is not enough to be up to date.
        """
        self._set_mode("following", text)
        while not self._stopped.wait(FOLLOW_EVERY) and monotonic() < until:
            try:
                store = self._workspace.reading()
                self.look_at_clusters()
                for cluster in self.clusters:
                    engine = self._own_engine(cluster)
                    changes = LiveAssessment(store, engine).job_changes(engine.follow())
                    self._publish(store, changes)
                if is_enough:
                    self.status.last_success_at = time()
                self.status.troubles.pop("store", None)
            except Exception as error:
                self._note_trouble("store", error)

    def _note_round(self, this_round: CollectorRound) -> None:
        status = self.status
        status.rounds += 1
        status.last_round_at, status.lag = time(), this_round.lag
        before, status.troubles = status.troubles, dict(this_round.troubles)
        status.errors.update(this_round.troubles.keys())
        self._workspace.slurm_trouble = this_round.slurm_trouble
        with suppress(ForewarnError):  # what was read last stays
            self.look_at_clusters()
        if not this_round.troubles:
            status.last_success_at = time()
        for name, trouble in this_round.troubles.items():
            # Once, not every round; a pause counts down.
            if before.get(name) != trouble and not (name in before and trouble.startswith(PAUSED)):
                self._say(f"warning: {name}: {trouble}")
        for name in before.keys() - this_round.troubles.keys():
            self._say(f"{name}: works again")
        status.is_reading_history &= this_round.behind or bool(this_round.troubles)
        self._note_history(this_round)

    def _note_history(self, this_round: CollectorRound) -> None:
        """Say once that the history is read."""
        if self._jobs_read < 0 or this_round.troubles:
            return
        self._jobs_read += this_round.new_jobs
        if not this_round.behind:
            jobs = count(self._jobs_read, "new job")
            self._say(f"up to date: {jobs} read, {count(this_round.assessed, 'live job')} assessed")
            self._jobs_read = -1

    def _set_mode(self, mode: str, text: str) -> None:
        self.status.mode = mode
        if self._mode_text != text:
            self._mode_text = text
            self._say(text)

    def _say(self, text: str) -> None:
        with suppress(Exception):  # a closed stderr must not end this thread
            self._note(text)

    def _note_trouble(self, name: str, error: Exception) -> None:
        message = str(error) if isinstance(error, ForewarnError) else f"{type(error).__name__}: {error}"
        if self.status.troubles.get(name) != message:  # once, not every second
            self._say(f"warning: {name}: {message}")
        self.status.troubles[name] = message
        self.status.errors[name] += 1
