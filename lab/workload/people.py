"""The people of the workload: what they run, how often they are wrong, and how fast they learn."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from lab.users import PEOPLE
from lab.workload.scenes import SCENES, Request


@dataclass(slots=True)
class Person:
    """Somebody with a few programs of their own; a mistake in one is repeated until it is understood."""

    name: str
    luck: random.Random
    programs: list[str]
    carelessness: float
    """How likely a mistake is in a program that is new to them; halved with each lesson."""
    lessons: dict[str, int] = field(default_factory=dict)
    wrong_now: set[str] = field(default_factory=set)
    """Programs of which their script is wrong until they mend it."""

    def next_request(self) -> tuple[str, Request]:
        """Choose the program to submit now, and how."""
        program = self.luck.choice(self.programs)
        chance = self.carelessness * 0.5 ** self.lessons.get(program, 0)
        if self.luck.random() < max(chance, 0.05):
            self.wrong_now.add(program)
        return program, SCENES[program](self.luck, program in self.wrong_now)

    def hears_of(self, program: str, *, failed: bool) -> None:
        """React to the outcome of a job: after a failure, mostly fix the script."""
        if failed and program in self.wrong_now and self.luck.random() < 0.6:
            self.wrong_now.discard(program)
            self.lessons[program] = self.lessons.get(program, 0) + 1


def make_people(seed: int) -> list[Person]:
    """Create the lab's users; each program has one who runs it."""
    luck = random.Random(seed)
    programs = list(SCENES)
    luck.shuffle(programs)
    people = []
    for place, user in enumerate(PEOPLE):
        own = programs[place :: len(PEOPLE)] + luck.sample(programs, 2)
        careless = luck.choice((0.2, 0.4, 0.6))
        people.append(Person(user.name, random.Random(f"{seed} {user.name}"), own, careless))
    return people
