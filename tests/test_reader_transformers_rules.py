"""What the rules about models, metrics and library versions keep silent on, and what they must not miss."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.fix import apply
from lintrain.knowledge.target import Target
from lintrain.knowledge.versions import TargetVersions, exactly
from lintrain.model.fixes import Fix
from lintrain.read import read_pipeline
from lintrain.rulebook import load_rules
from lintrain.source.source import Source

IMPORTS = """
import evaluate
import numpy as np
from datasets import ClassLabel, Dataset, Features, Value, load_dataset
from sklearn.metrics import accuracy_score, roc_auc_score
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoModelForSeq2SeqLM
from transformers import HfArgumentParser, Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments

three = load_dataset("glue", "mnli")
accuracy = evaluate.load("accuracy")
def judge(prediction):
    logits, labels = prediction
    return accuracy.compute(predictions=logits, references=labels)
def build(**options):
    return AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", **options)
"""
NEWEST = exactly(transformers="5.23.0", datasets="5.2.0", trl="1.16.0")


def found(rule: str, code: str, targets: TargetVersions = NEWEST, imports: str = IMPORTS) -> list[str]:
    """The messages of one rule."""
    pipeline = read_pipeline(Source("script.py", imports + dedent(code)), targets)
    (known,) = (each for each in load_rules() if each.name == rule)
    return [finding.message for finding in known.rule.check(pipeline)]


@pytest.mark.parametrize(
    "code",
    [
        "Trainer(build(num_labels=count), train_dataset=three['train'])",
        "Trainer(build(num_labels=3), train_dataset=three['train'])",
        "Trainer(build(num_labels=1), train_dataset=three['train'])",
        "Trainer(build(problem_type='regression'), train_dataset=three['train'])",
        "Trainer(build(**options), train_dataset=three['train'])",
        "Trainer(build(), train_dataset=load_dataset('glue', 'mrpc')['train'])",
        "Trainer(build(), train_dataset=load_dataset(name)['train'])",
        "Trainer(build(), train_dataset=three['train'] if big else load_dataset('glue', 'mrpc')['train'])",
        "Trainer(build(), train_dataset=three['train'].map(lambda row: {'label': row['label'] % 2}))",
        "Trainer(AutoModelForSequenceClassification.from_pretrained('me/own'), train_dataset=three['train'])",
        "model = AutoModelForSequenceClassification.from_pretrained('roberta-large-mnli')\n"
        "Trainer(model, train_dataset=three['train'])",
        "model = build()\nmodel.config.num_labels = 3\nTrainer(model, train_dataset=three['train'])",
        "model = build()\nmodel.classifier = head\nTrainer(model, train_dataset=three['train'])",
        "Trainer(build(config=AutoConfig.from_pretrained('x', num_labels=3)), train_dataset=three['train'])",
        "label_names = ['no', 'yes']\nmodel = build()",
    ],
)
def test_a_head_is_left_alone_where_its_size_fits_or_is_not_known(code: str) -> None:
    assert found("missing-num-labels", code) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("Trainer(build(), train_dataset=three['train'])", "has 2 outputs by default"),
        ("Trainer(build(num_labels=2), train_dataset=three['train'])", "has 2 outputs, but"),
        ("Trainer(build(num_labels=4), train_dataset=three['train'])", "has 4 outputs, but"),
        ("label_names = ['no', 'maybe', 'yes']\nmodel = build()", "have 3 classes"),
        ("model = build(num_labels=2, id2label={0: 'a', 1: 'b', 2: 'c'})", "`id2label` has 3 names"),
        ("Trainer(model_init=lambda: build(), train_dataset=three['train'])", "has 2 outputs by default"),
        ("Trainer(build(config=AutoConfig.from_pretrained('x', num_labels=5)), train_dataset=three['train'])", "has 5"),
    ],
)
def test_a_head_of_another_size_is_found(code: str, words: str) -> None:
    (message,) = found("missing-num-labels", code)
    assert words in message


@pytest.mark.parametrize(
    "code",
    [
        "Trainer(build(num_labels=1), compute_metrics=judge)",
        "Trainer(build(num_labels=1 if regression else 3), compute_metrics=judge)",
        "Trainer(unknown, compute_metrics=judge)",
        "Trainer(build(), compute_metrics=judge, preprocess_logits_for_metrics=choose)",
        "class Own(Trainer):\n    def prediction_step(self, *args):\n        return 0\n"
        "Own(build(), compute_metrics=judge)",
        "Trainer(build(), compute_metrics=lambda p: {'auc': roc_auc_score(p.label_ids, p.predictions)})",
        "Trainer(build(), compute_metrics=lambda p: evaluate.load('mse').compute(predictions=p[0], references=p[1]))",
        "Trainer(build(), compute_metrics=lambda p: evaluate.load('glue', task).compute(predictions=p[0]))",
        "Trainer(build(), compute_metrics=lambda p: {'a': accuracy_score(p.label_ids, choose(p.predictions))})",
    ],
)
def test_a_metric_is_left_alone_where_it_may_get_what_it_wants(code: str) -> None:
    assert found("logits-in-metric", code) == []


def test_one_metric_function_of_two_trainers_is_reported_once() -> None:
    assert len(found("logits-in-metric", "for seed in (1, 2):\n    Trainer(build(), compute_metrics=judge)")) == 1
    assert len(found("logits-in-metric", "Trainer(build(), compute_metrics=judge)\n" * 2)) == 1


TUPLES = "def pick(p):\n    return {'a': accuracy_score(p.label_ids, np.argmax(p.predictions, axis=1))}\n"


@pytest.mark.parametrize(
    "code",
    [
        "Trainer(build(), compute_metrics=pick)",
        "Trainer(build(output_hidden_states=False), compute_metrics=pick)",
        "Trainer(build(output_hidden_states=wanted), compute_metrics=pick)",
        "t = Trainer(build(output_hidden_states=True), compute_metrics=pick)\n"
        "t.train(ignore_keys_for_eval=['hidden_states'])",
        "t = Trainer(build(output_hidden_states=True), compute_metrics=pick)\n"
        "t.evaluate(ignore_keys=['hidden_states'])",
        "Seq2SeqTrainer(AutoModelForSeq2SeqLM.from_pretrained('t5-small'),"
        " Seq2SeqTrainingArguments('x', predict_with_generate=True), compute_metrics=pick)",
        "args = Seq2SeqTrainingArguments('x')\n"
        "Seq2SeqTrainer(AutoModelForSeq2SeqLM.from_pretrained('t5-small'), args,"
        " compute_metrics=pick if args.predict_with_generate else None)",
    ],
)
def test_predictions_that_are_no_tuple_are_left_alone(code: str) -> None:
    assert found("tuple-predictions", TUPLES + code) == []


DECODED = (
    "def pick(p):\n    return {'n': len(tokenizer.batch_decode(np.where(p.predictions != -100, p.predictions, 0)))}\n"
)
T5 = "AutoModelForSeq2SeqLM.from_pretrained('t5-small')"


def test_a_metric_function_that_decodes_what_was_not_generated_is_found() -> None:
    code = f"Seq2SeqTrainer({T5}, Seq2SeqTrainingArguments('x'), compute_metrics=pick)"
    assert found("missing-predict-with-generate", DECODED + code) == [
        "the metric compares texts, but evaluation does not generate any"
    ]
    assert found("tuple-predictions", DECODED + code) == []


@pytest.mark.parametrize("wanted", ["True", "wanted"])
def test_a_metric_function_that_decodes_what_may_be_generated_is_left_alone(wanted: str) -> None:
    arguments = f"Seq2SeqTrainingArguments('x', predict_with_generate={wanted})"
    code = f"Seq2SeqTrainer({T5}, {arguments}, compute_metrics=pick)"
    assert found("tuple-predictions", DECODED + code) == found("missing-predict-with-generate", DECODED + code) == []


def test_the_tuple_of_an_encoder_decoder_is_found() -> None:
    code = "Trainer(AutoModelForSeq2SeqLM.from_pretrained('t5-small'), compute_metrics=pick)"
    assert len(found("tuple-predictions", TUPLES + code)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "Trainer(model, TrainingArguments('x', eval_strategy='no'))",
        "Trainer(model, TrainingArguments('x'))",
        "Trainer(model, TrainingArguments('x', eval_strategy=strategy))",
        "Trainer(model, TrainingArguments('x', eval_strategy='epoch'), eval_dataset=rows)",
        "Trainer(model, TrainingArguments('x', eval_strategy='epoch'), eval_dataset=rows if wanted else None)",
        "Trainer(model, TrainingArguments('x', eval_strategy='epoch'), **options)",
        "t = Trainer(model, TrainingArguments('x', eval_strategy='epoch'))\nt.eval_dataset = rows",
        "(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\nTrainer(model, args)",
        "class Own(Trainer):\n    def get_eval_dataloader(self, eval_dataset=None):\n        return loader\n"
        "Own(model, TrainingArguments('x', eval_strategy='epoch'))",
        "Trainer(model, TrainingArguments('x')).evaluate(rows)",
        "Trainer(model, TrainingArguments('x')).evaluate(eval_dataset=rows)",
    ],
)
def test_evaluation_with_data_or_without_a_wish_is_left_alone(code: str) -> None:
    assert found("missing-eval-dataset", code) == []


@pytest.mark.parametrize(
    "code",
    [
        "Trainer(model, TrainingArguments('x', eval_strategy='steps'), None, rows)",
        "Trainer(model, TrainingArguments('x', eval_strategy='epoch'), eval_dataset=None)",
        "args = TrainingArguments('x')\nargs.eval_strategy = 'epoch'\nTrainer(model, args)",
        "Trainer(model, TrainingArguments('x')).evaluate()",
    ],
)
def test_evaluation_without_data_is_found(code: str) -> None:
    assert len(found("missing-eval-dataset", code)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "TrainingArguments('x', evaluation_strategy='epoch')",
        "if transformers_lt_5_0:\n    TrainingArguments('x', evaluation_strategy='epoch')",
        "if version.parse(transformers.__version__) < version.parse('5'):\n    TrainingArguments('x', no_cuda=True)",
        "try:\n    TrainingArguments('x', no_cuda=True)\nexcept TypeError:\n    pass",
        "class Own(TrainingArguments):\n    no_cuda: bool = False\nOwn('x', no_cuda=True)",
        "options = {'no_cuda': True}\nif old:\n    del options['no_cuda']\nTrainingArguments('x', **options)",
    ],
)
def test_arguments_that_are_guarded_or_right_for_the_version_are_left_alone(code: str) -> None:
    targets = exactly(transformers="4.40.2") if "evaluation_strategy" in code and "if " not in code else NEWEST
    assert found("removed-argument", code, targets) == []


def test_an_argument_is_found_in_a_function_that_nobody_calls() -> None:
    (message,) = found("removed-argument", "def later():\n    return TrainingArguments('x', no_cuda=True)")
    assert message == "`no_cuda` was removed after transformers 4.57 (here: 5.23.0)"


def test_versions_that_disagree_silence_the_rule() -> None:
    both = TargetVersions({"transformers": Target(((4, 40), (5, 23)), ">=4.40", "requirements.txt:1")})
    assert found("removed-argument", "TrainingArguments('x', no_cuda=True)", both) == []
    assert found("removed-name", "from transformers import AdamW", both) == []


@pytest.mark.parametrize(
    "code",
    [
        "from transformers import AutoModel",
        "try:\n    from transformers import AdamW\nexcept ImportError:\n    from torch.optim import AdamW",
        "if TYPE_CHECKING:\n    from transformers import TFPreTrainedModel",
        "if is_tf_available():\n    from transformers import TFAutoModel",
        "from .transformers import AdamW",
        "from transformers import something_of_ours",
    ],
)
def test_names_that_are_there_or_guarded_are_left_alone(code: str) -> None:
    assert found("removed-name", code) == []


def test_names_of_an_old_version_are_left_alone_there() -> None:
    old = exactly(transformers="4.46.3", datasets="2.21.0")
    code = "from transformers import AdamW, TFAutoModel\nfrom datasets import load_metric"
    assert found("removed-name", code, old) == []


@pytest.mark.parametrize("code", ["from transformers import AdamW", "import transformers\ntransformers.AdamW(weights)"])
def test_a_name_is_found_in_an_import_and_as_an_attribute(code: str) -> None:
    assert len(found("removed-name", code)) == 1


def fixes_of(code: str) -> list[Fix | None]:
    (rule,) = (each.rule for each in load_rules() if each.name == "removed-name")
    targets = exactly(transformers="5.23.0", datasets="5.2.0", evaluate="0.4.6", trl="1.16.0", torch="2.13.0")
    return [rule.fix(each) for each in rule.check(read_pipeline(Source("train.py", code), targets=targets))]


@pytest.mark.parametrize(
    "code",
    [
        "from transformers import AdamW\nAdamW(weights, correct_bias=False)",
        "from transformers import AdamW\nAdamW(weights, 1e-3, (0.9, 0.999), 1e-6, 0.0, False)",
        "import transformers\ntransformers.AdamW(weights, lr=1e-3, no_deprecation_warning=True)",
        "from datasets import list_metrics\nlist_metrics(with_community_metrics=False)",
        "from transformers import is_torch_tpu_available\nis_torch_tpu_available(False)",
        'from datasets import load_metric\nload_metric("glue", "mrpc", 0)',
        'from trl import setup_chat_format\nsetup_chat_format(model, tokenizer, format="chatml")',
        "from trl import setup_chat_format\nsetup_chat_format(model, tokenizer)",
        'from trl import setup_chat_format\nsetup_chat_format(model, tokenizer, "chatml")',
    ],
)
def test_a_successor_that_does_not_take_what_the_calls_give_is_not_offered(code: str) -> None:
    assert fixes_of(code) == [None]


@pytest.mark.parametrize(
    "code",
    [
        "from transformers import AdamW\nAdamW(weights, 1e-3, eps=1e-6, **options)",
        "import transformers\ntransformers.AdamW(weights, lr=1e-3)\nother(weights, correct_bias=False)",
        'from datasets import load_metric\nload_metric("glue", "mrpc")',
        "from trl import set_seed\nset_seed(0)",
        "from trl import setup_chat_format\nsetup_chat_format(model, tokenizer, **options)",
    ],
)
def test_a_successor_that_takes_what_the_calls_give_is_offered(code: str) -> None:
    (fix,) = fixes_of(code)
    assert fix is not None


ONE_LOOP = """
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
tokenizer = AutoTokenizer.from_pretrained("gpt2")
tokenizer.add_special_tokens({{"pad_token": "<|pad|>"}})
model = AutoModelForCausalLM.from_pretrained("gpt2")
{more}
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
for texts in batches:
    batch = tokenizer(texts, padding={padding}, return_tensors="pt")
    model(**batch, labels=batch["input_ids"]).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("more", "padding", "count"),
    [
        ("", "True", 1),
        ("", "False", 0),
        ("model.resize_token_embeddings(len(tokenizer))", "True", 0),
        ("prepare(model)", "True", 0),
        ("other = AutoTokenizer.from_pretrained('gpt2')", "True", 0),
    ],
)
def test_a_new_token_in_a_loop_of_ones_own_needs_a_row(more: str, padding: str, count: int) -> None:
    code = ONE_LOOP.format(more=more, padding=padding)
    assert len(found("unresized-embeddings", code)) == count


