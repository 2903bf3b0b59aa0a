"""A tensor is assigned to a weight of a layer, which only takes a parameter.

`layer.weight = tensor` raises a TypeError: a module refuses everything but an `nn.Parameter` or None under the name of
a parameter. Numbers are written into the weight that is there.

## Bad

    layer = nn.Linear(8, 3)
    layer.bias = torch.full((3,), 0.1)  # <- tensor-for-parameter
    # raises TypeError: cannot assign

In a network, next to the initialization of the other weight:

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = nn.Linear(8, 3)
            nn.init.xavier_uniform_(self.output.weight)
            self.output.bias = torch.zeros(3)  # <- tensor-for-parameter

        def forward(self, x):
            return self.output(x)

    network = Classifier()
    # raises TypeError: cannot assign

## Good

    layer = nn.Linear(8, 3)
    nn.init.constant_(layer.bias, 0.1)
    layer.weight = nn.Parameter(torch.zeros(3, 8))

## When it is fine

The numbers are written into the parameter, or the object is no layer:

    layer = nn.Linear(8, 3)
    layer.bias.data = torch.zeros(3)
    layer.weight.grad = torch.zeros(3, 8)

    class Scale:
        pass

    scale = Scale()
    scale.weight = torch.ones(3)

## Fix

None: whether the tensor is to be trained is a guess.

## References

PyTorch documentation, `torch.nn.Module`; the fix in `deepchem/deepchem`, commit 3b7dafadf445.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import tensor_forms
from lintrain.pipeline import blocks
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, lazy_pattern, one_per_location

ASSIGNS = lazy_pattern(r"\.(?:weight|bias)\s*=[^=]")


class TensorForParameter(Rule):
    level = Level.ERROR
    keywords = "weight|bias & torch"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(ASSIGNS) and any(tensor_forms.tensors_for_parameters(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self._report(each)
            for each in tensor_forms.tensors_for_parameters(pipeline.source)
            if not blocks.expects_error(pipeline.source, each.location)
        )

    def _report(self, assigned: tensor_forms.TensorForParameter) -> Finding:
        shown = f"`{assigned.target}`" if len(assigned.target) <= 30 else "this weight"
        return self.finding(
            assigned.location,
            f"{shown} is a parameter of a layer, which refuses a plain tensor",
            help="wrap it in `nn.Parameter`, or write into the weight with `copy_` in `torch.no_grad()`",
        )
