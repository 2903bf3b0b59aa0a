"""Rules about Trainers on code as people write it: what is certain is reported, what may be otherwise is not."""

from __future__ import annotations

import pytest

from tests.test_reader_trainers import found

ARGUMENTS = "args = TrainingArguments('out', {0})\n"
TRAINS = "trainer = Trainer(model, args, eval_dataset=data, compute_metrics=judge)\ntrainer.train()\n"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        (ARGUMENTS.format("eval_steps=10") + TRAINS, 1),
        (ARGUMENTS.format("eval_steps=10") + TRAINS + "trainer.evaluate()", 0),
        (ARGUMENTS.format("eval_steps=10") + TRAINS + "report(trainer)", 0),
        (ARGUMENTS.format("eval_strategy='no'") + TRAINS, 0),
        (ARGUMENTS.format("**options") + TRAINS, 0),
        (ARGUMENTS.format("eval_on_start=True") + TRAINS, 0),
        (ARGUMENTS.format("eval_steps=10") + TRAINS.replace("judge", "judge, callbacks=[Own()]"), 0),
        (ARGUMENTS.format("eval_steps=10") + TRAINS.replace("trainer.train()", "own.add_callback(x)"), 0),
    ],
)
def test_settings_that_nothing_uses_are_told_only_where_nothing_can_evaluate(code: str, count: int) -> None:
    assert len(found("unused-eval-settings", code)) == count


BEST = "eval_strategy='epoch', save_strategy='epoch', load_best_model_at_end=True, metric_for_best_model="


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        (BEST + "'wer'", 1),
        (BEST + "'eval_wer'", 1),
        (BEST + "'wer', greater_is_better=False", 0),
        (BEST + "'wer', greater_is_better=best", 0),
        (BEST + "'eval_loss'", 0),
        (BEST + "'f1'", 0),
        (BEST + "metric", 0),
        ("metric_for_best_model='wer'", 0),
    ],
)
def test_the_direction_of_a_metric_is_told_where_the_best_checkpoint_matters(arguments: str, count: int) -> None:
    assert len(found("wrong-metric-direction", ARGUMENTS.format(arguments))) == count


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ("load_best_model_at_end=True", 1),
        ("load_best_model_at_end=wanted", 0),
        ("load_best_model_at_end=True, eval_strategy='steps'", 0),
        ("load_best_model_at_end=True, eval_strategy='steps', eval_steps=300", 1),
        ("load_best_model_at_end=True, eval_strategy='steps', eval_steps=0.1", 0),
        ("load_best_model_at_end=True, eval_strategy='steps', logging_steps=200", 1),
        ("load_best_model_at_end=True, eval_strategy='epoch', save_strategy=when", 0),
        ("load_best_model_at_end=True, eval_strategy='epoch', save_strategy='best'", 0),
    ],
)
def test_strategies_are_compared_with_their_defaults(arguments: str, count: int) -> None:
    assert len(found("unmatched-save-strategy", ARGUMENTS.format(arguments))) == count


JUDGED = """
def judge(p):
    logits, labels = p
    {body}
    return {{'f1': {score}}}
Trainer(model, compute_metrics=judge)
"""


@pytest.mark.parametrize(
    ("body", "score", "count"),
    [
        ("preds = np.argmax(logits, axis=-1)", "f1_score(labels, preds)", 1),
        ("preds = np.argmax(logits, axis=-1)", "f1_score(labels, preds, average='macro')", 0),
        ("preds = np.argmax(logits, axis=-1)", "f1_score(labels, preds, **options)", 0),
        ("preds = np.argmax(logits, axis=-1)", "f1_score(labels == 2, preds == 2)", 0),
        ("preds = np.where(np.argmax(logits, -1) == 2, 1, 0)", "f1_score(labels, preds)", 0),
        ("preds = merge(logits)", "f1_score(labels, preds)", 0),
        ("preds = np.argmax(logits, axis=-1)", "precision_recall_fscore_support(labels, preds)[2]", 0),
    ],
)
def test_a_binary_average_is_told_where_all_classes_are_compared(body: str, score: str, count: int) -> None:
    assert len(found("binary-average", JUDGED.format(body=body, score=score))) == count


@pytest.mark.parametrize(
    ("returned", "count"),
    [
        ("accuracy_score(p.label_ids, p.predictions.argmax(-1))", 1),
        ("(p.predictions.argmax(-1) == p.label_ids).mean()", 1),
        ("{'accuracy': 1.0}", 0),
        ("evaluate.load('accuracy').compute(predictions=p[0], references=p[1])", 0),
        ("evaluate.load('accuracy').compute(predictions=p[0], references=p[1])['accuracy']", 1),
        ("compute(p)", 0),
    ],
)
def test_what_a_metric_function_returns_must_be_known_to_be_bare(returned: str, count: int) -> None:
    code = ARGUMENTS.format("eval_strategy='epoch'") + f"def judge(p):\n    return {returned}\n" + TRAINS
    assert len(found("non-dict-metrics", code)) == count


OWN_LOSS = """
model = AutoModelForSequenceClassification.from_pretrained("bert-base-cased")
class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        {0}
        return criterion(outputs.logits, inputs["labels"])
trainer = Weighted(model, TrainingArguments("out", learning_rate=5e-3), train_dataset=data)
"""


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("outputs = model(**inputs)", 1),
        ("outputs = own(model, inputs)", 0),
        ("outputs = model.classifier(inputs['hidden'])", 0),
        ("outputs = model(**inputs); outputs.hidden.detach()", 0),
        ("with torch.no_grad(): outputs = model(**inputs)", 0),
    ],
)
def test_a_high_rate_is_told_with_a_loss_of_ones_own_where_all_of_the_model_learns_by_it(line: str, count: int) -> None:
    assert len(found("high-learning-rate", OWN_LOSS.format(line))) == count


WORDS = """
from datasets import Dataset
model = AutoModelForTokenClassification.from_pretrained("bert-base-cased", num_labels=2)
rows = Dataset.from_dict({0})
trainer = Trainer(model, TrainingArguments("out"), DataCollatorForTokenClassification(tokenizer), rows)
"""


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        ("{'words': [['no', 'food']], 'tags': [[0, 1]]}", 1),
        ("{'words': words, 'tags': [[0, 1]]}", 0),
        ("{'places': [[3, 4]], 'tags': [[0, 1]]}", 0),
        ("{'words': [['no', 'food']], 'input_ids': [[0, 1]]}", 0),
    ],
)
def test_lists_of_words_are_text_that_is_never_tokenized(rows: str, count: int) -> None:
    assert len(found("raw-dataset", WORDS.replace("{0}", rows))) == count
