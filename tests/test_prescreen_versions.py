"""What a file takes from the libraries and gives to them, as far as its syntax tells."""

from __future__ import annotations

import pytest

from lintrain.analysis.prescreen import may_pass_keyword, may_use_removed_name
from lintrain.check.one_file import check_source
from lintrain.check.tiers import Words
from lintrain.knowledge.versions import exactly
from lintrain.rulebook import RuleFile, load_rules
from lintrain.source.source import Source
from lintrain.source.training_syntax import may_train
from tests.pages.demands import installed_versions, scripts

TARGETS = exactly(transformers="5.0", lightning="2.6", trl="0.20", datasets="4.0")

ANY_FILE = [rule for rule in load_rules() if rule.reads_text and not rule.needs_training]


@pytest.mark.parametrize(
    "code",
    [
        "from transformers import AdamW",
        "from transformers import pipeline, AdamW as Adam",
        "def f():\n    from transformers import AdamW",
        "import transformers\nmake = transformers.AdamW",
        "import transformers as t\nt.AdamW(parameters)",
        "from datasets import load_metric",
    ],
)
def test_a_name_that_is_gone_is_seen(code: str) -> None:
    assert may_use_removed_name(Source("a.py", code), TARGETS)


@pytest.mark.parametrize(
    "code",
    [
        "from transformers import AutoModel",
        "from .transformers import AdamW",
        "from torch.optim import AdamW",
        "import transformers\nfrom torch import optim\noptim.Adam",
        "import json\njson.AdamW",
    ],
)
def test_a_name_that_is_there_is_not(code: str) -> None:
    assert not may_use_removed_name(Source("a.py", code), TARGETS)


GIVES = [
    "from transformers import TrainingArguments\nTrainingArguments('out', {})",
    "from transformers import TrainingArguments as T\nT('out', {})",
    "import transformers\ntransformers.TrainingArguments('out', {})",
    "import transformers as t\nt.training_args.TrainingArguments('out', {})",
    "from transformers import *\nTrainingArguments('out', {})",
    "from transformers import TrainingArguments\nT = TrainingArguments\nU = T\nU('out', {})",
    "from transformers import TrainingArguments\nclass Mine(TrainingArguments): ...\nMine('out', {})",
    "from transformers import TrainingArguments\nclass Mine(TrainingArguments): ...\nM = Mine\nM('out', {})",
    "from transformers import TrainingArguments\nfrom functools import partial\npartial(TrainingArguments, {})",
    (
        "from transformers import TrainingArguments\nclass Mine(TrainingArguments):\n"
        "    def __init__(self):\n        super().__init__('out', {})"
    ),
]


@pytest.mark.parametrize("form", GIVES)
def test_a_keyword_is_seen_however_the_class_is_named(form: str) -> None:
    assert _gives(form.format("evaluation_strategy='epoch'"), "gone")
    assert _gives(form.format("lerning_rate=2e-5"), "never")
    assert not _gives(form.format("learning_rate=2e-5"), "gone", "never", "not_yet")


@pytest.mark.parametrize(
    "given",
    [
        "**{'evaluation_strategy': 'epoch'}",
        "**dict(evaluation_strategy='epoch')",
    ],
)
def test_what_stars_may_stand_for_is_every_word_of_the_file(given: str) -> None:
    assert _gives(f"from transformers import TrainingArguments\nTrainingArguments('out', {given})", "gone")


@pytest.mark.parametrize(
    "code",
    [
        "from mine import TrainingArguments\nimport transformers\nTrainingArguments(evaluation_strategy='epoch')",
        "import transformers\nimport mine\nmine.TrainingArguments(evaluation_strategy='epoch')",
        "from transformers import AutoModel\nmark.skip(reason='slow')",
        "from transformers import BitsAndBytesConfig\nBitsAndBytesConfig(load_in_4bit=True)",
        "from datasets import load_dataset\nload_dataset('csv').map(f, num_procs=2)",
        "from transformers import *\ndef train(**given): ...\ntrain(learning=3)",
    ],
)
def test_what_is_given_to_others_is_not(code: str) -> None:
    assert not _gives(code, "gone", "never", "not_yet")


def _gives(code: str, *states: str) -> bool:
    return may_pass_keyword(Source("a.py", code), TARGETS, *states)  # type: ignore[arg-type] # words of a State


@pytest.mark.parametrize("rule", ANY_FILE, ids=[rule.name for rule in ANY_FILE])
def test_a_bad_example_trains_or_shows_its_mistake_at_a_glance(rule: RuleFile) -> None:
    for script in scripts(rule, "Bad"):
        source = Source("train.py", script.text)
        assert Words([source]).hold(rule)
        assert may_train(source) or rule.rule.prescreen(source, installed_versions())


NOTHING_TRAINS = """from transformers import AutoModel, AutoTokenizer
from transformers import {}

tokenizer = AutoTokenizer.from_pretrained("bert-base-cased")
model = AutoModel.from_pretrained("bert-base-cased", {})
"""


