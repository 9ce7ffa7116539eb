"""A store of people's entries, and a planner with a sender whose mail goes to a real server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.config import Config, NoticesConfig, ServeConfig
from forewarn.job.outcomes import POLICIES
from forewarn.operate.notices.planning import Planner
from forewarn.operate.notices.rules import RuleSetting, SiteChanges
from forewarn.operate.notices.sending import NoticeSender
from forewarn.store.opening import open_people_store
from forewarn.store.people import PeopleStore
from tests.operate.notices.servers import Mailbox, smtp_server


class Desk:
    """A planner and a sender, as the notifier's thread has them."""

    def __init__(self, config: Config, people: PeopleStore) -> None:
        self.config, self.people = config, people
        setting = RuleSetting(config.notices, POLICIES["wasted"], lambda _: None)
        self.planner = Planner(setting, people)
        self.sender = NoticeSender(config, self.planner)

    def round(self, at: int, **changes: Any) -> None:
        """Take changes, write digests, send."""
        self.planner.take(SiteChanges(**{name: list(own) for name, own in changes.items()}), at)
        self.planner.write_digests(at)
        self.sender.send(at)

    def restarted(self) -> Desk:
        """Begin again with what is stored."""
        return Desk(self.config, self.people)


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def mail_server(mailbox: Mailbox) -> Iterator[str]:
    with smtp_server(mailbox) as address:
        yield address


@pytest.fixture
def config(tmp_path: Path, mail_server: str) -> Config:
    return Config(
        home=tmp_path / "home",
        serve=ServeConfig(url="https://f.example.org"),
        notices=NoticesConfig(
            smtp=mail_server,
            smtp_tls="none",
            sender="forewarn@example.org",
            user_address="{user}@example.org",
            window=0,
        ),
    )


@pytest.fixture
def people(config: Config) -> Iterator[PeopleStore]:
    with open_people_store(config) as opened:
        yield opened


@pytest.fixture
def new_desk(config: Config, people: PeopleStore) -> Callable[..., Desk]:
    """Make a desk, with some settings of notices changed."""
    return lambda **settings: Desk(replace(config, notices=replace(config.notices, **settings)), people)


@pytest.fixture
def desk(new_desk: Callable[..., Desk]) -> Desk:
    return new_desk()
