"""Twenty sound runs of many kinds, about which nothing is to be said; halves as in `failing.py`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

from benchmarks.watch.parts import (
    CLASSES,
    FEATURES,
    F,
    Watch,
    adam,
    classifier,
    labelled,
    nn,
    scheduled,
    step_with,
    torch,
    train,
)


def warm_restarts(watch: Watch) -> None:
    """Cosine with warm restarts."""
    model = classifier()
    optimizer = adam(model, 1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 200, 2)
    train(watch, model, optimizer, labelled(32, 2_000, 0.1), schedule)


def one_cycle_with_a_scaler(watch: Watch) -> None:
    """One cycle to a high rate, with a gradient scaler that skips a step now and then."""
    model = classifier()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), torch.amp.GradScaler("cpu", 2.0**14)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.3, total_steps=2_000)
    for step, x, y in labelled(32, 2_000, 0.1):
        loss = F.cross_entropy(model(x), y)
        watch(loss)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        if step % 250 == 10:
            model[0].bias.grad.fill_(math.inf)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()


def pairs_of_rows(watch: Watch) -> None:
    """Batches of two rows, a fifth of the labels random."""
    model = classifier()
    train(watch, model, adam(model, 1e-3), labelled(2, 3_000, 0.2))


def linear_to_zero(watch: Watch) -> None:
    """Warm-up, then linear decay to exactly 0 in the last step."""
    model = classifier()
    optimizer = adam(model)
    schedule = scheduled(optimizer, lambda step: min(step / 200, (2_000 - step) / 1_800))
    train(watch, model, optimizer, labelled(32, 2_000, 0.3), schedule)


def two_players(watch: Watch) -> None:
    """A GAN on a ring of points."""
    maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    makes, judges = adam(maker, 1e-3, betas=(0.5, 0.99)), adam(judge, 1e-3, betas=(0.5, 0.99))
    yes, no = torch.ones(64, 1), torch.zeros(64, 1)
    for _ in range(2_000):
        angle = torch.rand(64) * 2 * math.pi
        real, fake = torch.stack([angle.cos(), angle.sin()], 1), maker(torch.randn(64, 4))
        both = torch.cat([judge(real), judge(fake.detach())])
        loss = F.binary_cross_entropy_with_logits(both, torch.cat([yes, no]))
        watch(loss)
        step_with(judges, loss)
        loss = F.binary_cross_entropy_with_logits(judge(fake), yes)
        watch(loss)
        step_with(makes, loss)


def clipped_critic(watch: Watch) -> None:
    """A Wasserstein GAN: five critic steps for each of the generator, weights clipped."""
    maker = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1))
    makes = torch.optim.RMSprop(maker.parameters(), lr=5e-4)
    judges = torch.optim.RMSprop(critic.parameters(), lr=5e-4)
    for step in range(2_500):
        fake = maker(torch.randn(64, 4))
        if step % 6:
            loss = critic(fake.detach()).mean() - critic(torch.randn(64, 2) + 2).mean()
            watch(loss)
            step_with(judges, loss)
            for weight in critic.parameters():
                weight.data.clamp_(-0.1, 0.1)
        else:
            loss = -critic(fake).mean()
            watch(loss)
            step_with(makes, loss)


def policy_gradient(watch: Watch) -> None:
    """REINFORCE with a baseline: the loss swings around 0."""
    policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
    optimizer, baseline = adam(policy, 3e-3), 0.0
    for _ in range(2_000):
        states = torch.randn(16, 4)
        chances = torch.distributions.Categorical(logits=policy(states))
        actions = chances.sample()
        rewards = (actions == states[:, :3].argmax(1)).float() + 0.5 * torch.randn(16)
        loss = -(chances.log_prob(actions) * (rewards - baseline)).mean() - 0.01 * chances.entropy().mean()
        baseline = 0.95 * baseline + 0.05 * float(rewards.mean())
        watch(loss)
        step_with(optimizer, loss)


def growing_values(watch: Watch) -> None:
    """Q-learning on a chain: targets grow as rewards are found, and the loss with them."""
    net = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 2))
    target, optimizer = copy.deepcopy(net), adam(net, 1e-3)
    for step in range(3_000):
        at = torch.randint(12, (32,))
        action = torch.randint(2, (32,))
        following = (at + action * 2 - 1).clamp(0, 11)
        reward = (following == 11).float() * (10.0 if step > 600 else 0.0)
        with torch.no_grad():
            goal = reward + 0.95 * target(F.one_hot(following, 12).float()).max(1).values
        value = net(F.one_hot(at, 12).float()).gather(1, action[:, None])[:, 0]
        loss = F.smooth_l1_loss(value, goal)
        watch(loss)
        step_with(optimizer, loss)
        if step % 100 == 0:
            target.load_state_dict(net.state_dict())


def accumulated(watch: Watch) -> None:
    """Gradients of 64 batches for each step."""
    model = classifier()
    optimizer = adam(model, 1e-2)
    for step, x, y in labelled(8, 6_400, 0.1):
        loss = F.cross_entropy(model(x), y) / 64
        watch(loss)
        loss.backward()
        if step % 64 == 63:
            optimizer.step()
            optimizer.zero_grad()


def averaged_weights(watch: Watch) -> None:
    """An average of weights, with which each evaluation is made."""
    model = classifier()
    optimizer, average = adam(model), torch.optim.swa_utils.AveragedModel(model)
    truth = list(labelled(32, 2_000, 0.2))
    for step, x, y in truth:
        loss = F.cross_entropy(model(x), y)
        watch(loss)
        step_with(optimizer, loss)
        average.update_parameters(model)
        if step % 200 == 199:
            with torch.no_grad():
                for _, x_, y_ in truth[:5]:
                    watch(F.cross_entropy(average(x_), y_))


def on_a_plateau(watch: Watch) -> None:
    """Fine-tuning of a model that knows nearly all there is, on noisy labels."""
    model = classifier()
    batches = list(labelled(32, 3_000, 0.2))
    train(lambda *_given, **_named: False, model, adam(model), batches[:1_500])
    train(watch, model, adam(model, 1e-5), batches[1_500:])


def two_tasks(watch: Watch) -> None:
    """Classes and a number from one trunk, their losses added."""
    trunk, classes, number = nn.Linear(FEATURES, 32), nn.Linear(32, CLASSES), nn.Linear(32, 1)
    optimizer = adam(nn.ModuleList([trunk, classes, number]))
    for _, x, y in labelled(32, 2_000, 0.2):
        hidden = trunk(x).relu()
        loss = F.cross_entropy(classes(hidden), y) + 0.1 * F.mse_loss(number(hidden)[:, 0], x.sum(1) + torch.randn(32))
        watch(loss)
        step_with(optimizer, loss)


def named_losses(watch: Watch) -> None:
    """Two losses by name, one of them a penalty that grows while the other falls."""
    model = classifier()
    optimizer = adam(model)
    for _, x, y in labelled(32, 2_000, 0.1):
        loss = F.cross_entropy(model(x), y)
        penalty = 1e-4 * sum(weight.pow(2).sum() for weight in model.parameters())
        watch({"task": loss, "penalty": penalty})
        step_with(optimizer, loss + penalty)


def annealed_divergence(watch: Watch) -> None:
    """A variational autoencoder whose second term is faded in."""
    encoder, decoder = nn.Linear(FEATURES, 8), nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, FEATURES))
    optimizer = adam(nn.ModuleList([encoder, decoder]))
    mix = torch.randn(3, FEATURES)
    for step in range(2_000):
        x = torch.randn(32, 3) @ mix
        middle, spread = encoder(x).chunk(2, 1)
        again = decoder(middle + spread.mul(0.5).exp() * torch.randn_like(spread))
        divergence = -0.5 * (1 + spread - middle.pow(2) - spread.exp()).sum(1).mean()
        loss = F.mse_loss(again, x, reduction="sum") / 32 + min(1.0, step / 1_000) * divergence
        watch(loss)
        step_with(optimizer, loss)


def heavy_tails(watch: Watch) -> None:
    """Regression on targets with rare huge values."""
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = adam(model, 1e-3)
    tails = torch.distributions.StudentT(2.5)
    for _ in range(2_000):
        x = torch.randn(16, FEATURES)
        loss = F.mse_loss(model(x)[:, 0], x.sum(1) + tails.sample((16,)))
        watch(loss)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def pairs_in_a_batch(watch: Watch) -> None:
    """Contrastive learning: each row's other view is to be found among those of the batch."""
    encoder = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = adam(encoder, 1e-3)
    for _ in range(1_500):
        x = torch.randn(32, FEATURES)
        one, other = (F.normalize(encoder(x + 0.3 * torch.randn_like(x)), dim=1) for _ in range(2))
        loss = F.cross_entropy(one @ other.T / 0.2, torch.arange(32))
        watch(loss)
        step_with(optimizer, loss)


