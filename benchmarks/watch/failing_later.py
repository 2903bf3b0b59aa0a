"""Ten more runs that fail late, of other kinds than the first twenty; written before a watch had followed them."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

from benchmarks.watch.loops_of_libraries import Rows, WithLoss, run_lightning, run_trainer
from benchmarks.watch.parts import CLASSES, FEATURES, F, Watch, adam, classifier, labelled, nn, step_with, torch, train


def detached_fakes(watch: Watch) -> None:
    """A GAN: from step 600 on the generator's loss gets the detached points of the judge's turn."""
    maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    makes, judges = adam(maker, 1e-3, weight_decay=0.0), adam(judge, 1e-3, weight_decay=0.0)
    yes, no = torch.ones(64, 1), torch.zeros(64, 1)
    for step in range(2_500):
        angle = torch.rand(64) * 6.283
        real, fake = torch.stack([angle.cos(), angle.sin()], 1), maker(torch.randn(64, 4))
        loss = F.binary_cross_entropy_with_logits(torch.cat([judge(real), judge(fake.detach())]), torch.cat([yes, no]))
        watch(loss)
        step_with(judges, loss)
        loss = F.binary_cross_entropy_with_logits(judge(fake.detach() if step >= 600 else fake), yes)
        watch(loss)
        step_with(makes, loss)


def values_without_a_discount(watch: Watch) -> None:
    """Q-learning that discounts by 1.05, with a reward for each step: its own targets carry it away."""
    net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = adam(net, 3e-3)
    for _ in range(3_000):
        at, action = torch.randint(12, (32,)), torch.randint(2, (32,))
        following = (at + action * 2 - 1).clamp(0, 11)
        with torch.no_grad():
            goal = 1.0 + 1.05 * net(F.one_hot(following, 12).float()).max(1).values
        value = net(F.one_hot(at, 12).float()).gather(1, action[:, None])[:, 0]
        loss = F.mse_loss(value, goal)
        watch(loss)
        step_with(optimizer, loss)


def views_without_a_brake(watch: Watch) -> None:
    """Two views are pulled together and nothing pushes apart: every row gets one embedding."""
    encoder = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = adam(encoder, 3e-3)
    for _ in range(1_500):
        x = torch.randn(64, FEATURES)
        one, other = (encoder(x + 0.3 * torch.randn_like(x)) for _ in range(2))
        loss = 1 - F.cosine_similarity(one, other).mean()
        watch(loss)
        step_with(optimizer, loss)


def smoothed_to_nothing(watch: Watch) -> None:
    """Label smoothing grows with the epochs, and reaches 1: labels no longer count."""
    model = classifier()
    optimizer = adam(model)
    for step, x, y in labelled(32, 2_500):
        loss = F.cross_entropy(model(x), y, label_smoothing=min(1.0, step / 1_000))
        watch(loss, batch=(x, y))
        step_with(optimizer, loss)


def growing_restarts(watch: Watch) -> None:
    """Restarts of the rate are to be half as high each time, and are eight times as high."""
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step, x, y in labelled(32, 2_400):
        optimizer.param_groups[0]["lr"] = 0.02 * 8 ** (step // 400) * (1 - step % 400 / 400)
        loss = F.cross_entropy(model(x), y)
        watch(loss)
        step_with(optimizer, loss)


def stages_of_another_scale(watch: Watch) -> None:
    """A curriculum whose last stage reads pixels of 0 to 255 where the others had 0 to 1."""
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, CLASSES))
    truth = torch.randn(FEATURES, CLASSES)

    def batches() -> Any:
        for step in range(1_500):
            x = torch.rand(32, FEATURES)
            yield step, x * (255 if step >= 900 else 1), ((x - 0.5) @ truth).argmax(1)

    train(watch, model, adam(model, 1e-3), batches())


def weights_of_half_precision(watch: Watch) -> None:
    """Weights of bfloat16, and steps that become too small for their eight bits once the rate has fallen."""
    model = classifier().bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, x, y in labelled(32, 3_000, 0.2):
        optimizer.param_groups[0]["lr"] = 0.1 if step < 600 else 1e-6
        loss = F.cross_entropy(model(x.bfloat16()).float(), y)
        watch(loss)
        step_with(optimizer, loss)


def synced_too_rarely(watch: Watch) -> None:
    """Accelerate: the number of accumulated batches is raised with the epoch, at last beyond those of an epoch."""
    accelerator = import_module("accelerate").Accelerator(cpu=True)
    model = classifier()
    model, optimizer = accelerator.prepare(model, adam(model))
    for step, x, y in labelled(16, 3_000):
        accelerator.gradient_accumulation_steps = 4 if step < 800 else 1_000_000
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            watch(loss)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()


def root_of_no_distance(_watch: Watch) -> None:
    """Lightning: a distance to an averaged copy, whose root has no gradient when both are equal after a reset."""
    lightning = import_module("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined] # a class read without its types
        def __init__(self) -> None:
            super().__init__()
            self.layers = classifier()
            self.average = copy.deepcopy(self.layers)
            with torch.no_grad():
                self.average[0].weight.add_(0.1)

        def training_step(self, batch: Any, number: int) -> Any:
            _, x, y = batch
            if number == 700:
                self.average.load_state_dict(self.layers.state_dict())
            gap = self.layers[0].weight - self.average[0].weight.detach()
            return F.cross_entropy(self.layers(x), y) + 1e-3 * gap.pow(2).sum().sqrt()

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.layers.parameters(), 3e-3)

    run_lightning(Module(), labelled(32, 900))


def few_rows_for_long(_watch: Watch) -> None:
    """Trainer: forty rows with a tenth of wrong labels for 60 epochs, and an evaluation that gets worse."""
    truth_and_rows = Rows(440)
    wrong = torch.rand(440) < 0.25

    def change(at: int, x: Any, y: Any) -> tuple[Any, Any]:
        return x, (y + 1) % CLASSES if wrong[at] and at < 40 else y

    truth_and_rows.change = change
    few = torch.utils.data.Subset(truth_and_rows, range(40))
    rest = torch.utils.data.Subset(truth_and_rows, range(40, 440))
    run_trainer(WithLoss(), few, rest, num_train_epochs=200, eval_steps=30, learning_rate=1e-2)


RUNS = (
    (detached_fakes, frozenset({"unchanged-weights", "no-gradient"})),
    (values_without_a_discount, frozenset({"diverged", "spike", "non-finite"})),
    (views_without_a_brake, frozenset({"collapsed"})),
    (smoothed_to_nothing, frozenset({"no-progress", "collapsed", "diverged"})),
    (growing_restarts, frozenset({"diverged", "spike", "collapsed", "non-finite", "no-progress"})),
    (stages_of_another_scale, frozenset({"spike", "diverged"})),
    (weights_of_half_precision, frozenset({"unchanged-weights"})),
    (synced_too_rarely, frozenset({"unchanged-weights"})),
    (root_of_no_distance, frozenset({"non-finite"})),
    (few_rows_for_long, frozenset({"overfitting"})),
)
