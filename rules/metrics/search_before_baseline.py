"""A search of many runs begins before there is a score to compare with.

The best of a hundred runs looks good by itself. Whether it is, only a comparison tells: the score of the most frequent
class, of a simple model, or of one run with usual settings. A mistake in the data or in the loss is in each of the
runs, and such a comparison shows it in minutes in place of days.

## Bad

    import optuna

    def objective(trial):
        net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
        optimizer = torch.optim.Adam(net.parameters(), lr=trial.suggest_float("lr", 1e-5, 1e-1, log=True))
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            hits = net(features).argmax(-1) == targets
        return hits.float().mean().item()

    study = optuna.create_study(direction="maximize")
    study.optimize(objective, n_trials=1000)  # <- search-before-baseline

## Good

    import optuna

    def objective(trial):
        net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
        optimizer = torch.optim.Adam(net.parameters(), lr=trial.suggest_float("lr", 1e-5, 1e-1, log=True))
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            hits = net(features).argmax(-1) == targets
        return hits.float().mean().item()

    baseline = targets.bincount().max().item() / len(targets)
    study = optuna.create_study(direction="maximize")
    study.enqueue_trial({"lr": 1e-3})
    study.optimize(objective, n_trials=1000)
    print(study.best_value, baseline)

## When it is fine

A few runs are a comparison themselves, and a search that a time ends may have few:

    import optuna

    def objective(trial):
        net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 3))
        optimizer = torch.optim.Adam(net.parameters(), lr=trial.suggest_float("lr", 1e-5, 1e-1, log=True))
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            hits = net(features).argmax(-1) == targets
        return hits.float().mean().item()

    study = optuna.create_study(direction="maximize")
    study.optimize(objective, n_trials=10)
    study.optimize(objective, n_trials=1000, timeout=3600)

So is a Trainer that was evaluated before:

    rows, held_out = tokenized["train"], tokenized["validation_matched"]
    trainer = Trainer(None, args, collator, train_dataset=rows, eval_dataset=held_out, model_init=lambda: model)
    trainer.train()
    print(trainer.evaluate())
    trainer.hyperparameter_search(n_trials=100)

## Fix

None: what to compare with is for the author to say. `lintrain probe` shows the score of the constant answer with each
metric, and `lintrain probe --try` compares a few values in short runs.

## References

Karpathy: A Recipe for Training Neural Networks, "dumb baselines"; scikit-learn documentation, `DummyClassifier`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import searches
from lintrain.rule import Finding, Level, Pipeline, Rule

MANY = 50
"""Runs from which a search takes so long that what it is compared with costs nothing."""


class SearchBeforeBaseline(Rule):
    level = Level.NOTE
    keywords = "optimize|hyperparameter_search|num_samples|wandb|keras_tuner|SearchCV"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        many = [search for search in searches.searches(pipeline.source) if search.runs >= MANY]
        if not many or any(searches.knows_baseline(source) for source in pipeline.sources.values()):
            return
        for search in many:
            is_compared = searches.scores_before(pipeline.source, search)
            if not is_compared and not searches.is_one_of_several(pipeline.source, search):
                yield self.finding(
                    search.location,
                    f"`{search.called}` begins {search.runs} runs, and the script has no score to compare them with",
                    help="compare with the constant answer and with one run at usual settings first",
                )
