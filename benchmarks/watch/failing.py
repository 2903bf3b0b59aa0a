"""Twenty runs that fail late, each with the kinds of signs that name it.

The first, third, … are the design half: thresholds were chosen on them. The others were written before, and only
measured.
"""

from __future__ import annotations

import copy
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


def nan_in_a_batch(watch: Watch) -> None:
    """One batch holds a NaN, at step 300."""
    model = classifier()
    batches = ((step, x * (float("nan") if step == 300 else 1), y) for step, x, y in labelled(32, 600))
    train(watch, model, adam(model), batches)


def spread_of_one_row(watch: Watch) -> None:
    """Rows are divided by the spread of their batch, and one batch has one row."""
    model = classifier()
    optimizer = adam(model)
    for step, x, y in labelled(32, 1_000):
        rows = 1 if step == 700 else 32
        x, y = x[:rows], y[:rows]
        loss = F.cross_entropy(model((x - x.mean(0)) / x.std(0)), y)
        watch(loss, batch=(x, y))
        step_with(optimizer, loss)


def rows_in_another_unit(watch: Watch) -> None:
    """One file of the data is in millimetres."""
    model = classifier()
    batches = ((step, x * (1_000 if step == 500 else 1), y) for step, x, y in labelled(32, 800))
    train(watch, model, adam(model), batches)


def flipped_labels(watch: Watch) -> None:
    """From step 800 on the labels are those of another version of the data."""
    model = classifier()
    batches = ((step, x, (y + (step >= 800)) % CLASSES) for step, x, y in labelled(32, 1_500))
    train(watch, model, adam(model, 3e-4), batches)


def schedule_of_epochs(watch: Watch) -> None:
    """A linear schedule is planned for 400 steps, and 1,500 are taken."""
    model = classifier()
    optimizer = adam(model)
    schedule = scheduled(optimizer, lambda step: max(0.0, 1 - step / 400))
    train(watch, model, optimizer, labelled(32, 1_500), schedule)


def decay_at_each_step(watch: Watch) -> None:
    """A decay that was meant for epochs is applied at each step."""
    model = classifier()
    optimizer = adam(model)
    train(watch, model, optimizer, labelled(32, 1_500), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9))


def replaced_model(watch: Watch) -> None:
    """A copy of the model is trained on from step 600, and the optimizer holds the old weights."""
    model = classifier()
    optimizer = adam(model)
    for step, x, y in labelled(32, 2_000):
        if step == 600:
            model = copy.deepcopy(model)
        loss = F.cross_entropy(model(x), y)
        watch(loss)
        step_with(optimizer, loss)


def last_step_too_early(watch: Watch) -> None:
    """A condition of a warm-up lets the optimizer step for the first 500 batches only."""
    model = classifier()
    optimizer = adam(model)
    for step, x, y in labelled(32, 2_000):
        loss = F.cross_entropy(model(x), y)
        watch(loss)
        optimizer.zero_grad()
        loss.backward()
        if step < 500:
            optimizer.step()


def empty_batches(watch: Watch) -> None:
    """The data ends at step 600, and the loader goes on with batches of no rows."""
    model = classifier()
    batches = ((step, x[: 0 if step >= 600 else 32], y[: 0 if step >= 600 else 32]) for step, x, y in labelled(32, 700))
    train(watch, model, adam(model), batches)


def ignored_targets(watch: Watch) -> None:
    """The data ends at step 600, and what follows is padding, which a sum of losses leaves out."""
    model = classifier()
    optimizer = adam(model)
    for step, x, y in labelled(32, 1_200):
        y = torch.full_like(y, -100) if step >= 600 else y
        loss = F.cross_entropy(model(x), y, reduction="sum") / 32
        watch(loss, batch=(x, y))
        step_with(optimizer, loss)


def rate_set_by_a_restart(watch: Watch) -> None:
    """The schedule multiplies the rate by 1,000 at step 700."""
    model = classifier()
    optimizer = adam(model)
    schedule = scheduled(optimizer, lambda step: 1_000.0 if step >= 700 else 1.0)
    train(watch, model, optimizer, labelled(32, 1_500), schedule)


def dead_activations(watch: Watch) -> None:
    """One huge step at 500 leaves every hidden unit below 0."""
    model = classifier()
    optimizer = adam(model, 1e-3)
    for step, x, y in labelled(32, 2_000):
        if step == 500:
            with torch.no_grad():
                hidden = model[0]
                hidden.bias.fill_(-50.0)
        loss = F.cross_entropy(model(x), y)
        watch(loss)
        step_with(optimizer, loss)


def half_precision_overflow(watch: Watch) -> None:
    """Activations go through float16, and rows of step 500 and later exceed it."""
    model = classifier()
    optimizer = adam(model)
    for step, x, y in labelled(32, 700):
        scale = 1e5 if step >= 500 else 1.0
        loss = F.cross_entropy(model((x * scale).half().float()), y)
        watch(loss, batch=(x, y))
        step_with(optimizer, loss)


