"""What a hand-written loop really does to its model, seen through torch's own hooks while it runs.

Each effect is counted; a rule about loops names the one that its Bad examples must have and its Good examples must not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.pages.gradients import GradientWatch

EFFECT_OF = {
    "clip-after-step": "clipped what no step used",
    "clip-before-backward": "clipped what no step used",
    "clip-before-unscale": "clipped scaled gradients",
    "double-scaled-accumulation": "divided the loss twice",
    "eval-mode-in-training": "trained in eval mode",
    "missing-accumulate-context": "stepped on every batch",
    "missing-backward": "stepped on no gradients",
    "missing-no-grad": "recorded for nothing",
    "missing-step": "never changed",
    "missing-zero-grad": "added to old gradients",
    "plain-backward": "went past the launcher",
    "retained-graph": "kept old graphs",
    "train-mode-in-eval": "evaluated in train mode",
    "unscaled-accumulation": "added up undivided losses",
    "wrong-step-order": "stepped on no gradients",
}


class Forward:
    """One call of a whole model: whether autograd recorded it, and in which modes its dropout layers were."""

    def __init__(self) -> None:
        self.records = False
        self.dropout_training: list[bool] = []


class Watch:
    """Counts of the effects; forward passes wait until a backward pass tells which of them was for training."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(EFFECT_OF.values(), 0)
        self.waiting: list[Forward] = []
        self.depth = 0
        self.first_values: list[dict[Any, Any]] = []  # of each optimizer: parameters to their first values
        self.was_backward = False
        self.gradients = GradientWatch(self.counts)

    def start(self) -> None:
        """Hook into torch."""
        import torch
        from torch.nn.modules import module

        module.register_module_forward_pre_hook(lambda inner, given: self.entered(inner))
        module.register_module_forward_hook(lambda inner, given, output: self.left(inner, output))
        build: Any = torch.optim.Optimizer.__init__
        backward: Any = torch.Tensor.backward

        def init(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            build(optimizer, *args, **kwargs)
            parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
            self.first_values.append({parameter: parameter.detach().clone() for parameter in parameters})
            self.gradients.watch(parameters)

        def watched_backward(tensor: Any, *args: Any, **kwargs: Any) -> None:
            self.goes_backward()
            self.gradients.goes_backward(tensor)
            backward(tensor, *args, **kwargs)

        setattr(torch.optim.Optimizer, "__init__", init)  # noqa: B010 - mypy knows both as functions of other types
        setattr(torch.Tensor, "backward", watched_backward)  # noqa: B010 - as above
        self.gradients.start()

    def entered(self, module: Any) -> None:
        """A module is called; the outermost one is a whole model."""
        import torch

        if self.depth == 0:
            self.waiting.append(Forward())
        self.depth += 1
        if isinstance(module, torch.nn.Dropout) and module.p > 0:
            self.waiting[-1].dropout_training.append(module.training)

    def left(self, module: Any, output: Any) -> None:
        """A module returns; calls of a loss alone are no passes of a model."""
        import torch

        self.depth -= 1
        if self.depth == 0:
            logits = output if isinstance(output, torch.Tensor) else getattr(output, "logits", None)
            self.waiting[-1].records = logits is not None and bool(logits.requires_grad)
            if isinstance(module, torch.nn.modules.loss._Loss):
                self.waiting.pop()

    def goes_backward(self) -> None:
        """The last forward pass was for training, those before it were not."""
        if self.waiting:
            trained = self.waiting.pop()
            self.counts["trained in eval mode"] += bool(trained.dropout_training and not all(trained.dropout_training))
        self.evaluated()
        self.was_backward = True

    def evaluated(self) -> None:
        """Count what the passes without a backward pass did."""
        for forward in self.waiting:
            self.counts["evaluated in train mode"] += any(forward.dropout_training)
            self.counts["recorded for nothing"] += forward.records
        self.waiting.clear()

    def finish(self, path: Path) -> None:
        """Write the counts."""
        self.evaluated()
        self.gradients.finish()
        for values in self.first_values:
            same = all(parameter.equal(first) for parameter, first in values.items())
            self.counts["never changed"] += self.was_backward and same
        path.write_text(json.dumps(self.counts))