@pytest.mark.parametrize(
    ("name", "argument", "found"),
    [
        ("pipeline", "output_attentions=True", []),
        ("AdamW", "output_attentions=True", ["removed-name"]),
        ("pipeline", "load_in_8bit=True", ["removed-argument"]),
    ],
)
def test_a_file_that_trains_nothing_hears_of_versions(name: str, argument: str, found: list[str]) -> None:
    source = Source("embed.py", NOTHING_TRAINS.format(name, argument))
    reading = check_source(source, load_rules(), lambda: TARGETS)
    assert [one.finding.rule for one in reading.reported] == found


def test_a_file_that_trains_nothing_is_not_read_where_its_versions_have_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lintrain.read.read_pipeline", None)
    source = Source("embed.py", NOTHING_TRAINS.format("pipeline", "output_attentions=True"))
    assert not check_source(source, load_rules(), lambda: TARGETS).crashes


def test_a_file_of_torch_alone_that_trains_nothing_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lintrain.read.read_pipeline", None)
    code = "import torch\ndef load(net):\n    net.load_state_dict(torch.load('weights.pt'), strict=False)\n"
    assert not check_source(Source("use.py", code), load_rules(), lambda: TARGETS).crashes


SWAPPED = "import torch\ndef split(heads):\n    rows, steps = heads.shape\n    return heads.view(steps, rows)\n"
NETWORK = "from torch import nn\nnet = nn.Sequential(nn.Linear(8, 16), nn.ReLU(),\n    nn.Linear(8, 3))\n"


@pytest.mark.parametrize(("code", "found"), [(SWAPPED, "view-for-permute"), (NETWORK, "shape-mismatch")])
def test_a_network_is_judged_in_a_file_that_trains_nothing(code: str, found: str) -> None:
    reading = check_source(Source("network.py", code), load_rules(), lambda: TARGETS)
    assert [one.finding.rule for one in reading.reported] == [found]


