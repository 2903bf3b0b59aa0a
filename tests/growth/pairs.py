"""Pairs of forms: two statements in turn, and a statement within the body of a compound one."""

from __future__ import annotations

from itertools import combinations
from random import Random

from tests.growth import statements, training
from tests.growth.form import Form, inside, repeated

SEED = 16
OPENERS = {
    "for": "for x, y in loader:",
    "if": "if q:",
    "with": "with torch.no_grad():",
    "try": "try:\n    pass\nexcept E:",
    "function": "def f(model, x):",
    "class": "class C:",
    "module": "class C(nn.Module):",
}


def pair_forms(count: int) -> list[Form]:
    """So many pairs, the same each time."""
    lines = {**statements.STATEMENTS, **training.STATEMENTS, **training.IN_LOOP}
    random = Random(SEED)
    pairs = random.sample(list(combinations(lines, 2)), min(count, len(lines)))
    bodies = [(opener, name) for opener in OPENERS for name in lines]
    found = [repeated(f"{one}+{other}", f"{lines[one]}\n{lines[other]}", training.LOADER) for one, other in pairs]
    for opener, name in random.sample(bodies, min(count, len(bodies))):
        line = lines[name]
        if "'''" not in line:
            found.append(inside(f"{name}-in-{opener}", OPENERS[opener], line, training.LOADER))
    return found
