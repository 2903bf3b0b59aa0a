"""What is known of things that may be one of several: classes of models, data sets, splits, batches."""

from __future__ import annotations

import pytest

from lintrain.pipeline.events import Act
from lintrain.pipeline.values.data import ColumnValues, Dataset
from lintrain.pipeline.values.model import Model, ModelOutput, Role, Tensor
from lintrain.pipeline.values.python import Constant, Library, Sequence, Value, options_of
from tests.support.loops import pipeline_of
from tests.test_reader_language import value_of

KINDS = ("Bert", "Roberta", "XLNet", "Deberta", "Albert", "Electra")


def classes(*heads: str) -> str:
    names = [f"{kind}{head}" for kind in KINDS for head in heads]
    rows = ", ".join(f"'{kind.lower()}': ({', '.join(kind + head for head in heads)})" for kind in KINDS)
    return f"from transformers import {', '.join(names)}\nCLASSES = {{{rows}}}\n"


def test_one_of_many_classes_with_the_same_head_is_the_one_that_chooses_among_them() -> None:
    code = classes("Config", "ForSequenceClassification", "Tokenizer") + "_, x, tokenizer = CLASSES[kind]\n"
    found = value_of(code)
    assert isinstance(found, Library)
    assert found.path == "transformers.AutoModelForSequenceClassification"
    tokenizer = value_of(code, "tokenizer")
    assert isinstance(tokenizer, Library)
    assert tokenizer.path == "transformers.AutoTokenizer"
    assert isinstance(value_of(code, "x.from_pretrained('a')"), Model)
    loss = value_of(code, "x.from_pretrained('a')(input_ids=a, labels=b)[0]")
    assert isinstance(loss, Tensor)
    assert loss.role is Role.LOSS


def test_one_of_many_classes_with_other_heads_is_not_known() -> None:
    mixed = "from transformers import {}\nx = {{{}}}[kind]\n"
    names = [f"{kind}{head}" for kind, head in zip(KINDS, ("Config", "Model", "ForMaskedLM") * 2, strict=True)]
    names += ["BertForTokenClassification", "BertForQuestionAnswering"]
    code = mixed.format(", ".join(names), ", ".join(f"{index}: {name}" for index, name in enumerate(names)))
    assert not isinstance(value_of(code), Library)


@pytest.mark.parametrize("key", ["train", "validation"])
def test_a_folder_on_disk_may_hold_splits(key: str) -> None:
    code = "from datasets import load_from_disk\nheld = load_from_disk('x')\n"
    split = value_of(code, f"held['{key}']")
    assert isinstance(split, Dataset)
    assert split.split == key
    assert isinstance(value_of(code, "held['text']"), ColumnValues)
    both = value_of(code, f"[held['{key}'], held['{key}'], held['test']]")
    assert isinstance(both, Sequence)
    assert both.items[0] is both.items[1] is not both.items[2]
    mapped = value_of(code, "held.map(lambda row: {'size': 1})['train']")
    assert isinstance(mapped, Dataset)
    assert set(mapped.columns or {}) == {"size"}


LOOP = """
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
to_tensor = transforms.Compose([transforms.ToTensor()])
if name == "cifar10":
    data = datasets.CIFAR10("a", transform=to_tensor)
else:
    data = datasets.CIFAR100("a", transform=to_tensor)
loader = DataLoader(data, batch_size=4)
"""


def target_in(code: str) -> Value:
    (loss,) = pipeline_of(code).losses
    assert loss.target is not None
    return loss.target.value


@pytest.mark.parametrize(
    "loop",
    [
        "for x, y in loader:\n    F.cross_entropy(net(x), y)\n",
        "batches = iter(loader)\nx, y = batches.next()\nF.cross_entropy(net(x), y)\n",
        "x, y = next(iter(loader))\nF.cross_entropy(net(x), y)\n",
    ],
)
def test_batches_of_one_of_several_data_sets_are_alike(loop: str) -> None:
    target = target_in(LOOP + loop)
    options = options_of(target)
    assert all(isinstance(option, Tensor) and option.kind == "int" and option.shape.rank == 1 for option in options)


def test_a_row_of_a_data_set_of_torchvision_is_an_image_and_its_class() -> None:
    code = "from torchvision import datasets, transforms\ndata = datasets.MNIST('a', transform=transforms.ToTensor())\n"
    row = value_of(code, "data[index]")
    assert isinstance(row, Sequence)
    assert [str(item.shape) for item in row.items if isinstance(item, Tensor)] == ["(1, 28, 28)", "()"]


