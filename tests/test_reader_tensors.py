"""What the reader follows of tensors from model to loss: the operation behind them, their shapes, their gradients."""

from __future__ import annotations

import pytest

from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.tensors import Derived, root_of
from lintrain.pipeline.values.training import LossCall
from tests.support.loops import PRELUDE, pipeline_of

NETWORK = """
class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 5)

    def forward(self, tokens, flag=False):
        hidden, _ = self.lstm(self.embed(tokens))
        logits = self.head(hidden)
        if self.training:
            return logits
        return logits.softmax(-1)
"""


def losses_of(code: str) -> list[LossCall]:
    return pipeline_of(PRELUDE + code).losses


def given(expression: str, before: str = "net = nn.Linear(8, 1)\n") -> Tensor:
    (loss,) = losses_of(f"{before}for x, y in loader:\n    F.mse_loss({expression}, y).backward()\n")
    assert loss.prediction is not None
    assert isinstance(loss.prediction.value, Tensor)
    return loss.prediction.value


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("net(x)", "(…, 1)"),
        ("net(x).squeeze(-1)", "(…,)"),
        ("net(x).squeeze()", "(…,)"),
        ("net(x).view(-1)", "(N,)"),
        ("net(x).view(x.size(0), 7)", "(N, 7)"),
        ("net(x).flatten(1)", "(N, *)"),
        ("net(x).view(-1, 4, 7).transpose(1, 2)", "(N, 7, 4)"),
        ("net(x).view(-1, 4, 7).permute(0, 2, 1)", "(N, 7, 4)"),
        ("net(x).view(-1, 4, 7)[:, 0]", "(N, 7)"),
        ("net(x).unsqueeze(-1)", "(…, 1, 1)"),
        ("torch.relu(net(x)).mean()", "()"),
        ("net(x) * 2 + 1", "(…, 1)"),
    ],
)
def test_shapes_are_followed_as_far_as_they_are_known(expression: str, shape: str) -> None:
    assert str(given(expression).shape) == shape


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("net(x)", "linear"),
        ("F.softmax(net(x), dim=1)", "softmax"),
        ("F.softmax(net(x), 0)", "softmax over rows"),
        ("net(x).sigmoid().squeeze(-1)", "sigmoid"),
        ("torch.log(net(x).softmax(-1))", "log"),
        ("F.dropout(net(x).to(device))", "linear"),
        ("nn.Sequential(nn.Linear(2, 2), nn.Softmax(1), nn.Identity())(x)", "softmax"),
        ("net(x) + 1e-6", "add"),
        ("F.softmax(nobody_knows(x), -1)", "softmax"),
    ],
)
def test_the_operation_behind_a_tensor_is_the_last_that_changes_its_numbers(expression: str, name: str) -> None:
    made = given(expression).made
    assert made is not None
    assert made.name == name


def test_a_forward_gives_what_its_branches_return() -> None:
    code = NETWORK + "net = Network()\nfor x, y in loader:\n    F.cross_entropy(net(x), y)\n"
    (loss,) = losses_of(code)
    assert loss.prediction is not None
    options = getattr(loss.prediction.value, "options", ())
    assert [option.made.name for option in options] == ["linear", "softmax"]


def test_a_new_head_on_a_ready_made_network_gives_its_output() -> None:
    head = "net.fc = nn.Sequential(nn.Linear(512, 3), nn.Sigmoid())\n"
    tensor = given("net(x)", f"import torchvision\nnet = torchvision.models.resnet18()\n{head}")
    assert tensor.made is not None
    assert tensor.made.name == "sigmoid"


@pytest.mark.parametrize(
    "wrapped",
    [
        "nn.DataParallel(net)",
        "torch.compile(net)",
        "net.to('cuda').half()",
        "nn.utils.spectral_norm(net)",
        "nn.utils.parametrizations.weight_norm(net)",
        "nn.utils.prune.l1_unstructured(net, 'weight', amount=0.2)",
        "torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)",
        "torch.jit.trace(net, torch.zeros(1, 8))",
    ],
)
def test_a_wrapped_network_gives_what_the_network_gives(wrapped: str) -> None:
    tensor = given("net(x)", f"net = nn.Linear(8, 1)\nnet = {wrapped}\n")
    assert str(tensor.shape) == "(…, 1)"


