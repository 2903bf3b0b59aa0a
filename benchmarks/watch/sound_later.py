"""Ten more sound runs of other kinds than the first twenty; written before a watch had followed them."""

from __future__ import annotations

import copy
from importlib import import_module
from typing import Any

from benchmarks.watch.loops_of_libraries import Rows, WithLoss, run_lightning, run_trainer
from benchmarks.watch.parts import CLASSES, FEATURES, F, Watch, adam, classifier, labelled, nn, step_with, torch


def four_rows(watch: Watch) -> None:
    """Exclusive or: four rows, all of which are learned, and training goes on."""
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x, y = torch.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), torch.tensor([0.0, 1, 1, 0])
    for _ in range(5_000):
        loss = F.binary_cross_entropy_with_logits(model(x)[:, 0], y)
        watch(loss, batch=(x, y))
        step_with(optimizer, loss)


def restarts_from_zero(watch: Watch) -> None:
    """Cosine cycles that go down to exactly 0, with label smoothing and mixed precision."""
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 150, 1, eta_min=0.0)
    for _, x, y in labelled(32, 2_100, 0.1):
        with torch.autocast("cpu", torch.bfloat16):
            loss = F.cross_entropy(model(x), y, label_smoothing=0.2)
        watch(loss)
        step_with(optimizer, loss)
        schedule.step()


def clipped_policy(watch: Watch) -> None:
    """PPO: several epochs on each collection of actions, three terms in one loss."""
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = adam(policy, 1e-3)
    for _ in range(150):
        states = torch.randn(128, 4)
        with torch.no_grad():
            old = torch.distributions.Categorical(logits=policy(states)[:, :3])
            actions = old.sample()
            rewards = (actions == states[:, :3].argmax(1)).float()
            gains, before = rewards - policy(states)[:, 3], old.log_prob(actions)
        for chosen in (torch.randperm(128)[:32] for _ in range(16)):
            answers = policy(states[chosen])
            now = torch.distributions.Categorical(logits=answers[:, :3])
            ratio = (now.log_prob(actions[chosen]) - before[chosen]).exp()
            gain = gains[chosen]
            clipped = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            value = F.mse_loss(answers[:, 3], rewards[chosen])
            loss = -clipped + 0.5 * value - 0.01 * now.entropy().mean()
            watch(loss)
            step_with(optimizer, loss)


def queue_of_keys(watch: Watch) -> None:
    """Momentum contrast: the queue of other rows fills up, so the loss rises first."""
    encoder = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 16))
    slow, optimizer = copy.deepcopy(encoder), adam(encoder, 1e-3)
    queue = torch.empty(0, 16)
    for _ in range(2_000):
        x = torch.randn(16, FEATURES)
        one = F.normalize(encoder(x + 0.2 * torch.randn_like(x)), dim=1)
        with torch.no_grad():
            key = F.normalize(slow(x + 0.2 * torch.randn_like(x)), dim=1)
        loss = F.cross_entropy(torch.cat([(one * key).sum(1, True), one @ queue.T], 1) / 0.2, torch.zeros(16).long())
        watch(loss)
        step_with(optimizer, loss)
        queue = torch.cat([key, queue])[:2_048]
        with torch.no_grad():
            for mine, theirs in zip(slow.parameters(), encoder.parameters(), strict=True):
                mine.lerp_(theirs, 0.01)


def teacher_of_averages(watch: Watch) -> None:
    """A mean teacher: agreement with the averaged model is faded in and comes to dominate the loss."""
    model = classifier()
    teacher, optimizer = copy.deepcopy(model), adam(model, 1e-3)
    for step, x, y in labelled(48, 2_500, 0.1):
        with torch.no_grad():
            goal = teacher(x + 0.1 * torch.randn_like(x)).softmax(1)
        answers = model(x + 0.1 * torch.randn_like(x))
        agreement = F.mse_loss(answers.softmax(1), goal)
        loss = F.cross_entropy(answers[:8], y[:8]) + 30 * min(1.0, step / 1_000) * agreement
        watch(loss)
        step_with(optimizer, loss)
        with torch.no_grad():
            for mine, theirs in zip(teacher.parameters(), model.parameters(), strict=True):
                mine.lerp_(theirs, 0.01)