def test_fields_of_old_batches_of_text_are_tensors() -> None:
    code = """
    import torch.nn.functional as F
    from torchtext.legacy.data import BucketIterator
    train, valid = BucketIterator.splits((one, two), batch_size=4)
    for batch in train:
        F.cross_entropy(net(batch.text), batch.label)
    """
    assert isinstance(target_in(code), Tensor)
    assert not isinstance(target_in(code.replace("batch.label", "batch.batch_size")), Tensor)


LIGHTNING = """
import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

class Data(L.LightningDataModule):
    def setup(self, stage):
        self.rows = TensorDataset(torch.zeros(8, 3), torch.zeros(8).long())

    def train_dataloader(self):
        return DataLoader(self.rows, batch_size=4)

class Net(L.LightningModule):
    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self.head(x), y)

L.Trainer().fit(Net(), {data})
"""


@pytest.mark.parametrize("data", ["Data()", "datamodule=Data()"])
def test_a_step_of_lightning_gets_the_batches_of_the_data_module(data: str) -> None:
    target = target_in(LIGHTNING.format(data=data).replace("{{", "{"))
    assert isinstance(target, Tensor)
    assert str(target.shape) == "(N,)"


def test_calling_none_is_no_option() -> None:
    code = "def f(x, change=None):\n    if change is not None:\n        x = change(x)\n    return x\nx = f(3)\n"
    found = value_of(code)
    assert isinstance(found, Constant)
    assert found.value == 3


def test_a_model_made_of_a_checkpoint_may_be_in_either_mode() -> None:
    code = """
    from transformers import BertPreTrainedModel
    class Tagger(BertPreTrainedModel):
        def __init__(self, config):
            super().__init__(config)
    model = Tagger.from_pretrained("a")
    """
    assert [event.act for event in pipeline_of(code).events] == [Act.ESCAPE]


def test_the_records_of_a_csv_file_are_texts() -> None:
    for expression in ("[row[0] for row in csv.reader(f)][0]", "[row['a'] for row in csv.DictReader(f)][0]"):
        found = value_of("import csv\n", expression)
        assert isinstance(found, ColumnValues)


def test_outputs_of_a_model_by_name_keep_their_order() -> None:
    code = "from transformers.modeling_outputs import SequenceClassifierOutput\n"
    made = "SequenceClassifierOutput(loss=None, logits=3)"
    first = value_of(code, f"{made}[0]")
    assert isinstance(first, Constant)
    assert first.value == 3
    assert not isinstance(value_of(code, f"{made}.logits"), ModelOutput)


@pytest.mark.parametrize(
    "start",
    [
        "import torch.multiprocessing as mp\nmp.spawn(work, args=(16,), nprocs=2)\n",
        "import torch.multiprocessing as mp\nmp.spawn(fn=work, args=[16], nprocs=2)\n",
        "from accelerate import notebook_launcher\nnotebook_launcher(alone, (16,), num_processes=2)\n",
    ],
)
def test_functions_that_run_in_several_processes_get_their_arguments(start: str) -> None:
    code = f"""
from torch.utils.data import DataLoader
def work(rank, size):
    DataLoader(data, batch_size=size)
def alone(size):
    DataLoader(data, batch_size=size)
{start}"""
    sizes = [loader.value("batch_size") for loader in pipeline_of(code).loaders]
    assert any(isinstance(size, Constant) and size.value == 16 for size in sizes)


def test_parameters_of_a_function_for_fire_are_options() -> None:
    code = """
    import fire
    from torch.utils.data import DataLoader
    def main(size=16, name="", other=None, fast=False):
        DataLoader(data, batch_size=size, num_workers=other, shuffle=fast, collate_fn=name)
    fire.Fire(main)
    """
    (loader,) = pipeline_of(code).loaders
    assert default_of(loader.value("batch_size")) == ("--size", "16", False)
    assert default_of(loader.value("shuffle")) == ("--fast", "False", True)
    assert default_of(loader.value("collate_fn"))[0] == ""


def default_of(value: Value) -> tuple[str, str, bool]:
    assert isinstance(value, Constant)
    assert value.default is not None
    return value.default.option, value.default.text, value.default.is_switch


def test_a_scaler_of_another_library_gives_the_loss_that_it_scales() -> None:
    code = "from somewhere import Scaler\nscaler = Scaler()\nscaler.scale(torch.zeros(1).sum()).backward()\n"
    (event,) = (event for event in pipeline_of(f"import torch\n{code}").events if event.act is Act.BACKWARD)
    assert isinstance(event.details["loss"], Tensor)


def test_a_smoothed_loss_of_transformers_is_a_loss() -> None:
    code = "from transformers.trainer_pt_utils import LabelSmoother\nsmooth = LabelSmoother(epsilon=0.1)\n"
    found = value_of(code, "smooth(outputs, labels)")
    assert isinstance(found, Tensor)
    assert found.role is Role.LOSS
