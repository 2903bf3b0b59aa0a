"""The gradient of a tensor is read under a name that stands for a copy of it.

`backward` fills the `grad` of the tensor that was made with `requires_grad=True`. What is computed from it, by a move
to the GPU, a `view` or a number, is another tensor: its `grad` is None, torch only warns, and an optimizer raises
`can't optimize a non-leaf Tensor`.

## Bad

    x = torch.ones(4, requires_grad=True).view(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for inputs, labels in loader:
        optimizer.zero_grad()
        (criterion(net(inputs), labels) * x.mean()).backward()
        print(x.grad)  # <- non-leaf-gradient
        optimizer.step()

An optimizer of the copy:

    scale = torch.ones(3, requires_grad=True) * 0.5
    optimizer = torch.optim.SGD([scale], lr=0.1)  # <- non-leaf-gradient
    for inputs, labels in loader:
        optimizer.zero_grad()
        criterion(net(inputs) * scale, labels).backward()
        optimizer.step()
    # raises ValueError: can't optimize a non-leaf Tensor

## Good

    x = torch.ones(4).view(2, 2).requires_grad_()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for inputs, labels in loader:
        optimizer.zero_grad()
        (criterion(net(inputs), labels) * x.mean()).backward()
        print(x.grad)
        optimizer.step()

## When it is fine

The copy has another name, or keeps its gradient:

    x = torch.ones(4, requires_grad=True)
    square = x.view(2, 2)
    scaled = x * 2
    scaled.retain_grad()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for inputs, labels in loader:
        optimizer.zero_grad()
        (criterion(net(inputs), labels) * square.mean() * scaled.mean()).backward(retain_graph=True)
        print(x.grad, scaled.grad)
        optimizer.step()

## Fix

None: the tensor may be made where it is used, or keep a name of its own.

## References

PyTorch documentation, `torch.Tensor.grad`, `torch.Tensor.is_leaf`, `torch.Tensor.retain_grad`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import moved_leaves
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets


class NonLeafGradient(Rule):
    level = Level.ERROR
    keywords = "backward"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(moved_leaves.read_of_moved(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in moved_leaves.read_of_moved(pipeline.source):
            name = found.name if len(found.name) <= 20 else "the tensor"
            yield self.finding(
                found.location,
                f"`{name}` is made from the tensor that requires gradients: {_lacks(found)}",
                related=[Related(found.by, "another tensor from here on", "copy")],
                help="let the finished tensor require gradients: `.requires_grad_()`",
            )


def _lacks(found: moved_leaves.Moved) -> str:
    return "no optimizer takes it" if found.is_optimized else "its `grad` is None"