def test_a_checkpointed_part_gives_what_it_gives_without() -> None:
    plain, recomputed = given("net(x)"), given("torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False)")
    assert str(recomputed.shape) == str(plain.shape) == "(…, 1)"
    assert recomputed.passes == plain.passes


@pytest.mark.parametrize("expression", ["net(x).detach()", "net(x).argmax(1).float()", "torch.tensor(net(x))"])
def test_what_takes_a_tensor_off_the_graph_is_kept(expression: str) -> None:
    assert given(expression).cut is not None
    assert given("net(x)").cut is None


def test_views_and_slices_of_unknown_tensors_can_be_followed_back() -> None:
    code = "ids = batch['ids']\nF.cross_entropy(ids[:, 1:].reshape(-1), ids.to(device).view(-1))\n"
    (loss,) = losses_of(code)
    assert loss.prediction is not None
    assert loss.target is not None
    sliced, whole = root_of(loss.prediction.value), root_of(loss.target.value)
    assert isinstance(sliced, Derived)
    assert sliced.text == ":, 1:"
    assert sliced.of is whole


def shape_of_target(code: str) -> str:
    (loss,) = losses_of(f"from torch.utils.data import DataLoader, TensorDataset, random_split\n{code}")
    assert loss.target is not None
    assert isinstance(loss.target.value, Tensor)
    return f"{loss.target.value.kind} {loss.target.value.shape}"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ("torch.randn(96)", "float (N,)"),
        ("torch.zeros((96, 1), dtype=torch.long)", "int (N, 1)"),
        ("torch.randint(0, 3, (96, 5))", "int (N, 5)"),
        ("torch.tensor([[1.0], [2.0]])", "float (N, 1)"),
        ("torch.tensor([0, 1, 1]).float()", "float (N,)"),
        ("torch.randint(3, size=(96,)) % 2", "int (N,)"),
    ],
)
def test_batches_of_tensors_keep_their_axes_and_kinds(made: str, expected: str) -> None:
    code = f"""
data, rest = random_split(TensorDataset(torch.randn(96, 8), {made}), [0.8, 0.2])
for x, y in DataLoader(data, batch_size=16):
    y = y.to(device)
    F.mse_loss(net(x), y)
"""
    assert shape_of_target(code) == expected


def test_batches_of_a_loader_with_a_collator_of_its_own_are_not_known() -> None:
    code = """
from torch.utils.data import DataLoader, TensorDataset
for x, y in DataLoader(TensorDataset(torch.randn(96, 8), torch.randn(96)), collate_fn=own):
    F.mse_loss(net(x), y)
"""
    (loss,) = losses_of(code)
    assert loss.target is not None
    assert not isinstance(loss.target.value, Tensor)


SQUARED = """
net = nn.Linear(8, 1)
errors = net(x) - y
(%s).mean().backward()
"""


@pytest.mark.parametrize(
    "written",
    [
        "errors ** 2",
        "errors.pow(2)",
        "torch.pow(errors, 2)",
        "errors.square()",
        "torch.mul(errors, errors)",
        "errors.abs().clamp(min=0.1)",
        "errors.norm(dim=1)",
        "torch.maximum(errors, -errors)",
        "errors.sort().values",
    ],
)
def test_a_function_leaves_a_tensor_the_passes_in_its_graph(written: str) -> None:
    (backward,) = pipeline_of(PRELUDE + SQUARED % written).acts(Act.BACKWARD)
    assert isinstance(backward.subject, Tensor)
    assert len(backward.subject.graph) == 1


@pytest.mark.parametrize("written", ["errors.isinf()", "errors.sort().indices", "errors.isnan()", "errors.nonzero()"])
def test_a_function_without_a_gradient_leaves_none(written: str) -> None:
    (backward,) = pipeline_of(PRELUDE + SQUARED % written).acts(Act.BACKWARD)
    assert isinstance(backward.subject, Tensor)
    assert not backward.subject.graph
