"""Twelve tasks in other libraries and fields, each with a run that fails late and a sound one that is near to it.

All were written before a watch had followed any of them.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from benchmarks.watch import tasks_of_text
from benchmarks.watch.loops_of_libraries import run_lightning
from benchmarks.watch.parts import CLASSES, FEATURES, F, Watch, adam, classifier, labelled, nn, step_with, torch


def _two_layers(inputs: int, outputs: int, width: int = 64) -> Any:
    return nn.Sequential(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, outputs))


def _diffusion(watch: Watch, last: int, ratio: Callable[[Any], Any]) -> None:
    """Noise is predicted, weighted by the ratio of signal and noise; from step 900 on up to the `last` time."""
    net, signal = _two_layers(FEATURES + 1, FEATURES), torch.linspace(1, 0, 101)
    optimizer, average = adam(net, 1e-3), copy.deepcopy(net)
    for step in range(1_500):
        x, noise = torch.randn(64, FEATURES) * 0.3 + 1, torch.randn(64, FEATURES)
        time = torch.randint(1, 90 if step < 900 else last, (64,))
        share = signal[time][:, None]
        guess = net(torch.cat([share.sqrt() * x + (1 - share).sqrt() * noise, time[:, None] / 100], 1))
        loss = (((guess - noise) ** 2).mean(1) * ratio(signal[time])).mean()
        watch(loss, batch=(x, noise, time))
        step_with(optimizer, loss)
        with torch.no_grad():
            for mine, theirs in zip(average.parameters(), net.parameters(), strict=True):
                mine.lerp_(theirs, 0.01)


def ratio_of_no_signal(watch: Watch) -> None:
    """Diffusion: weights of min-SNR divide by the ratio at a time without any signal."""
    _diffusion(watch, 101, lambda share: (share / (1 - share)).clamp(max=5) / (share / (1 - share)))


def ratio_with_a_bound(watch: Watch) -> None:
    """Diffusion with weights of velocities, which are finite at a time without any signal."""
    _diffusion(watch, 101, lambda share: (share / (1 - share)).clamp(max=5) / (share / (1 - share) + 1))


def _contrast(watch: Watch, views: Callable[[int], Any]) -> None:
    encoder, scale = _two_layers(FEATURES, 16), nn.Parameter(torch.tensor(2.0))
    optimizer = torch.optim.AdamW([*encoder.parameters(), scale], lr=1e-3)
    for step in range(1_600):
        x = views(step)
        one, two = (F.normalize(encoder(x + 0.2 * torch.randn_like(x)), dim=1) for _ in range(2))
        scores = scale.clamp(max=4.6).exp() * one @ two.T
        loss = (F.cross_entropy(scores, torch.arange(len(x))) + F.cross_entropy(scores.T, torch.arange(len(x)))) / 2
        watch(loss, batch=x)
        step_with(optimizer, loss)


def crops_of_the_margin(watch: Watch) -> None:
    """Contrast of two views: from step 700 on a stronger augmentation cuts out an empty margin of every picture."""
    _contrast(watch, lambda step: torch.randn(64, FEATURES) * (step < 700))


def more_negatives(watch: Watch) -> None:
    """Contrast of two views, whose batches grow from 16 to 256 rows, so that the loss rises."""
    _contrast(watch, lambda step: torch.randn(min(256, 16 * 2 ** (step // 300)), FEATURES))


def _autoencoder(watch: Watch, beta: Callable[[int], float]) -> None:
    encoder, decoder = _two_layers(FEATURES, 8), _two_layers(4, FEATURES)
    optimizer = adam(nn.ModuleList([encoder, decoder]), 2e-3)
    mixing = torch.randn(4, FEATURES)
    for step in range(2_400):
        x = torch.randn(64, 4) @ mixing
        mean, spread = encoder(x).chunk(2, 1)
        made = decoder(mean + torch.randn_like(mean) * (0.5 * spread).exp())
        divergence = -0.5 * (1 + spread - mean**2 - spread.exp()).sum(1).mean()
        loss = F.mse_loss(made, x, reduction="sum") / len(x) + beta(step) * divergence
        watch(loss, batch=x)
        step_with(optimizer, loss)


def divergence_without_a_bound(watch: Watch) -> None:
    """A variational autoencoder whose weight of the divergence was to end at 1, and grows to 48."""
    _autoencoder(watch, lambda step: step / 50)


def cycles_of_divergence(watch: Watch) -> None:
    """A variational autoencoder whose weight of the divergence goes from 0 to 1 in each of four cycles."""
    _autoencoder(watch, lambda step: min(1.0, step % 600 / 300))


def _series(watch: Watch, value: Callable[[Any], Any], scaled: Callable[[Any], Any]) -> None:
    """Forecasts of the next 4 values from 24, each window scaled by its own spread."""
    net = nn.GRU(1, 32, batch_first=True)
    head = nn.Linear(32, 4)
    optimizer = adam(nn.ModuleList([net, head]), 2e-3)
    for step in range(1_200):
        start = step * 20 + torch.randint(20, (32, 1))
        windows = scaled(value(start + torch.arange(28)))
        hidden, _ = net(windows[:, :24, None])
        loss = F.huber_loss(head(hidden[:, -1]), windows[:, 24:])
        watch(loss, batch=windows)
        step_with(optimizer, loss)


def _by_their_spread(windows: Any) -> Any:
    known = windows[:, :24]
    return (windows - known.mean(1, True)) / (known.std(1, keepdim=True) + 1e-8)


def sensor_that_sticks(watch: Watch) -> None:
    """A series whose sensor hangs from step 800 on, but for its last digit: windows are divided by almost nothing."""

    def value(at: Any) -> Any:
        moving = (at * 0.26).sin() + 0.1 * torch.randn(at.shape)
        stuck = torch.full(at.shape, 1.0) + (at % 28 == 27) * 0.01
        return torch.where(at < 16_000, moving, stuck)

    _series(watch, value, _by_their_spread)


def change_of_season(watch: Watch) -> None:
    """A series whose season becomes shorter, and whose values three times as large and noisier."""

    def value(at: Any) -> Any:
        early, noise = at < 14_000, torch.randn(at.shape)
        return torch.where(early, (at * 0.26).sin() + 0.1 * noise, 3 * (at * 0.6).sin() + noise)

    _series(watch, value, lambda windows: windows)


def _critic(watch: Watch, penalty: Callable[[int], float]) -> None:
    """Wasserstein with a penalty of gradients: three steps of the critic for each of the maker."""
    maker, critic = _two_layers(4, 2), _two_layers(2, 1)
    rates = ((maker, 1e-4), (critic, 5e-3))
    makes, judges = (torch.optim.Adam(each.parameters(), rate, betas=(0.0, 0.9)) for each, rate in rates)
    for step in range(1_800):
        for _ in range(3):
            angle = torch.rand(64) * 6.283
            real, fake = torch.stack([angle.cos(), angle.sin()], 1), maker(torch.randn(64, 4)).detach()
            mixed = torch.lerp(real, fake, torch.rand(64, 1)).requires_grad_()
            (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            loss = critic(fake).mean() - critic(real).mean() + penalty(step) * ((slope.norm(dim=1) - 1) ** 2).mean()
            watch(loss)
            step_with(judges, loss)
        loss = -critic(maker(torch.randn(64, 4))).mean()
        watch(loss)
        step_with(makes, loss)


def penalty_that_ends(watch: Watch) -> None:
    """A critic whose penalty was to be halved at times, and is 0 from step 600 on: nothing bounds its scores."""
    _critic(watch, lambda step: 10.0 * (step < 600))


def penalty_that_lasts(watch: Watch) -> None:
    """The same critic with a penalty that is halved once."""
    _critic(watch, lambda step: 10.0 if step < 600 else 5.0)


def _policy(watch: Watch, normal: Callable[[Any], Any]) -> None:
    """An actor on a corridor of eight places, whose gains are scaled by their spread; a short way is worth more."""
    policy = _two_layers(8, 2)
    optimizer = adam(policy, 1e-2, weight_decay=0.0)
    for _ in range(700):
        at, chances, ways = torch.zeros(16, dtype=torch.long), [], torch.zeros(16)
        for _ in range(12):
            choice = torch.distributions.Categorical(logits=policy(F.one_hot(at, 8).float()))
            action = choice.sample()
            chances.append(choice.log_prob(action) * (at < 7))
            at = (at + action * 2 - 1).clamp(0, 7)
            ways += at < 7
        loss = -(torch.stack(chances).sum(0) * normal(-ways)).mean()
        watch(loss)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()


def spread_of_equal_returns(watch: Watch) -> None:
    """A policy that is solved: all returns of a batch are equal, and their spread of 0 divides them."""
    _policy(watch, lambda returns: (returns - returns.mean()) / returns.std())


def spread_with_a_bound(watch: Watch) -> None:
    """The same policy with a small number added to the spread."""
    _policy(watch, lambda returns: (returns - returns.mean()) / (returns.std() + 1e-4))


def _keras_loop(watch: Watch, rate: Callable[[Any], Any]) -> None:
    """A model of Keras on torch with an own loop, whose optimizer is none of torch."""
    os.environ["KERAS_BACKEND"] = "torch"
    keras = import_module("keras")
    layers = [keras.layers.Dense(32, activation="relu"), keras.layers.Dense(CLASSES)]
    model = keras.Sequential([keras.Input((FEATURES,)), *layers])
    optimizer = keras.optimizers.Adam(rate(keras.optimizers.schedules))
    for _, x, y in labelled(32, 2_000, 0.1):
        loss = F.cross_entropy(model(x, training=True), y)
        watch(loss, batch=(x, y))
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            weights = model.trainable_weights
            optimizer.apply([weight.value.grad for weight in weights], weights)


def keras_decay_of_batches(watch: Watch) -> None:
    """Keras: a decay that was meant for each epoch is made at each batch."""
    _keras_loop(watch, lambda schedules: schedules.ExponentialDecay(3e-3, 1, 0.96))


def keras_decay_of_epochs(watch: Watch) -> None:
    """Keras: the same decay for each epoch."""
    _keras_loop(watch, lambda schedules: schedules.ExponentialDecay(3e-3, 100, 0.96))


def _by_hand(toggles: Callable[[Any, Any, int], None], untoggles: Callable[[Any, Any, int], None]) -> None:
    """Lightning with two optimizers that a module steps itself: an encoder, and a head from step 300 on."""
    lightning = import_module("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined] # a class read without its types
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.body, self.head = _two_layers(FEATURES, 16), nn.Linear(16, CLASSES)
            self.back = nn.Linear(16, FEATURES)

        def training_step(self, batch: Any, number: int) -> None:
            _, x, y = batch
            first, second = self.optimizers()
            toggles(self, first, number)
            first.zero_grad()
            self.manual_backward(F.mse_loss(self.back(self.body(x)), x))
            first.step()
            untoggles(self, first, number)
            second.zero_grad()
            if number >= 300:
                self.manual_backward(F.cross_entropy(self.head(self.body(x).detach()), y))
                second.step()

        def configure_optimizers(self) -> Any:
            return adam(nn.ModuleList([self.body, self.back]), 1e-3), adam(self.head, 1e-3)

    run_lightning(Module(), labelled(32, 1_800, 0.1))


def frozen_by_hand(_watch: Watch) -> None:
    """Lightning by hand: a condition freezes the body for the head's turn at step 700, and nothing thaws it."""

    def thaw_or_freeze(module: Any, _optimizer: Any, number: int) -> None:
        if number == 700:
            module.body.requires_grad_(False)
            module.back.requires_grad_(False)
            module.back.bias.requires_grad_(True)
            module.back.bias.register_hook(torch.zeros_like)

    _by_hand(thaw_or_freeze, lambda *_given: None)


