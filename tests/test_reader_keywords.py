"""Arguments by name: what reaches a library through dictionaries, subclasses and `super()`, and what stays unsaid."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.knowledge.versions import TargetVersions, exactly
from lintrain.pipeline.values.python import is_missing, options_of
from lintrain.read import read_pipeline
from lintrain.rulebook import load_rules
from lintrain.source.source import Source

IMPORTS = "from transformers import AutoModel, Trainer, TrainingArguments\nfrom trl import SFTConfig, SFTTrainer\n"
NEWEST = exactly(transformers="5.23.0", trl="1.16.0", lightning="2.6.1", torch="2.13.0")


def found(rule: str, code: str, targets: TargetVersions = NEWEST) -> list[tuple[int, int]]:
    """The lines of the code, counted from 1, and the columns where a rule reports something."""
    pipeline = read_pipeline(Source("script.py", IMPORTS + dedent(code)), targets)
    (known,) = (each for each in load_rules() if each.name == rule)
    locations = [finding.location for finding in known.rule.check(pipeline)]
    return [(location.line - 2, location.column) for location in locations]


@pytest.mark.parametrize(
    ("code", "location"),
    [
        ("options = {'no_cuda': True}\nTrainingArguments('x', **options)", (1, 12)),
        ("TrainingArguments('x', **{'no_cuda': True})", (1, 27)),
        ("class Own(Trainer):\n    pass\nOwn(model=m, tokenizer=t)", (3, 14)),
        ("class Own(Trainer):\n    def __init__(self, t):\n        super().__init__(m, tokenizer=t)", (3, 29)),
        (
            "class Own(Trainer):\n    def __init__(self, **kw):\n        super().__init__(**kw)\nOwn(tokenizer=t)",
            (4, 5),
        ),
        ("def make(**kw):\n    return TrainingArguments('x', **kw)\nmake(no_cuda=True)", (3, 6)),
    ],
)
def test_an_argument_is_found_where_it_is_written(code: str, location: tuple[int, int]) -> None:
    assert found("removed-argument", code) == [location]


@pytest.mark.parametrize(
    "code",
    [
        "options = {'no_cuda': True}\noptions.pop('no_cuda')\nTrainingArguments('x', **options)",
        "options = {'no_cuda': True}\nif old:\n    options = {}\nTrainingArguments('x', **options)",
        "options = {'no_cuda': True}\nclean(options)\nTrainingArguments('x', **options)",
        "class Own(Trainer):\n    def __init__(self, **kw):\n        kw.pop('a')\n        super().__init__(**kw)\n"
        "Own(tokenizer=t)",
        "class Own(Trainer):\n    def __init__(self, tokenizer):\n        pass\nOwn(tokenizer=t)",
        "class Own(Mixin, Trainer):\n    pass\nOwn(tokenizer=t)",
        "class Own(Trainer, metaclass=Maker):\n    pass\nOwn(tokenizer=t)",
        "class Own(TrainingArguments):\n    no_cuda: bool = False\nOwn('x', no_cuda=True)",
        "@dressed\nclass Own(Trainer):\n    pass\nOwn(tokenizer=t)",
        "class Own(Trainer):\n    def __new__(cls, tokenizer):\n        return make(cls)\nOwn(tokenizer=t)",
    ],
)
def test_an_argument_that_the_script_may_have_changed_is_left_alone(code: str) -> None:
    assert found("removed-argument", code) == []


@pytest.mark.parametrize(
    ("code", "targets"),
    [
        ("SFTTrainer(model=m, max_steps=3)", NEWEST),
        ("Trainer(model=m, learning_rate=1e-3)", NEWEST),
        ("TrainingArguments('x', lerning_rate=1e-3)", NEWEST),
        ("class Own(Trainer):\n    pass\nOwn(modle=m)", NEWEST),
        ("TrainingArguments('x', eval_strategy='no')", exactly(transformers="4.40.2")),
    ],
)
def test_an_argument_that_no_version_knows_or_only_a_newer_one_is_found(code: str, targets: TargetVersions) -> None:
    assert len(found("unknown-argument", code, targets)) == 1


@pytest.mark.parametrize(
    ("code", "targets"),
    [
        ("TrainingArguments('x', something_new=1)", exactly(transformers="5.99.0")),
        ("TrainingArguments('x', lerning_rate=1e-3)", exactly(transformers="6.0.0")),
        ("AutoModel.from_pretrained('bert-base-uncased', hidden_dropout=0.1)", NEWEST),
        ("try:\n    TrainingArguments('x', lerning_rate=1)\nexcept TypeError:\n    pass", NEWEST),
        (
            "class Own(Trainer):\n    def __init__(self, w, **kw):\n        super().__init__(**kw)\nOwn(w=1)",
            NEWEST,
        ),
        ("TrainingArguments('x', evaluation_strategy='no')", NEWEST),
    ],
)
def test_an_argument_that_may_be_known_is_left_alone(code: str, targets: TargetVersions) -> None:
    assert found("unknown-argument", code, targets) == []


@pytest.mark.parametrize(
    ("rule", "code"),
    [
        ("removed-argument", "import pytorch_lightning as pl\npl.Trainer(gpus=1)"),
        ("removed-argument", "from lightning.pytorch import Trainer\nTrainer(gpus=1)"),
        ("removed-argument", "import torch\ntorch.optim.lr_scheduler.StepLR(optimizer, 3, verbose=True)"),
        ("unknown-argument", "from torch.optim import AdamW\nAdamW(weights, learning_rate=1e-3)"),
        ("unknown-argument", "from torch import nn\nnn.CrossEntropyLoss(weights=w)"),
        ("removed-name", "from pytorch_lightning.loggers import TestTubeLogger"),
    ],
)
def test_lightning_and_torch_are_judged_by_their_versions(rule: str, code: str) -> None:
    assert len(found(rule, code)) == 1


@pytest.mark.parametrize(
    "code",
    [
        "import torch\ntorch.cuda.amp.GradScaler(enabled=True)",
        "import torch\ntorch.optim.AdamW(weights, lr=1e-3, fused=True)",
        "from lightning.fabric.loggers import CSVLogger\nCSVLogger(root_dir='x', name='y')",
        "from lightning.fabric.strategies import ModelParallelStrategy\nModelParallelStrategy(parallelize_fn=f)",
        "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, w):\n        super().__init__()\nNet(w=3)",
        "import lightning as L\nclass Net(L.LightningModule):\n    def __init__(self, w):\n        super().__init__()\n"
        "Net(w=3)",
    ],
)
def test_what_torch_and_lightning_take_is_left_alone(code: str) -> None:
    assert found("removed-argument", code) + found("unknown-argument", code) == []


@pytest.mark.parametrize(
    "code",
    [
        "import transformers\nfrom packaging import version\n"
        "if version.parse(transformers.__version__) > version.parse('4.40'):\n    raise ImportError('too new')\n"
        "TrainingArguments('x', no_cuda=True)",
        "from transformers.utils.versions import require_version\nrequire_version('transformers<5', 'too new')\n"
        "TrainingArguments('x', no_cuda=True)",
    ],
)
def test_a_script_that_refuses_other_versions_is_left_alone(code: str) -> None:
    assert found("removed-argument", code) == []


BRANCHES = """
from torch.utils.data import DataLoader
options = {"pin_memory": True}
if sampler:
    options["sampler"] = [0, 1]
    options["drop_last"] = True
else:
    options["shuffle"] = True
%s
loader = DataLoader(rows, **options)
"""


@pytest.mark.parametrize(
    ("last", "optional"),
    [
        ("", {"sampler", "drop_last", "shuffle"}),
        ("if fast:\n    options['num_workers'] = 2", {"sampler", "drop_last", "shuffle"}),
        ("options['shuffle'] = False", set[str]()),
        ("options.update(drop_last=False)", {"sampler", "shuffle"}),
    ],
)
def test_what_exclusive_branches_add_may_be_absent(last: str, optional: set[str]) -> None:
    (loader,) = read_pipeline(Source("script.py", BRANCHES % last), NEWEST).loaders
    names = ("pin_memory", "sampler", "drop_last", "shuffle", "num_workers")
    absent = {name for name in names if any(map(is_missing, options_of(loader.value(name))))}
    assert absent - ({"num_workers"} if "num_workers" not in last else set[str]()) == optional
