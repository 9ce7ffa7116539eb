"""A question to slurmrestd, with everything around it: version, token, tries, refusals."""

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

Query = Mapping[str, str | int | Sequence[str]]
_AREAS = ("slurm", "slurmdb")  # what the controller answers, and what the database does
_DISCOVERY = "/openapi/v3"
SHOW_SCRIPTS = "show_batch_script"  # a flag of accounting since v0.0.40
_SMALL = 1 << 16  # bytes: an answer with errors and nothing else is not larger


class RestSession:
    """Asks in the best version that is served, with a token that is valid, as often as is decent."""

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
        """With `first_without` the token waits until one is wanted: see `connect`."""
        self.transport = transport
        self.tokens = tokens
        self.needs_token = not first_without
        self._let_in = False  # without one
        self.clock = clock or Clock()
        self._user = user
        # Each area its own: while slurmdbd is away, the controller is asked as ever.
        self._retry = {area: replace(retry or RetryPolicy(clock=self.clock)) for area in _AREAS}
        self._served: ServedVersions | None = None
        self._sent: Token | None = None  # the last token: a refusal is explained by it

    @property
    def served(self) -> ServedVersions:
        """What the server serves; asked for once, and again when a version turns out to be gone."""
        return self._served or self._retry["slurm"].attempt(self._discover)

    @property
    def version(self) -> str:
        """The version that is spoken."""
        return self.served.best(str(self.transport.address))

    def _discover(self) -> ServedVersions:
        if self._served is None:
            with self._ask_with_token("GET", _DISCOVERY) as answer:
                self._served = ServedVersions.read(answer.json())
        return self._served

    @contextmanager
    def get(
        self, area: str, path: str, query: Query | None = None, *, once: tuple[type[SchedulerError], ...] = ()
    ) -> Iterator[Answer]:
        """The answer to `/area/vX/path`; trouble of the kinds `once` is not tried again."""
        with self._retry[area].attempt(
            lambda: self._ask_best_version("GET", area, path, query, None), once=once
        ) as answer:
            yield answer

    def get_json(self, area: str, path: str, query: Query | None = None) -> Any:
        """The same of a small answer, as Python's objects; an error listed in it is raised."""
        with self.get(area, path, query) as answer:
            return self._json_or_raise(answer, path)

    def change(
        self, method: str, path: str, content: Any = None, *, once: tuple[type[SchedulerError], ...] = ()
    ) -> Any:
        """The answer of the controller to a request that changes something."""
        with self._retry["slurm"].attempt(
            lambda: self._ask_best_version(method, "slurm", path, None, content), once=once
        ) as answer:
            return self._json_or_raise(answer, path)

    def _json_or_raise(self, answer: Answer, path: str) -> Any:
        reply = answer.json()
        self._raise_refusal(answer, reply, path)
        return reply

    def _ask_best_version(self, method: str, area: str, path: str, query: Query | None, content: Any) -> Answer:
        """Asked in the best version; where that is gone, in what is served now, then in the next best."""
        rediscovered = False
        while True:
            served = self._discover()
            if not served.versions:
                self._served = None  # may be otherwise next time
            version = served.best(str(self.transport.address))
            if area == "slurmdb" and not served.has_accounting:
                self._served = None  # may be otherwise next time
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

    def _ask_with_token(self, method: str, path: str, query: Query | None = None, content: Any = None) -> Answer:
        """Asked with the token of now, and once more with a new one where Slurm refuses that."""
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
                self._check_is_slurms(answer, reply, path)
                self._let_in |= token is None and path != _DISCOVERY
                return answer
            except SchedulerError as error:
                answer.body.close()
                if self._wants_token(error):
                    continue
                if not isinstance(error, TokenError) or renewed or not self.tokens or not self.tokens.renew():
                    raise
                renewed = True

    def _check_is_slurms(self, answer: Answer, reply: Any, path: str) -> None:
        """Refuse what is not one of Slurm's, as far as a glance tells: a large one shows when it is read.

        A proxy before slurmrestd, or a slurmrestd that is restarting, answers with a page, or with nothing.
        """
        first = answer.body.read(64).lstrip()[:1]
        answer.body.seek(0)
        if first != b"{" or (answer.size <= _SMALL and not isinstance(reply, dict)):
            is_what = "empty" if not answer.size else "cut short" if first == b"{" else "not Slurm's"
            raise MalformedAnswerError(
                f"{self.transport.address} {path}: the answer is {is_what} ({answer.size:,} bytes): does "
                "slurmrestd answer there, or a proxy before it?"
            )

    def _wants_token(self, error: SchedulerError) -> bool:
        """Whether one is to be sent from now on, and can be.

        Up to 22.05 and since 26.05 some answers to whoever has none are as if a daemon were down.
        """
        hidden = isinstance(error, ControllerDownError | DatabaseDownError) and not self._let_in
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
        error = refusal(answer.status, reply, place, token=self._sent, user=self._user, now=self.clock.now())
        if error is not None:
            raise error

    def _headers(self, token: Token | None) -> dict[str, str]:
        if token is None:
            return {}
        user = self._user or token.user
        return {"X-SLURM-USER-TOKEN": token.text} | ({"X-SLURM-USER-NAME": user} if user else {})