KEEPS = """class A(nn.Module):
    def __init__(self, layers, own):
        self.layers = {}
        self.layers.{}

    def forward(self, x):
        return x
"""


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("argmax-without-axis", "def evaluate(rows, sizes):\n    return max(sizes), torch.argmax(rows, dim=-1)"),
        ("argmax-without-axis", "from sklearn import svm\nlargest = max(sizes)  # of argmax"),
        ("batch-first-mismatch", "class Stack(nn.Module):\n    layer = TransformerBlock"),
        ("batch-first-mismatch", "from models import TransformerModel, DeformableTransformer"),
        (
            "batch-first-mismatch",
            "from mine import layers\nlstm = nn.LSTM(8, 16, batch_first=True)\nlayers.own.LSTM(8)",
        ),
        ("ignored-missing-keys", "missing = model.load_state_dict(torch.load(path), strict=False)"),
        (
            "in-place-on-leaf",
            "class A(B):\n    def __init__(self):\n        super().__init__()\n        C.__init__(self, bias=1)",
        ),
        ("in-place-on-leaf", "def count(net, rows):\n    rows['size'] = sum(p.numel() for p in net.parameters())"),
        ("in-place-on-leaf", "def forward(x, y):\n    x += y\n    y.masked_fill_(x, 0)\n    return nn.Parameter(x)"),
        ("keras-late-freeze", "model.trainable = False\nmodel.compile('adam')\nmodel.fit(images)"),
        ("mismatched-weight", "class A(nn.Module):\n    def __init__(self):\n        self.weight = nn.Parameter(x)"),
        ("missing-activation", "a = ColumnParallelLinear(8, 8)\nb = ColumnParallelLinear(8, 8)(a(x))"),
        ("missing-activation", "class A(nn.Module):\n    def __init__(self):\n        self.head = nn.Linear(8, 8)"),
        (
            "missing-activation",
            "class A(nn.Module):\n    def __init__(self):\n        self.a = nn.Linear(8, 8, bias=False)",
        ),
        ("missing-column", "def prepare(dataset):\n    return dataset.map(encode, remove_columns=['text'])"),
        ("non-contiguous-view", "y = x.permute(0, 2, 1).contiguous().view(4, -1)"),
        ("perplexity-base", "perplexity = math.exp(loss)"),
        (
            "resampled-before-split",
            "a, b, c, d = train_test_split(x, y)\na, c = SMOTE().fit_resample(a, c)",
        ),
        ("row-function-on-batches", "rows = rows.map(lambda batch: tokenizer(batch['text']), batched=True)"),
        ("shuffled-batches", "import tensorflow\nrows = rows.shuffle(1000).batch(32)"),
        ("softmax-over-batch", "def attend(scores):\n    return torch.softmax(scores, dim=-1)"),
        ("swapped-loss-arguments", "entropy = dist.entropy()\nvalue = categorical_crossentropy(labels, outputs)"),
        ("tensor-for-parameter", "layer.weight = nn.Parameter(torch.zeros(4, 4))"),
        ("unknown-choice", "def f(reduction='mean'):\n    return nn.MSELoss(reduction='none')"),
        ("unstable-log", "scores = torch.log_softmax(x, 1)\nshares = torch.softmax(x, 1)\nsize = math.log(n)"),
        ("unregistered-modules", KEEPS.format("nn.ModuleList()", "append(nn.Linear(8, 8))")),
        ("unregistered-modules", KEEPS.format("nn.Sequential()", "extend(layers)")),
        ("wrong-attention-mask", "layer = nn.TransformerEncoderLayer(8, 2)\ny = layer(x, src_key_padding_mask=x == 0)"),
        ("wrong-attention-mask", "from transformers import ViTConfig\ny = net(x, attn_mask=mask, mask=mask)"),
    ],
)
def test_a_file_without_training_is_not_read_for_the_keywords_of_a_rule_alone(name: str, code: str) -> None:
    source = Source("a.py", f"import torch\nfrom torch import nn\n{code}\n")
    rule = next(each for each in ANY_FILE if each.name == name)
    assert Words([source]).hold(rule)
    assert not rule.rule.prescreen(source, TARGETS)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("argmax-without-axis", "from sklearn.metrics import f1_score\nscore = f1_score(y, scores.argmax())"),
        ("argmax-without-axis", "import evaluate\nfrom numpy import argmax\nevaluate.load('f1').compute(argmax(y))"),
        ("batch-first-mismatch", "from torch.nn import LSTM\nlstm = LSTM(8, 16)"),
        ("batch-first-mismatch", "lstm = torch.nn.LSTM(8, 16, batch_first=False)"),
        ("batch-first-mismatch", "lstm = getattr(nn, 'LSTM')(8, 16)"),
        ("in-place-on-leaf", "a = nn.Parameter(torch.zeros(3))\nb = a\nb[0] = 1"),
        ("in-place-on-leaf", "def make():\n    return torch.ones(3, requires_grad=True)\nx = make()\nx += 1"),
        ("in-place-on-leaf", "def reset(t):\n    t.fill_(0)\nreset(nn.Parameter(torch.zeros(3)))"),
        (
            "in-place-on-leaf",
            "class A(nn.Module):\n    def __init__(self):\n        self.a = nn.Parameter(x)\n\nA().a.mul_(2)",
        ),
        (
            "in-place-on-leaf",
            "for g in optimizer.param_groups:\n    for p in g['params']:\n        p.add_(p.bias)\nnet.parameters()",
        ),
        ("in-place-on-leaf", "weights = list(net.parameters())\nweights[0] *= 2"),
        ("in-place-on-leaf", "w = layer.weight\nw -= 1\nlayer.requires_grad"),
        ("mismatched-weight", "layer.weight = nn.Parameter(torch.zeros(3))"),
        ("mismatched-weight", "self.head.bias.data = torch.zeros(3)"),
        (
            "missing-activation",
            "def layer(size):\n    return nn.Linear(size, size)\nnet = nn.Sequential(layer(8), layer(8))",
        ),
        ("missing-activation", "net = nn.Sequential(*[nn.Linear(8, 8) for _ in range(3)])"),
        ("missing-activation", "net = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8))"),
        ("missing-activation", "from torch.nn import Linear as L\nnet = L(8, 8)(L(8, 8)(x))  # Linear("),
        ("missing-activation", "layer = nn.Linear\nnet = nn.Sequential(layer(8, 8), layer(8, 8))  # Linear("),
        (
            "missing-column",
            "from datasets import load_dataset as load\ndataset = load('imdb').map(f, remove_columns=['a'])",
        ),
        (
            "resampled-before-split",
            "x, y = SMOTE().fit_resample(x, y)\na, b, c, d = train_test_split(x, y)",
        ),
        ("swapped-loss-arguments", "from torch.nn.functional import cross_entropy as ce\nce(labels, logits)"),
        ("swapped-loss-arguments", "nn.BCELoss()(labels, outputs)"),
        ("unknown-choice", "nn.MSELoss(reduction='none_')"),
        ("unregistered-modules", KEEPS.format("[]", "append(nn.Linear(8, 8))")),
        ("unregistered-modules", KEEPS.format("nn.ModuleList() if own else []", "append(nn.Linear(8, 8))")),
        ("unregistered-modules", KEEPS.format("list(layers)", "append(nn.Linear(8, 8))")),
        ("unregistered-modules", KEEPS.format("nn.ModuleList()\n        self.layers = []", "extend(layers)")),
        ("wrong-attention-mask", "layer = nn.TransformerEncoderLayer(8, 2)\ny = layer(x, src_key_padding_mask=x != 0)"),
    ],
)
def test_a_file_without_training_is_read_where_the_mistake_may_be(name: str, code: str) -> None:
    source = Source("a.py", f"import torch\nfrom torch import nn\n{code}\n")
    rule = next(each for each in ANY_FILE if each.name == name)
    assert Words([source]).hold(rule)
    assert rule.rule.prescreen(source, TARGETS)
