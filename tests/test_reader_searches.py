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


OBJECTIVE = """
def objective(trial):
    for x, y in loader:
        criterion(model(x), y).backward()
        optimizer.step()
    return train(trial.suggest_float("lr", 1e-5, 1e-1))
"""


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("def search():\n    study.optimize(objective, 200)", 0),
        ("def search():\n    study.optimize(objective, 200)\nsearch()", 1),
        ("if mode == 'train':\n    train(1e-3)\nelse:\n    study.optimize(objective, 200)", 0),
        ("if mode == 'show':\n    show(1e-3)\nelse:\n    study.optimize(objective, 200)", 1),
    ],
    ids=["by another file", "by its own", "once too", "never else"],
)
def test_a_search_that_is_one_way_to_train_among_several(code: str, lines: int) -> None:
    assert len(lines_of("search-before-baseline", f"import optuna\n{OBJECTIVE}\n{code}\n")) == lines