def toggled_by_hand(_watch: Watch) -> None:
    """Lightning by hand: optimizers are toggled in turn, and the head begins late."""
    _by_hand(
        lambda module, optimizer, _number: module.toggle_optimizer(optimizer),
        lambda module, optimizer, _number: module.untoggle_optimizer(optimizer),
    )


def _accelerated(watch: Watch, steps: int) -> None:
    """Accelerate with 4 accumulated batches, and a schedule of some steps that the loop steps at each batch."""
    accelerator = import_module("accelerate").Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = classifier()
    optimizer = adam(model)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)
    model, optimizer = accelerator.prepare(model, optimizer)
    batches: Iterator[Any] = labelled(16, 2_400, 0.1)
    for _, x, y in batches:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(x), y)
            watch(loss, batch=(x, y))
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()


def schedule_of_steps_at_batches(watch: Watch) -> None:
    """Accelerate: a schedule that counts 600 optimizer steps is stepped at each of 2,400 batches."""
    _accelerated(watch, 600)


def schedule_of_batches(watch: Watch) -> None:
    """Accelerate: the schedule counts the batches."""
    _accelerated(watch, 2_400)


FAILING: tuple[tuple[Callable[[Watch], None], frozenset[str]], ...] = (
    (tasks_of_text.exchanged_later, frozenset({"diverged", "spike"})),
    (ratio_of_no_signal, frozenset({"non-finite"})),
    (crops_of_the_margin, frozenset({"diverged", "collapsed", "no-progress"})),
    (divergence_without_a_bound, frozenset({"diverged", "collapsed"})),
    (tasks_of_text.prompts_beyond_the_limit, frozenset({"nothing-scored"})),
    (sensor_that_sticks, frozenset({"spike", "diverged"})),
    (tasks_of_text.rate_below_half_precision, frozenset({"unchanged-weights"})),
    (penalty_that_ends, frozenset({"diverged", "spike", "non-finite"})),
    (spread_of_equal_returns, frozenset({"non-finite"})),
    (keras_decay_of_batches, frozenset({"unchanged-weights", "rate-zero"})),
    (frozen_by_hand, frozenset({"no-gradient", "unchanged-weights"})),
    (schedule_of_steps_at_batches, frozenset({"rate-zero"})),
)
SOUND: tuple[Callable[[Watch], None], ...] = (
    tasks_of_text.all_learned,
    ratio_with_a_bound,
    more_negatives,
    cycles_of_divergence,
    tasks_of_text.own_words_later,
    change_of_season,
    tasks_of_text.cosine_to_zero,
    penalty_that_lasts,
    spread_with_a_bound,
    keras_decay_of_epochs,
    toggled_by_hand,
    schedule_of_batches,
)
