"""`Access`: who is calling, by any of the configured methods.

Of several proofs in one request the first of these counts, and it must be valid: a bearer token, a session, a
Slurm token, a trusted proxy's header, the user of a unix socket. A Slurm token beside another proof is for
acting on Slurm, and must be the same user's. Without any configured method, everyone on this machine is
trusted.
"""

from __future__ import annotations

import logging
import os
import pwd
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any

from forewarn.config import Config
from forewarn.errors import ForbiddenError, RateLimitError, UnauthenticatedError, UsageError
from forewarn.operate.access.audit import write_audit_line
from forewarn.operate.access.binding import is_loopback
from forewarn.operate.access.credentials import Credentials, Proof
from forewarn.operate.access.identity import Identity, Role
from forewarn.operate.access.oidc import OidcProvider
from forewarn.operate.access.proof_cache import ProofCache
from forewarn.operate.access.rate_limit import RateLimiter
from forewarn.operate.access.roles import Roles
from forewarn.operate.access.service_tokens import PREFIX, ServiceTokens
from forewarn.operate.access.sessions import METHOD as SESSION
from forewarn.operate.access.sessions import Session, Sessions
from forewarn.operate.access.slurm_tokens import METHOD as SLURM
from forewarn.operate.access.slurm_tokens import SlurmTokens
from forewarn.operate.access.trusted_proxy import METHOD as PROXY
from forewarn.operate.access.trusted_proxy import TrustedProxy, trusted_network
from forewarn.operate.access.ways import accepted_tokens, ways_to_prove
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.user_rights import UserRights, read_user_rights
from forewarn.sources.slurmrestd.tokens import Token
from forewarn.store.people import PeopleStore

log = logging.getLogger(__name__)
_BRIEFLY = 10.0  # seconds for which a session or a service token is believed without a look into the store
_LOOK = "look"  # the way of a session that was looked up for a request that takes long
_REFUSED = 15.0  # seconds for which a token that Slurm refused is refused without asking again
_FAILURES = 30  # refused proofs a minute, from one address


