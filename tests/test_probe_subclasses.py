"""Trainers of other libraries than transformers: correct scripts pass every stage, and nothing is confirmed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probing import Probed, path_for_lintrain, probe

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("assets", "warm"), pytest.mark.turns(one_in=3, of="file")]

PASSED = ("dataset", "batch", "forward", "backward", "step", "evaluation")
PREFERENCES = """
from datasets import Dataset

answers = [{"prompt": f"Count to {n}.", "chosen": f" {list(range(n))}", "rejected": " No."} for n in range(2, 26)]
rows = Dataset.from_list(answers).train_test_split(test_size=0.3, seed=1)
"""
TEXTS = """
from datasets import Dataset

lines = [{"text": f"Name a number above {n}. {n + 1} is."} for n in range(40)]
rows = Dataset.from_list(lines).train_test_split(test_size=0.3, seed=1)
"""
SFT = (
    TEXTS
    + """
from trl import SFTConfig, SFTTrainer

args = SFTConfig("out", per_device_train_batch_size=4, gradient_accumulation_steps=2, eval_strategy="epoch", OPTIONS)
SFTTrainer("gpt2", args, train_dataset=rows["train"], eval_dataset=rows["test"]).train()
"""
)
PREFERENCE = (
    PREFERENCES
    + """
from trl import KINDConfig, KINDTrainer

args = KINDConfig("out", per_device_train_batch_size=4, gradient_accumulation_steps=2, eval_strategy="epoch", OPTIONS)
KINDTrainer("gpt2", args=args, train_dataset=rows["train"], eval_dataset=rows["test"]).train()
"""
)
REWARDED = (
    PREFERENCES
    + """
from trl import GRPOConfig, GRPOTrainer


def different_letters(completions, **others):
    return [float(len(set(text))) for text in completions]


prompts = rows.remove_columns(["chosen", "rejected"])
args = GRPOConfig("out", per_device_train_batch_size=4, num_generations=4, max_completion_length=8,
                  per_device_eval_batch_size=4, eval_strategy="epoch")
GRPOTrainer("gpt2", different_letters, args, train_dataset=prompts["train"], eval_dataset=prompts["test"]).train()
"""
)
ADAPTED = """
from peft import LoraConfig
adapter = LoraConfig(task_type="CAUSAL_LM", target_modules=["c_attn"])
"""
SENTENCES = """
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling, Transformer

words = Transformer("distilbert-base-uncased", max_seq_length=32)
body = SentenceTransformer(modules=[words, Pooling(words.get_word_embedding_dimension())])
"""
PAIRS = (
    SENTENCES
    + """
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses

said = [f"a man walks {n}" for n in range(40)]
meant = [f"a person is walking {n}" for n in range(40)]
pairs = Dataset.from_dict({"anchor": said, "positive": meant}).train_test_split(test_size=0.3, seed=1)
scored = Dataset.from_dict({"one": said, "other": meant, "score": [n / 40 for n in range(40)]})
scored = scored.train_test_split(test_size=0.3, seed=1)
scores = losses.CoSENTLoss(body)
args = SentenceTransformerTrainingArguments("out", per_device_train_batch_size=8, eval_strategy="epoch")
SentenceTransformerTrainer(
    body,
    args,
    train_dataset={"pairs": pairs["train"], "scored": scored["train"]},
    eval_dataset={"pairs": pairs["test"], "scored": scored["test"]},
    loss={"pairs": losses.CachedMultipleNegativesRankingLoss(body, mini_batch_size=4), "scored": scores},
).train()
"""
)
CROSSED = """
from datasets import Dataset
from sentence_transformers.cross_encoder import CrossEncoder, CrossEncoderTrainer, CrossEncoderTrainingArguments
from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

model = CrossEncoder("distilbert-base-uncased", num_labels=1)
asked, said = [f"who walks {n}" for n in range(40)], [f"a person is walking {n}" for n in range(40)]
rows = Dataset.from_dict({"query": asked, "answer": said, "label": [float(n % 2) for n in range(40)]})
rows = rows.train_test_split(test_size=0.3, seed=1)
args = CrossEncoderTrainingArguments("out", eval_strategy="epoch")
loss = BinaryCrossEntropyLoss(model)
CrossEncoderTrainer(model, args, train_dataset=rows["train"], eval_dataset=rows["test"], loss=loss).train()
"""
JUDGED = (
    SENTENCES
    + """
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments, losses
from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

said = [f"a man walks {n}" for n in range(40)]
scores = [n / 40 for n in range(40)]
scored = Dataset.from_dict({"one": said, "other": said[::-1], "score": scores})
rows = scored.train_test_split(test_size=0.3, seed=1)
args = SentenceTransformerTrainingArguments(
    "out", eval_strategy="epoch", save_strategy="epoch", load_best_model_at_end=True, metric_for_best_model=METRIC
)
SentenceTransformerTrainer(
    body,
    args,
    train_dataset=rows["train"],
    eval_dataset=rows["test"],
    loss=losses.CoSENTLoss(body),
    evaluator=EmbeddingSimilarityEvaluator(said, said[::-1], scores, name="own"),
).train()
"""
)
FEW_SHOTS = (
    SENTENCES
    + """
