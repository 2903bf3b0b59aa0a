"""A container holds one module several times, so its layers share their weights.

Multiplying a list repeats references, and so does a comprehension over a module that exists already. The network has
the weights of a single layer, whatever its depth, and no error appears.

## Bad

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, 8)] * 4)  # <- repeated-module
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            for layer in self.layers:
                x = F.relu(layer(x))
            return self.head(x)

    deep = Deep()
    optimizer = torch.optim.Adam(deep.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(deep(x), y).backward()
        optimizer.step()

A comprehension that repeats a finished layer does the same:

    def repeat(layer, count):
        return nn.ModuleList([layer for _ in range(count)])  # <- repeated-module

    layers = repeat(nn.Linear(8, 8), 4)

## Good

    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(4)])
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            for layer in self.layers:
                x = F.relu(layer(x))
            return self.head(x)

    deep = Deep()
    optimizer = torch.optim.Adam(deep.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(deep(x), y).backward()
        optimizer.step()

Copies have weights of their own:

    import copy

    def repeat(layer, count):
        return nn.ModuleList([copy.deepcopy(layer) for _ in range(count)])

    layers = repeat(nn.Linear(8, 8), 4)

## When it is fine

Layers without weights can be repeated, and a loop that calls one layer several times shares its weights on purpose:

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.activations = nn.ModuleList([nn.ReLU()] * 4)
            self.layer = nn.Linear(8, 8)

        def forward(self, x):
            for activation in self.activations:
                x = activation(self.layer(x))
            return x

    recurrent = Recurrent()

The name may say that the layers are shared:

    shared = nn.Linear(8, 8)
    layers = nn.ModuleList([shared] * 4)

## Fix

Asks first: the network gets more weights, and old checkpoints do not fit. Offered where the list is multiplied.

## References

PyTorch documentation, `torch.nn.ModuleList`; Python FAQ, "How do I create a multidimensional list?".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import built_layers
from lintrain.rule import Finding, Level, OddCallRule, Pipeline, Source, Targets, dataclass, fixes

SHARED = re.compile(r"shared|tied|same", re.IGNORECASE)
"""Names of layers that are repeated on purpose."""

WITHOUT_WEIGHTS = re.compile(
    r"(?:torch\.)?(?:nn\.)?\w*(?:ReLU|ELU|GELU|SiLU|Mish|Sigmoid|Tanh|Softmax|Dropout|Pool|Identity|Flatten|Upsample|Pad)"
    r"\w*(?:\(|$)"
)
"""Layers that have nothing to share, by their code."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The list that creates a layer for each item; empty if the layer existed before."""

    code: str


class RepeatedModule(OddCallRule[Claim]):
    level = Level.ERROR
    odd = "repeated module"
    odd_message = "all modules of this container are the same one and share its weights"
    odd_help = "create a module for each item"
    keywords = "ModuleList|Sequential"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.cached(built_layers.may_repeat)

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for found in built_layers.repeated(pipeline):
            if SHARED.search(found.item) or WITHOUT_WEIGHTS.match(found.item):
                continue
            code = f"[{found.item} for _ in range({found.count})]" if found.is_built_there else ""
            yield self.finding(
                found.location,
                "all items of this list are the same module and share its weights",
                help="create a module for each item" if code else "repeat `copy.deepcopy(…)` of the module",
                claim=Claim(code),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.code:
            return None
        edit = fixes.Replace(finding.location, finding.claim.code)
        return fixes.Fix.of("create a module for each item", edit, safe=False)