def test_a_checkpoint_that_a_trainer_of_trl_loads_has_layers_of_its_family() -> None:
    imports = "from peft import LoraConfig\nfrom trl import SFTTrainer\n"
    code = "SFTTrainer(model={}, train_dataset=rows, peft_config=LoraConfig(target_modules=['q_proj', 'v_proj']))"
    assert len(found("missing-lora-targets", imports + code.format("'gpt2'"))) == 1
    assert found("missing-lora-targets", imports + code.format("'facebook/opt-350m'")) == []
    assert found("missing-lora-targets", imports + code.format("name")) == []


TWO_MODELS = """
import torch
from transformers import AutoModelForSequenceClassification, Trainer, TrainingArguments
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
trainer = Trainer(model, TrainingArguments("out"), train_dataset=rows)
trainer.train()
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
adam = torch.optim.Adam(model.parameters(), lr=2e-5)
for batch in batches:
    adam.zero_grad()
    model(**batch).loss.backward()
    adam.step()
torch.save(model.state_dict(), "model.pt")
"""


def test_the_seed_that_is_offered_comes_before_the_first_of_two_trained_models() -> None:
    (rule,) = (each.rule for each in load_rules() if each.name == "missing-seed")
    (finding,) = rule.check(read_pipeline(Source("train.py", TWO_MODELS), NEWEST))
    fix = rule.fix(finding)
    assert fix is not None
    mended = apply(TWO_MODELS, [fix])
    assert mended.index("manual_seed") < mended.index("model = ")
    assert found("late-seed", mended) == found("missing-seed", mended) == []


@pytest.mark.parametrize(
    ("rate", "is_mended"), [("0.1", True), ("1e-1", True), ("Settings.rate", False), ("rate", False)]
)
def test_a_learning_rate_is_replaced_where_it_is_written_and_not_where_it_is_read(rate: str, is_mended: bool) -> None:
    code = f"""
import torch
from transformers import AutoModelForSequenceClassification
class Settings:
    rate = 0.1
rate = 0.1
model = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased")
adam = torch.optim.AdamW(model.parameters(), lr={rate})
"""
    (rule,) = (each.rule for each in load_rules() if each.name == "high-learning-rate")
    (finding,) = rule.check(read_pipeline(Source("train.py", code), NEWEST))
    assert (rule.fix(finding) is not None) == is_mended