class Access:
    """Finds out who is calling. Any number of threads may use it."""

    def __init__(
        self,
        config: Config,
        people: PeopleStore,
        *,
        clock: Clock | None = None,
        read_rights: Callable[[], Mapping[str, UserRights]] | None = None,
    ) -> None:
        self._config = config
        self._people = people
        self._clock = clock or Clock()
        self._methods = config.access.methods
        self.sessions = Sessions(config.access, people, clock)
        self.service_tokens = ServiceTokens(people, clock)
        self.oidc = OidcProvider(config, clock) if "oidc" in self._methods else None
        self.limiter = RateLimiter(config.serve.rate_limit, clock=clock)
        self._slurm = SlurmTokens(config, clock) if SLURM in self._methods else None
        proxies = [trusted_network(one) for one in config.serve.trusted_proxies]
        secret_file = config.access.proxy_secret_file
        self._proxy = TrustedProxy(secret_file, proxies) if PROXY in self._methods else None
        self._roles = Roles(config.access, read_rights or (lambda: _slurm_rights(config)), clock)
        self._proofs = ProofCache(self._clock)
        self._failures = RateLimiter(_FAILURES, clock=clock)

    @property
    def methods(self) -> tuple[str, ...]:
        """The configured methods; none: everyone on this machine is trusted."""
        return self._methods

    # --- requests --------------------------------------------------------------------------------------

    def authenticate(self, credentials: Credentials) -> Identity:
        """Return who is calling; raise `UnauthenticatedError` where nothing valid proves it.

        Raises `RateLimitError` for a refused proof after many others from one address, `ForbiddenError` for
        another user's Slurm token, `SchedulerError` or `KeySourceError` where it cannot be verified now.
        """
        try:
            proof = self._prove(credentials, self._use)
        except UnauthenticatedError:
            if _has_any(credentials):
                self.count_refused(credentials.origin)
            raise
        return self._complete(self._roles.identity(proof), credentials)

    def authenticate_again(self, credentials: Credentials) -> Identity:
        """Return who is calling by a request that is still being answered, such as a stream of events.

        As `authenticate`, but it is neither a use of a session nor a guess.
        """
        return self._complete(self._roles.identity(self._prove(credentials, self._look_at)), credentials)

    def cached(self, credentials: Credentials) -> Identity | None:
        """Return what `authenticate` would without any I/O, or None where some is needed."""
        return self._cached(credentials, *self._first(credentials))

    def cached_again(self, credentials: Credentials) -> Identity | None:
        """Return what `authenticate_again` would without any I/O, or None where some is needed."""
        way, secret = self._first(credentials)
        known = self._cached(credentials, way, secret)
        return self._cached(credentials, _LOOK, secret) if known is None and way == SESSION else known

    def _cached(self, credentials: Credentials, way: str, secret: str | None) -> Identity | None:
        proof: Proof | None = None
        if not self._methods:
            proof = self._trusted(credentials) if credentials.session is None else None
        elif secret:
            proof = self._proofs.get(way, secret)
        elif credentials.proxy_user and self._proxy is not None:
            with suppress(UnauthenticatedError):  # which `authenticate` counts
                proof = self._proxy.prove(credentials)
        identity = self._roles.cached_identity(proof) if proof else None
        return self._complete(identity, credentials) if identity else None

    def count_refused(self, origin: str) -> None:
        """Count a refused proof of an address; raise `RateLimitError` after many.

        A valid proof is accepted even then: many people may share the address of a proxy or a login node.
        """
        self._check_guesses(origin)
        self._failures.check(origin)

    def _check_guesses(self, origin: str) -> None:
        wait = self._failures.is_exhausted(origin)
        if wait > 0:
            raise RateLimitError("too many refused tokens from this address: try again later", wait)

    def _first(self, credentials: Credentials) -> tuple[str, str | None]:
        """Return the first proof that a request carries."""
        if credentials.bearer:
            return "bearer", credentials.bearer
        if credentials.session:
            return SESSION, credentials.session
        if credentials.slurm_token and self._slurm:
            return "bearer", credentials.slurm_token
        if credentials.uid is not None and not credentials.proxy_user and "peer" in self._methods:
            return "peer", str(credentials.uid)
        return "", None

    def _prove(self, credentials: Credentials, prove_session: Callable[[str], Proof]) -> Proof:
        if not self._methods:
            return self._trusted(credentials)
        way, secret = self._first(credentials)
        ended: UnauthenticatedError | None = None
        if way == "bearer" and secret:
            return self.prove_token(secret, credentials.origin)
        if way == SESSION and secret:
            try:
                return prove_session(secret)
            except UnauthenticatedError as error:
                ended = error
            if credentials.slurm_token and self._slurm:
                return self.prove_token(credentials.slurm_token, credentials.origin)
        if credentials.proxy_user and self._proxy is not None:
            return self._proxy.prove(credentials)
        if credentials.uid is not None and "peer" in self._methods:
            return self._prove_peer(credentials.uid)
        raise ended or UnauthenticatedError(f"nothing proves who is calling: {ways_to_prove(self._methods)}")

    def prove_token(self, text: str, origin: str) -> Proof:
        """Verify a token of any accepted kind: this service's, the OIDC provider's, or Slurm's."""
        known = self._proofs.get("bearer", text)
        if known is not None:
            return known
        if self._proofs.is_refused("bearer", text):
            raise UnauthenticatedError("the token is not accepted")
        now = self._clock.now()
        try:
            if text.startswith(PREFIX):
                proof = self._prove_service_token(text)
            elif self.oidc is not None and self.oidc.is_issuer_of(_unverified_claims(text)):
                proof = self.oidc.prove(text)
            elif self._slurm is not None:
                if self._slurm.asks_slurm:  # which must not be kept busy by guesses
                    self._check_guesses(origin)
                proof = self._slurm.prove(text)
            else:
                raise UnauthenticatedError(
                    f"tokens of this kind are not accepted here; {accepted_tokens(self._methods)}"
                )
        except UnauthenticatedError:
            self._proofs.put("bearer", text, None, now + _REFUSED)
            raise
        expires = now + 3600 if proof.expires is None else proof.expires
        briefly = proof.role is not None  # a service token, which can be revoked at any time
        self._proofs.put("bearer", text, proof, min(expires, now + _BRIEFLY) if briefly else expires)
        return proof

    def _prove_service_token(self, text: str) -> Proof:
        if "service-token" not in self._methods:
            accepted = accepted_tokens(self._methods)
            raise UnauthenticatedError(f"service tokens are not accepted here; {accepted}")
        return self.service_tokens.prove(text)

    def _use(self, session: str) -> Proof:
        """Prove a session by a request of its own."""
        return self._proofs.get(SESSION, session) or self._keep(SESSION, session, self.sessions.prove)

    def _look_at(self, session: str) -> Proof:
        """Prove a session without a use of it; kept apart, or a session in use would look idle."""
        known = self._proofs.get(SESSION, session) or self._proofs.get(_LOOK, session)
        return known or self._keep(_LOOK, session, self.sessions.look)

    def _keep(self, way: str, session: str, prove: Callable[[str], Proof]) -> Proof:
        """Look a session up, and believe it briefly; what is kept is kept no longer by being asked for."""
        proof = prove(session)
        self._proofs.put(way, session, proof, min(proof.expires or 0.0, self._clock.now() + _BRIEFLY))
        return proof

    def _prove_peer(self, uid: int) -> Proof:
        """Believe the kernel; root and the user who runs the service could do everything anyway."""
        role = Role.ADMIN if uid in (0, os.getuid()) else None
        proof = Proof(user=_name_of(uid), method="peer", role=role)
        self._proofs.put("peer", str(uid), proof, self._clock.now() + self._config.access.roles_refresh)
        return proof

    def _trusted(self, credentials: Credentials) -> Proof:
        """Trust everyone on this machine, where no method is configured."""
        if credentials.peer is not None and not is_loopback(f"{credentials.peer}:0"):
            raise UnauthenticatedError("no authentication is configured, so only this machine is served")
        proof = _trusted_proof(credentials.uid if credentials.uid is not None else os.getuid())
        if credentials.session:
            try:
                slurm_token = self.sessions.prove(credentials.session).slurm_token
            except UnauthenticatedError:
                return proof
            return replace(proof, slurm_token=slurm_token)
        return proof

    def _complete(self, identity: Identity, credentials: Credentials) -> Identity:
        """Add the Slurm token with which the caller may act."""
        text = credentials.slurm_token
        if identity.method == SLURM and text in (None, credentials.bearer or text):
            if credentials.slurm_user not in (None, identity.user):
                raise UnauthenticatedError("X-SLURM-USER-NAME is not the user of the token")
            return replace(identity, slurm_token=text or credentials.bearer)
        if text is None:
            return identity
        token = self._read_slurm_token(text)
        if credentials.slurm_user is not None and token.user not in (None, credentials.slurm_user):
            raise UnauthenticatedError("X-SLURM-USER-NAME is not the user of the token")
        if identity.method == "none":
            return replace(identity, user=token.user or identity.user, slurm_token=text)
        if token.user not in (None, identity.user):
            raise ForbiddenError(f"the Slurm token is not {identity.user}'s: act with your own")
        return replace(identity, slurm_token=text)

    def _read_slurm_token(self, text: str) -> Token:
        """Read a token for acting; Slurm verifies it when it is used."""
        try:
            token = Token.read(text)
        except ValueError as error:
            raise UnauthenticatedError(f"X-SLURM-USER-TOKEN: {error}") from None
        if token.expires is not None and token.expires <= self._clock.now():
            raise UnauthenticatedError("the Slurm token has expired: get a new one by `scontrol token`")
        return token

    # --- sessions --------------------------------------------------------------------------------------

    def begin_session(
        self, proof: Proof, *, origin: str, slurm_token: str | None = None
    ) -> tuple[Session, Identity]:
        """Begin a session of a browser, and note that in the audit log."""
        identity = self._roles.identity(proof)
        session = self.sessions.begin(proof, origin=origin)
        if slurm_token is not None:
            self._keep_slurm_token(session.id, slurm_token, proof.user)
        self.audit(identity, "login", result="done", details={"by": proof.method}, address=origin)
        return session, replace(identity, method=SESSION, slurm_token=slurm_token)

    def login_with_token(self, text: str, *, origin: str) -> tuple[Session, Identity]:
        """Begin a session by a pasted token; one of Slurm's is kept, in memory, for acting."""
        if not self._methods:
            token = self._read_slurm_token(text)
            proof = Proof(user=token.user or _name_of(os.getuid()), method="none", role=Role.OPERATOR)
            return self.begin_session(proof, origin=origin, slurm_token=text)
        try:
            proof = self.prove_token(text, origin)
        except UnauthenticatedError:
            self.count_refused(origin)
            raise
        return self.begin_session(proof, origin=origin, slurm_token=text if proof.method == SLURM else None)

    def add_slurm_token(self, session: str, text: str, identity: Identity, *, origin: str) -> None:
        """Add a Slurm token of the same user to a session, and note that in the audit log."""
        try:
            self._keep_slurm_token(session, text, identity.user)
        except (UnauthenticatedError, ForbiddenError) as error:
            self.audit(identity, "add-slurm-token", result=f"refused: {error}", address=origin)
            raise
        self.audit(identity, "add-slurm-token", address=origin)

    def _keep_slurm_token(self, session: str, text: str, user: str) -> None:
        token = self._read_slurm_token(text)
        if token.user not in (None, user):
            raise ForbiddenError(f"the Slurm token is not {user}'s: paste your own")
        until = float(token.expires) if token.expires is not None else self._clock.now() + 3600
        self.sessions.keep_slurm_token(session, text, until)
        self._drop(session)

    def end_session(self, session: str, identity: Identity, *, origin: str) -> None:
        """End a session at once."""
        if self.replace_session(session):
            self.audit(identity, "logout", address=origin)

    def replace_session(self, session: str) -> bool:
        """End a session because another begins; return whether there was one."""
        ended = self.sessions.end(session)
        self._drop(session)  # after its end: else another request could keep it again
        return ended

    def _drop(self, session: str) -> None:
        for way in (SESSION, _LOOK):
            self._proofs.drop(way, session)

    def drop_ended(self) -> None:
        """Forget proofs and Slurm tokens in memory whose sessions and tokens may be gone: of erased users."""
        self._proofs.clear()
        self.sessions.drop_ended_tokens()

    # --- audit -----------------------------------------------------------------------------------------

    def audit(
        self,
        identity: Identity,
        action: str,
        subject: str = "",
        result: str = "done",
        details: Mapping[str, Any] | None = None,
        *,
        address: str | None = None,
    ) -> None:
        """Note an action: who, how proven, when, what, from where, and with what result."""
        write_audit_line(
            self._people,
            identity,
            action,
            subject,
            result=result,
            details=details,
            address=address,
            clock=self._clock,
        )

    def close(self) -> None:
        """Close connections."""
        self._roles.close()
        for one in (self._slurm, self.oidc):
            if one is not None:
                one.close()


def _slurm_rights(config: Config) -> Mapping[str, UserRights]:
    """Read users' rights from Slurm, where there is one."""
    try:
        return read_user_rights(config)
    except UsageError:
        return {}


def _has_any(credentials: Credentials) -> bool:
    return bool(
        credentials.bearer or credentials.slurm_token or credentials.session or credentials.proxy_user
    )


def _unverified_claims(text: str) -> dict[str, Any]:
    """Read the claims of a token to see whose it claims to be; nothing in them is believed."""
    import jwt

    try:
        return jwt.decode(text, options={"verify_signature": False})
    except jwt.PyJWTError:
        raise UnauthenticatedError("this is not a JSON web token") from None


@lru_cache(maxsize=1000)
def _name_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid:{uid}"


@lru_cache(maxsize=1000)
def _trusted_proof(uid: int) -> Proof:
    return Proof(user=_name_of(uid), method="none", role=Role.OPERATOR)