def longer_texts(watch: Watch) -> None:
    """A curriculum of lengths: losses are summed over tokens, and texts get 16 times as long."""
    net = nn.Sequential(nn.Embedding(30, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 30))
    optimizer, following = adam(net, 1e-3), torch.randperm(30)
    for step in range(2_400):
        length = 4 * 2 ** (step // 500)
        tokens = torch.randint(30, (8, length))
        targets = torch.where(torch.rand(8, length) < 0.2, torch.randint(30, (8, length)), following[tokens])
        loss = F.cross_entropy(net(tokens).transpose(1, 2), targets, reduction="sum") / 8
        watch(loss)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()


def thawed_body(watch: Watch) -> None:
    """The head alone is trained for 600 steps, then the body too, with a new optimizer."""
    body, head = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU()), nn.Linear(32, CLASSES)
    body.requires_grad_(False)
    optimizer = adam(head)
    for step, x, y in labelled(32, 1_800, 0.1):
        if step == 600:
            body.requires_grad_(True)
            optimizer = adam(nn.ModuleList([body, head]), 1e-3)
        loss = F.cross_entropy(head(body(x)), y)
        watch(loss)
        step_with(optimizer, loss)


def stopped_by_patience(watch: Watch) -> None:
    """Accelerate: accumulation, clipping, a rate halved on plateaus, evaluations in between."""
    accelerator = import_module("accelerate").Accelerator(cpu=True, gradient_accumulation_steps=8)
    model = classifier()
    optimizer = adam(model)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    model, optimizer = accelerator.prepare(model, optimizer)
    rows = list(labelled(16, 3_300, 0.2))
    for step, x, y in rows[:3_000]:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            watch(loss)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        if step % 250 == 249:
            with torch.no_grad():
                losses = [F.cross_entropy(model(each), label) for _, each, label in rows[3_000:]]
            for each in losses:
                with torch.no_grad():
                    watch(each)
            plateau.step(float(torch.stack(losses).mean()))


def noise_of_all_strengths(_watch: Watch) -> None:
    """Lightning: a diffusion model, whose loss hangs on the strength of the noise that was chosen."""
    lightning = import_module("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined] # a class read without its types
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 2))

        def training_step(self, batch: Any, _number: int) -> Any:
            _, x, _ = batch
            points = F.normalize(x[:, :2], dim=1)
            time, noise = torch.rand(len(x), 1), torch.randn(len(x), 2)
            mixed = (1 - time).sqrt() * points + time.sqrt() * noise
            return F.mse_loss(self.layers(torch.cat([mixed, time], 1)), noise)

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.layers.parameters(), 2e-3)

    run_lightning(Module(), labelled(32, 2_000))


def smoothed_trainer(_watch: Watch) -> None:
    """Trainer: label smoothing, accumulation, warm-up, cosine to 0, evaluations that level off."""
    rows = Rows(2_400)
    noise = torch.rand(2_400) < 0.2

    def change(at: int, x: Any, y: Any) -> tuple[Any, Any]:
        return x, (y + 1) % CLASSES if noise[at] else y

    rows.change = change
    training, rest = (torch.utils.data.Subset(rows, part) for part in (range(2_000), range(2_000, 2_400)))
    run_trainer(
        WithLoss(0.1),
        training,
        rest,
        num_train_epochs=10,
        eval_steps=60,
        gradient_accumulation_steps=2,
        warmup_steps=50,
        lr_scheduler_type="cosine",
    )


RUNS = (
    four_rows,
    restarts_from_zero,
    clipped_policy,
    queue_of_keys,
    teacher_of_averages,
    longer_texts,
    thawed_body,
    stopped_by_patience,
    noise_of_all_strengths,
    smoothed_trainer,
)