def skipped_by_the_scaler(watch: Watch) -> None:
    """From step 500 on a root of 0 makes gradients infinite: the scaler skips each step, and the loss is finite."""
    model = classifier()
    optimizer, scaler = adam(model), torch.amp.GradScaler("cpu", init_scale=1024.0)
    for step, x, y in labelled(32, 2_000):
        loss = F.cross_entropy(model(x), y)
        if step >= 500:
            loss = loss + (model[0].weight.sum() * 0).sqrt()
        watch(loss)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def exploding_recurrence(watch: Watch) -> None:
    """A recurrent net without clipping, at a rate that lets its recurrent weights grow."""
    cell, head = nn.RNN(4, 32, nonlinearity="relu", batch_first=True), nn.Linear(32, 1)
    both = nn.ModuleList([cell, head])
    optimizer = torch.optim.SGD(both.parameters(), lr=1e-3, momentum=0.9)
    schedule = scheduled(optimizer, lambda step: 1.01**step)
    for _ in range(1_000):
        x = torch.randn(16, 40, 4)
        loss = F.mse_loss(head(cell(x)[0][:, -1])[:, 0], x.sum((1, 2)) / 10)
        watch(loss, batch=x)
        step_with(optimizer, loss)
        schedule.step()


def cleared_before_the_step(watch: Watch) -> None:
    """From step 500 on gradients are cleared between the backward pass and the step; weight decay goes on."""
    model = classifier()
    optimizer = adam(model)
    for step, x, y in labelled(32, 1_500):
        loss = F.cross_entropy(model(x), y)
        watch(loss)
        optimizer.zero_grad()
        loss.backward()
        if step >= 500:
            optimizer.zero_grad(set_to_none=False)
        optimizer.step()


def unrelated_labels(watch: Watch) -> None:
    """Labels are in another order than the rows."""
    model = classifier()
    batches = ((step, x, y[torch.randperm(len(y))]) for step, x, y in labelled(32, 2_000))
    train(watch, model, adam(model, 1e-3), batches)


def warm_up_to_ten(watch: Watch) -> None:
    """A warm-up over 1,500 steps to a rate of 10."""
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=10.0, momentum=0.9)
    schedule = scheduled(optimizer, lambda step: min(1.0, step / 1_500))
    train(watch, model, optimizer, labelled(32, 2_000), schedule)


def outputs_cut_at_zero(watch: Watch) -> None:
    """A last activation that is dead: a regression answers 0 for every row."""
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 1), nn.ReLU())
    with torch.no_grad():
        last = model[2]
        last.bias.fill_(-20.0)
    optimizer = adam(model, 1e-3)
    for _ in range(1_500):
        x = torch.randn(32, FEATURES)
        loss = F.mse_loss(model(x)[:, 0], x.sum(1))
        watch(loss)
        step_with(optimizer, loss)


def overfitted_rows(watch: Watch) -> None:
    """Forty rows with noisy labels are trained on until the loss of evaluation rises."""
    model = classifier(128)
    optimizer = adam(model, 1e-3)
    batches = list(labelled(120, 1, noise=0.4))
    _, x, y = batches[0]
    for step in range(1_500):
        rows = torch.randperm(40)[:16]
        loss = F.cross_entropy(model(x[rows]), y[rows])
        watch(loss)
        step_with(optimizer, loss)
        if step % 100 == 99:
            with torch.no_grad():
                watch(F.cross_entropy(model(x[40:]), y[40:]))


RUNS: tuple[tuple[Callable[[Watch], None], frozenset[str]], ...] = (
    (nan_in_a_batch, frozenset({"non-finite"})),
    (spread_of_one_row, frozenset({"non-finite"})),
    (rows_in_another_unit, frozenset({"spike"})),
    (flipped_labels, frozenset({"diverged"})),
    (schedule_of_epochs, frozenset({"rate-zero"})),
    (decay_at_each_step, frozenset({"rate-zero"})),
    (replaced_model, frozenset({"unchanged-weights", "no-gradient"})),
    (last_step_too_early, frozenset({"unchanged-weights"})),
    (empty_batches, frozenset({"non-finite"})),
    (ignored_targets, frozenset({"nothing-scored"})),
    (rate_set_by_a_restart, frozenset({"diverged", "spike", "collapsed"})),
    (dead_activations, frozenset({"diverged", "collapsed", "no-progress"})),
    (half_precision_overflow, frozenset({"non-finite"})),
    (skipped_by_the_scaler, frozenset({"unchanged-weights"})),
    (exploding_recurrence, frozenset({"non-finite", "spike", "diverged"})),
    (cleared_before_the_step, frozenset({"no-gradient"})),
    (unrelated_labels, frozenset({"no-progress"})),
    (warm_up_to_ten, frozenset({"diverged", "collapsed", "non-finite", "spike"})),
    (outputs_cut_at_zero, frozenset({"collapsed", "unchanged-weights", "no-gradient"})),
    (overfitted_rows, frozenset({"overfitting"})),
)
