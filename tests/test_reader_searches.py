"""Searches of many runs, by how each library starts one, and what makes them silent."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of

FORMS = {
    "optuna, by position": ("import optuna", "study.optimize(objective, 200)"),
    "optuna, by a name": ("import optuna", "RUNS = 200\nstudy.optimize(objective, n_trials=RUNS)"),
    "Trainer": ("", "trainer.hyperparameter_search(hp_space=space, n_trials=200)"),
    "Ray Tune": ("from ray import tune", "tune.Tuner(train, tune_config=tune.TuneConfig(num_samples=200)).fit()"),
    "sweep": ("import wandb", "wandb.agent(sweep, function=train, count=200)"),
    "Keras": ("import keras_tuner", "tuner = keras_tuner.RandomSearch(build, objective='loss', max_trials=200)"),
    "grid": (
        "from sklearn.model_selection import GridSearchCV",
        "GridSearchCV(net, {'lr': [1e-4, 1e-3, 1e-2, 1e-1], 'batch_size': [8, 16, 32, 64], 'dropout': [0, 1, 2, 3]})",
    ),
}

TRAINS = """
def objective(trial):
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
"""


def found(imports: str, code: str, before: str = "") -> int:
    return len(lines_of("search-before-baseline", f"{imports}\n{TRAINS}\n{before}\n{code}\n"))


@pytest.mark.parametrize("form", FORMS)
def test_a_search_of_many_runs_is_noted(form: str) -> None:
    assert found(*FORMS[form]) == 1


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "before",
    [
        "# accuracy of the majority class: 0.61",
        "baseline = evaluate_once(model)",
        "print(trainer.evaluate())",
        "dummy = DummyClassifier().fit(x, y)",
    ],
)
def test_a_script_that_has_something_to_compare_with_is_left_alone(form: str, before: str) -> None:
    assert found(*FORMS[form], before) == 0


@pytest.mark.parametrize(
    ("imports", "code"),
    [
        ("import optuna", "study.optimize(objective, n_trials=20)"),
        ("import optuna", "study.optimize(objective, n_trials=args.trials)"),
        ("import optuna", "study.optimize(objective, n_trials=500, timeout=600)"),
        ("import optuna", "n = 10\nn = 200\nstudy.optimize(objective, n_trials=n)"),
        ("import scipy", "study.optimize(objective, n_trials=200)"),
        ("import torch", "torch.multinomial(weights, num_samples=200)"),
    ],
)
def test_a_search_of_few_runs_or_of_an_unknown_number_is_left_alone(imports: str, code: str) -> None:
    assert found(imports, code) == 0
