"""What functions close over, as far as values need to know of it.

What something derives from, walked without going anywhere twice.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import TypeVar

from lintrain.startup.lazy_dataclass import dataclass


class Closure:
    """The names that a function closes over: a `Scope` of the interpreter, which is made of values itself.

    A value only carries it from where the function is defined to where it is called.
    """

    __slots__ = ()

    @abstractmethod
    def release(self) -> None:
        """Drop the values of its names and the scope around it."""


@dataclass(eq=False, slots=True)
class Circles:
    """The closures of one reading that hold what holds them: functions, and names that modules are still asked for.

    Functions hold syntax trees, so that the garbage collector would look through whole trees if nothing cut the circle.
    """

    closures: list[Closure] = field(default_factory=lambda: [])

    def add(self, closure: Closure) -> None:
        """Another such closure; functions that are defined in a row share theirs."""
        if not self.closures or self.closures[-1] is not closure:
            self.closures.append(closure)

    def take(self, other: Circles) -> None:
        """Take over those of another reading of the same script."""
        self.closures.extend(other.closures)
        other.closures.clear()

    def end(self) -> None:
        """Release all of them after the last query of a rule."""
        for closure in self.closures:
            closure.release()
        self.closures.clear()


MOST_CLASSES = 100
"""Classes that one class derives from, itself included, that are looked at."""

Node = TypeVar("Node")


def ancestry_of(start: Node, above: Callable[[Node], Iterable[Node]]) -> tuple[Node, ...]:
    """Something and what it derives from, nearest first, each once; at most MOST_CLASSES."""
    found: dict[Node, None] = {}
    pending = [start]
    while pending and len(found) < MOST_CLASSES:
        node = pending.pop()
        if node not in found:
            found[node] = None
            pending.extend(reversed([*above(node)]))
    return tuple(found)
