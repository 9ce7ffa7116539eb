"""Requests to slurmrestd, with all that surrounds them: version, token, retries, refusals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from forewarn.errors import (
    ControllerDownError,
    DatabaseDownError,
    MalformedAnswerError,
    NoAccountingError,
    SchedulerError,
    TokenError,
    VersionGoneError,
)
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurmrestd.refusals import only_errors, refusal
from forewarn.sources.slurmrestd.tokens import Token, Tokens
from forewarn.sources.slurmrestd.transport import Answer, Transport
from forewarn.sources.slurmrestd.versions import ServedVersions

QueryParameters = Mapping[str, str | int | Sequence[str]]
_AREAS = ("slurm", "slurmdb")  # the controller's API, and the database's
_DISCOVERY = "/openapi/v3"
SHOW_SCRIPTS = "show_batch_script"  # a flag of accounting since v0.0.40
_SMALL = 1 << 16  # bytes: an answer with errors and nothing else is not larger


class RestSession:
    """A session with slurmrestd: the best version that it serves, a valid token, and retries."""

    def __init__(
        self,
        transport: Transport,
        tokens: Tokens | None,
        *,
        user: str | None = None,
        clock: Clock | None = None,
        retry: RetryPolicy | None = None,
        first_without: bool = False,
    ) -> None:
        """Prepare a session; with `first_without`, no token is sent until one is required: see `connect`."""
        self.transport = transport
        self.tokens = tokens
        self.needs_token = not first_without
        self._accepted_without_token = False  # without a token
        self.clock = clock or Clock()
        self._user = user
        # One for each area: while slurmdbd is down, the controller is asked as usual.
        self._retry = {area: replace(retry or RetryPolicy(clock=self.clock)) for area in _AREAS}
        self._served: ServedVersions | None = None
        self._sent: Token | None = None  # the last token: a refusal is explained by it

    @property
    def served(self) -> ServedVersions:
        """The versions that the server serves; requested once, and again when a version is gone."""
        return self._served or self._retry["slurm"].attempt(self._discover)

    @property
    def version(self) -> str:
        """The version in use."""
        return self.served.best(str(self.transport.address))

    def _discover(self) -> ServedVersions:
        if self._served is None:
            with self._ask_with_token("GET", _DISCOVERY) as answer:
                self._served = ServedVersions.read(answer.json())
        return self._served

    @contextmanager
    def get(
        self,
        area: str,
        path: str,
        query: QueryParameters | None = None,
        *,
        once: tuple[type[SchedulerError], ...] = (),
    ) -> Iterator[Answer]:
        """Request `/area/vX/path` and yield the answer; errors of the types `once` are not retried."""
        with self._retry[area].attempt(
            lambda: self._ask_best_version("GET", area, path, query, None), once=once
        ) as answer:
            yield answer

    def get_json(self, area: str, path: str, query: QueryParameters | None = None) -> Any:
        """Return a small answer as Python objects; raise an error listed in it."""
        with self.get(area, path, query) as answer:
            return self._json_or_raise(answer, path)

    def change(
        self, method: str, path: str, content: Any = None, *, once: tuple[type[SchedulerError], ...] = ()
    ) -> Any:
        """Send a request that changes something to the controller, and return its answer."""
        with self._retry["slurm"].attempt(
            lambda: self._ask_best_version(method, "slurm", path, None, content), once=once
        ) as answer:
            return self._json_or_raise(answer, path)

    def _json_or_raise(self, answer: Answer, path: str) -> Any:
        reply = answer.json()
        self._raise_refusal(answer, reply, path)
        return reply

    def _ask_best_version(
        self, method: str, area: str, path: str, query: QueryParameters | None, content: Any
    ) -> Answer:
        """Ask in the best version; where that is gone, in the best one now served, then in the next best."""
        rediscovered = False
        while True:
            served = self._discover()
            if not served.versions:
                self._served = None  # may have changed next time
            version = served.best(str(self.transport.address))
            if area == "slurmdb" and not served.has_accounting:
                self._served = None  # may have changed next time
                raise NoAccountingError(
                    f"{self.transport.address}: serves no accounting: this Slurm has no slurmdbd "
                    "(AccountingStorageType), or slurmrestd runs without its plugin (`slurmrestd -s list`)"
                )
            try:
                return self._ask_with_token(method, f"/{area}/{version}/{path}", query, content)
            except VersionGoneError:
                if rediscovered:
                    self._served = served.without(version)
                else:
                    self._served, rediscovered = None, True

    def _ask_with_token(
        self, method: str, path: str, query: QueryParameters | None = None, content: Any = None
    ) -> Answer:
        """Ask with the current token, and once more with a new one where Slurm refuses it."""
        renewed = False
        while True:
            self._sent = token = self.tokens.current() if self.tokens and self.needs_token else None
            answer = self.transport.ask(
                method, path, query=query, headers=self._headers(token), content=content
            )
            try:
                reply = answer.json() if answer.status >= 400 or answer.size <= _SMALL else None
                if answer.status >= 400 or only_errors(reply):
                    self._raise_refusal(answer, reply, path)
                self._check_is_from_slurm(answer, reply, path)
                self._accepted_without_token |= token is None and path != _DISCOVERY
                return answer
            except SchedulerError as error:
                answer.body.close()
                if self._starts_to_need_token(error):
                    continue
                if not isinstance(error, TokenError) or renewed or not self.tokens or not self.tokens.renew():
                    raise
                renewed = True

    def _check_is_from_slurm(self, answer: Answer, reply: Any, path: str) -> None:
        """Raise for an answer that is not Slurm's, as far as its beginning shows; the rest is checked later.

        A proxy before slurmrestd, or a slurmrestd that is restarting, answers with a page, or with nothing.
        """
        first = answer.body.read(64).lstrip()[:1]
        answer.body.seek(0)
        if first != b"{" or (answer.size <= _SMALL and not isinstance(reply, dict)):
            problem = "empty" if not answer.size else "cut short" if first == b"{" else "not Slurm's"
            raise MalformedAnswerError(
                f"{self.transport.address} {path}: the answer is {problem} ({answer.size:,} bytes): does "
                "slurmrestd answer there, or a proxy before it?"
            )

    def _starts_to_need_token(self, error: SchedulerError) -> bool:
        """Check whether a token is to be sent from now on, and start to send it.

        Up to 22.05 and since 26.05 some answers to requests without a token look as if a daemon were down.
        """
        hidden = (
            isinstance(error, ControllerDownError | DatabaseDownError) and not self._accepted_without_token
        )
        if self.needs_token or self.tokens is None or not (hidden or isinstance(error, TokenError)):
            return False
        try:
            self.tokens.current()
        except TokenError:
            return False
        self.needs_token = True
        return True

    def _raise_refusal(self, answer: Answer, reply: Any, path: str) -> None:
        place = f"{self.transport.address} {path}"
        error = refusal(answer.status, reply, place, token=self._sent, user=self._user, at=self.clock.now())
        if error is not None:
            raise error

    def _headers(self, token: Token | None) -> dict[str, str]:
        if token is None:
            return {}
        user = self._user or token.user
        return {"X-SLURM-USER-TOKEN": token.text} | ({"X-SLURM-USER-NAME": user} if user else {})