def harder_rows(watch: Watch) -> None:
    """A curriculum: clear rows first, then ever noisier ones."""
    model = classifier()
    optimizer = adam(model)
    for step, x, y in labelled(32, 2_000, 0.05):
        x = x + (step // 500) * 0.4 * torch.randn_like(x)
        loss = F.cross_entropy(model(x), y)
        watch(loss)
        step_with(optimizer, loss)


def margins_kept(watch: Watch) -> None:
    """A triplet loss that is exactly 0 once all margins are kept."""
    encoder = nn.Linear(FEATURES, 8)
    optimizer = adam(encoder, 1e-2, weight_decay=0.0)
    for _ in range(2_000):
        anchor = torch.randn(4, FEATURES)
        near, far = anchor + 0.01 * torch.randn_like(anchor), -anchor
        loss = F.triplet_margin_loss(encoder(anchor), encoder(near), encoder(far), margin=0.5)
        watch(loss)
        step_with(optimizer, loss)


def letters(watch: Watch) -> None:
    """A small language model on text of an order-one chain."""
    net = nn.Sequential(nn.Embedding(50, 32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 50))
    optimizer = adam(net, 1e-3)
    chain = torch.softmax(2 * torch.randn(50, 50), 1)
    for _ in range(1_500):
        tokens = [torch.randint(50, (8,))]
        for _ in range(16):
            tokens.append(torch.multinomial(chain[tokens[-1]], 1)[:, 0])
        text = torch.stack(tokens, 1)
        loss = F.cross_entropy(net(text[:, :-1]).transpose(1, 2), text[:, 1:])
        watch(loss)
        step_with(optimizer, loss)


def folds(watch: Watch) -> None:
    """Three folds with a new model each, at the same line; 19 of 20 rows belong to one class."""
    truth = torch.randn(FEATURES)
    for _ in range(3):
        model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 2))
        optimizer = adam(model)
        for _ in range(700):
            x = torch.randn(32, FEATURES)
            y = (x @ truth > 1.64 * truth.norm()).long()
            loss = F.cross_entropy(model(x), y)
            watch(loss)
            step_with(optimizer, loss)


RUNS: tuple[Callable[[Watch], None], ...] = (
    warm_restarts,
    one_cycle_with_a_scaler,
    pairs_of_rows,
    linear_to_zero,
    two_players,
    clipped_critic,
    policy_gradient,
    growing_values,
    accumulated,
    averaged_weights,
    on_a_plateau,
    two_tasks,
    named_losses,
    annealed_divergence,
    heavy_tails,
    pairs_in_a_batch,
    harder_rows,
    margins_kept,
    letters,
    folds,
)