from setfit import SetFitHead, SetFitModel, Trainer, TrainingArguments
from sklearn.linear_model import LogisticRegression

texts = [f"a man walks {n}" if n % 2 else f"the sea is blue {n}" for n in range(40)]
rows = Dataset.from_dict({"text": texts, "label": [n % 2 for n in range(40)]}).train_test_split(test_size=0.3, seed=1)
model = SetFitModel(model_body=body, model_head=LogisticRegression())
args = TrainingArguments(batch_size=8, num_epochs=1)
trainer = Trainer(model, args, train_dataset=rows["train"], eval_dataset=rows["test"])
trainer.train()
print(trainer.evaluate())
"""
)


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)


def passes(folder: Path, script: str, *options: str) -> Probed:
    """Probe a correct script: every stage passes and nothing is confirmed."""
    probed = probe(folder, script, *options)
    assert {name: probed.stages[name] for name in PASSED} == dict.fromkeys(PASSED, "passed"), probed.out
    assert (probed.code, [one for one in probed.verdicts if one[2] == "confirmed"]) == (0, [])
    return probed


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("options", ["max_length=32", "max_length=32, packing=True"])
def test_instructions_of_trl(tmp_path: Path, options: str) -> None:
    assert passes(tmp_path, SFT.replace("OPTIONS", options)).run["trainer"] == "SFTTrainer"


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("options", ["max_length=64", "max_length=64, precompute_ref_log_probs=True"])
def test_preferences_of_trl(tmp_path: Path, options: str) -> None:
    probed = passes(tmp_path, PREFERENCE.replace("KIND", "DPO").replace("OPTIONS", options))
    assert abs(probed.run["forward"]["losses"][0] - 0.693) < 0.001
    assert probed.run["accumulation"] is None


def test_a_reward_model_of_trl(tmp_path: Path) -> None:
    probed = passes(tmp_path, PREFERENCE.replace("KIND", "Reward").replace("OPTIONS", "max_length=64"))
    assert probed.run["accumulation"] is None


def test_rewarded_generations_of_trl_have_no_batch_to_overfit(tmp_path: Path) -> None:
    probed = passes(tmp_path, REWARDED, "--overfit", "2")
    assert probed.stages["overfit"] == "not reached"


def test_equal_rewards_tell_nothing_of_the_weights_of_an_adapter(tmp_path: Path) -> None:
    script = REWARDED.replace("float(len(set(text)))", "1.0").replace("GRPOTrainer(", ADAPTED + "GRPOTrainer(")
    probed = probe(tmp_path, script.replace('["test"]).train()', '["test"], peft_config=adapter).train()'))
    assert probed.stages["backward"] == "passed", probed.out
    assert {rule for rule, _, outcome in probed.verdicts if outcome == "confirmed"} == {"equal-rewards"}


@pytest.mark.turns(one_in=1)
def test_several_datasets_with_a_loss_for_each(tmp_path: Path) -> None:
    probed = passes(tmp_path, PAIRS, "--overfit", "2")
    assert probed.stages["overfit"] == "passed"
    assert probed.run["schedule"]["steps"] == 24


def test_an_evaluator_gives_the_metric_that_chooses_the_best_model(tmp_path: Path) -> None:
    passes(tmp_path, JUDGED.replace("METRIC", '"own_spearman_cosine"'))
    missing = probe(tmp_path, JUDGED.replace("METRIC", '"other_spearman_cosine"'))
    assert ("missing-best-metric", "confirmed") in {(rule, outcome) for rule, _, outcome in missing.verdicts}


def test_a_cross_encoder(tmp_path: Path) -> None:
    passes(tmp_path, CROSSED)


def test_the_head_of_setfit_is_fitted_and_evaluated(tmp_path: Path) -> None:
    probed = passes(tmp_path, FEW_SHOTS)
    assert list(probed.run["evaluation"]["metrics"]) == ["accuracy"]
    assert "the head was fitted on 28 of 28 rows" in probed.run["shortcuts"]


def test_a_head_of_torch_is_fitted_without_an_evaluation_that_nobody_asks_for(tmp_path: Path) -> None:
    script = FEW_SHOTS.replace("LogisticRegression()", "SetFitHead(in_features=64, out_features=2)")
    probed = passes(tmp_path, script.replace("print(trainer.evaluate())", ""), "--overfit", "2")
    assert probed.stages["overfit"] == "passed"
    assert probed.run["evaluation"] is None


def test_a_head_that_does_not_fit_the_body_fails_the_evaluation_stage(tmp_path: Path) -> None:
    probed = probe(tmp_path, FEW_SHOTS.replace("LogisticRegression()", "SetFitHead(in_features=32, out_features=2)"))
    assert (probed.code, probed.stages["step"], probed.stages["evaluation"]) == (1, "passed", "failed")
    failed = next(stage for stage in probed.run["stages"] if stage["name"] == "evaluation")
    assert failed["reason"] == "fitting the head"
