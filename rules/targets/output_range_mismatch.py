"""The last activation of a network does not give the numbers of the images that it is to give.

A sigmoid gives numbers from 0 to 1, and `tanh` from -1 to 1. Images that are normalized are partly negative, so a
network that ends with a sigmoid can never give them, and the loss stays high. Where a generator ends with
`tanh`, the discriminator recognizes images between 0 and 1 by their range alone. No error is raised.

## Bad

    from torchvision import datasets, transforms

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])
    digits = datasets.MNIST("data", transform=transform)  # <- output-range-mismatch
    network = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 784), nn.Sigmoid())
    optimizer = torch.optim.Adam(network.parameters())
    for image, _ in DataLoader(digits, batch_size=32, shuffle=True):
        image = image.view(-1, 784)
        loss = F.mse_loss(network(image), image)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good

    from torchvision import datasets, transforms

    digits = datasets.MNIST("data", transform=transforms.Compose([transforms.ToTensor()]))
    network = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 784), nn.Sigmoid())
    optimizer = torch.optim.Adam(network.parameters())
    for image, _ in DataLoader(digits, batch_size=32, shuffle=True):
        image = image.view(-1, 784)
        loss = F.mse_loss(network(image), image)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## When it is fine

A network without a last activation may give any numbers:

    from torchvision import datasets, transforms

    transform = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.5,))])
    digits = datasets.MNIST("data", transform=transform)
    network = nn.Sequential(nn.Linear(784, 32), nn.ReLU(), nn.Linear(32, 784))
    optimizer = torch.optim.Adam(network.parameters())
    for image, _ in DataLoader(digits, batch_size=32, shuffle=True):
        image = image.view(-1, 784)
        loss = F.mse_loss(network(image), image)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Fix

None: the transform or the activation may be the wrong one.

## References

Radford et al., "Unsupervised Representation Learning with Deep Convolutional Generative Adversarial Networks", section
4; PyTorch tutorials, "DCGAN Tutorial".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import output_ranges
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location


class OutputRangeMismatch(Rule):
    level = Level.WARNING
    keywords = "Compose & Tanh|tanh|igmoid"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, output_ranges.range_mismatches(pipeline)))

    def _report(self, found: output_ranges.RangeMismatch) -> Finding:
        name = "tanh" if found.is_tanh else "a sigmoid"
        problem = (
            "images are between 0 and 1, but those of the generator between -1 and 1"
            if found.is_tanh
            else "these images are partly negative, which the last sigmoid never gives"
        )
        remedy = (
            "add `Normalize([0.5], [0.5])`" if found.is_tanh else "remove the normalization, or end without a sigmoid"
        )
        return self.finding(
            found.location, problem, related=[Related(found.activation, f"ends with {name}", "activation")], help=remedy
        )
