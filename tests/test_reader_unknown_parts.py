"""What stays known next to what is not: caches, dictionaries by unknown keys, branches, functions of torch."""

from __future__ import annotations

import pytest

from lintrain.pipeline.shifts import part_of
from lintrain.pipeline.values.data import ColumnValues, Encoding
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import Constant, Either, Mapping, Sequence, Unknown, Value, options_of
from tests.test_reader_language import plain, value_of

TORCH = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nfrom torch.autograd import Variable\n"


def tensor(code: str, expression: str = "x") -> Tensor:
    found = value_of(TORCH + code, expression)
    assert isinstance(found, Tensor), found
    return found


def shown(value: Value) -> tuple[str, str]:
    assert isinstance(value, Tensor), value
    return str(value.shape), value.kind


def test_the_value_of_an_empty_cache_is_that_of_the_branch_that_fills_it() -> None:
    code = """
    cache = {}
    def load(i):
        if i in cache:
            return cache[i]
        made = {"ids": 1, "mask": 2}
        cache[i] = made
        return made
    x = load(key)
    """
    assert plain(value_of(code)) == {"ids": 1, "mask": 2}


def test_what_a_list_without_items_gives_is_no_option() -> None:
    assert plain(value_of("done = []\ndef f(i):\n    return done[i] if i else 3\nx = f(n)")) == 3


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("held = {}\nfor name in names:\n    held[name] = 1\nx = held[other]", 1),
        ("held = {name: 'a' for name in names}\nx = held[other]", "a"),
        ("held = {name: 'a' for name in names}\nx = held['b']", "a"),
        ("held = {name: 'a' for name in names}\nx = held.get(other)", "a"),
        ("held = {name: 'a' for name in names}\nx = held.get(other, 'b')", {"a", "b"}),
        ("held = {name: 'a' for name in names}\nx = list(held.values())[n]", "a"),
        ("held = {name: 'a' for name in names}\nfor _, x in held.items(): pass", "a"),
        ("held = {'c': 1}\nheld[name] = 2\nx = held[other]", {1, 2}),
        ("held = {'c': 1}\nx = held[other]", 1),
        ("from collections import defaultdict\nheld = defaultdict(int)\nx = held[other]", 0),
        ("held = {}\nheld[name] = 1\nheld.update(others)\nx = held[other]", "unknown"),
        ("held = dict(others)\nheld[name] = 1\nx = held[other]", "unknown"),
    ],
)
def test_an_entry_by_an_unknown_key_is_any_of_those_that_are_there(code: str, expected: object) -> None:
    assert plain(value_of(code.replace("int)", "lambda: 0)"))) == expected


def test_many_dictionaries_with_the_same_keys_are_one_with_these_keys() -> None:
    branches = "".join(f"{'el' if index else ''}if n == {index}:\n    x = {{'a': {index}}}\n" for index in range(6))
    for option in options_of(value_of(branches)):
        assert isinstance(option, Mapping)
        assert set(option.entries) == {"a"}


def test_more_tensors_than_are_kept_apart_are_one_next_to_other_values() -> None:
    branches = "".join(f"if n == {index}:\n    x = x + {index}\n" for index in range(6))
    found = value_of(f"{TORCH}x = None\nif n:\n    x = torch.zeros(3)\n{branches}")
    assert {type(option).__name__ for option in options_of(found)} <= {"Tensor", "Constant"}


@pytest.mark.parametrize(
    "code", ["x = 0\nif n:\n    x = torch.ones(3)\nx = x / 2", "x = 2 * (torch.ones(3) if n else 1)"]
)
def test_an_operator_on_one_of_several_values_gives_one_of_several(code: str) -> None:
    found = value_of(TORCH + code)
    assert isinstance(found, Either)
    assert any(isinstance(option, Tensor) for option in found.options)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("outputs = (1, 2) + others\nx = outputs[0]", 1),
        ("outputs = (1, 2) + others\nx = outputs[2]", "unknown"),
        ("outputs = (1, 2) + others\nx = outputs[:2]", (1, 2)),
        ("outputs = (0,) + ((1, 2) + others)\nx = outputs[1:][0]", 1),
        ("outputs = (1, 2) + others\nx, _, _ = outputs", 1),
        ("found = []\nfor i in items:\n    found.append(1)\nx, _ = found", 1),
    ],
)
def test_the_first_items_of_a_tuple_are_known_whatever_follows(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


@pytest.mark.parametrize(
    ("expression", "shape", "kind"),
    [
        ("torch.randn_like(torch.ones(2, 3))", "(2, 3)", "float"),
        ("torch.zeros_like(unknown)", "(…,)", ""),
        ("torch.mm(torch.ones(2, 3), torch.ones(3, 4))", "(2, 4)", ""),
        ("torch.trace(unknown)", "()", ""),
        ("torch.eye(5)", "(N, *)", "float"),
        ("torch.eq(torch.ones(2, 3), unknown)", "(…,)", "bool"),
        ("torch.ones(2, 3).ne(1)", "(2, 3)", "bool"),
        ("torch.ones(2, 3).pow(2)", "(2, 3)", "float"),
        ("torch.from_numpy(unknown)", "(…,)", ""),
        ("torch.LongTensor(unknown)", "(…,)", "int"),
        ("torch.FloatTensor(3, 4)", "(3, 4)", "float"),
        ("torch.tensor(unknown, dtype=torch.long)", "(…,)", "int"),
        ("torch.flatten(unknown, 1)", "(N, *)", ""),
        ("torch.stack(unknown)", "(…,)", ""),
        ("torch.cat([unknown, other])", "(…,)", ""),
        ("torch.nn.utils.rnn.pad_sequence(unknown)", "(…,)", ""),
        ("torch.nn.utils.rnn.pad_sequence([torch.ones(4), torch.ones(5)], True)", "(N, *)", "float"),
        ("torch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 3).long(), unknown)[0]", "(N,)", "int"),
        ("Variable(unknown)", "(…,)", ""),
        ("Variable(torch.ones(3), requires_grad=True)", "(3,)", "float"),
        ("torch.ones(3).chunk(2)[1]", "(N,)", ""),
        ("torch.sort(unknown)[1]", "(…,)", "int"),
        ("torch.distributions.Normal(unknown, 1).log_prob(other)", "(…,)", ""),
    ],
)
def test_a_function_of_torch_that_gives_a_tensor_gives_one_of_anything(expression: str, shape: str, kind: str) -> None:
    assert shown(value_of(TORCH, expression)) == (shape, kind)


def test_an_operation_is_off_the_graph_only_if_all_that_it_is_given_is() -> None:
    code = "net = nn.Linear(3, 3)\nout = net(torch.ones(2, 3))\n"
    assert tensor(code, "torch.mm(out, torch.ones(3, 3))").cut is None
    assert tensor(code, "torch.mm(out.detach(), torch.ones(3, 3).detach())").cut is not None
    assert tensor(code, "torch.mm(out.detach(), unknown)").cut is None
    assert tensor(code, "torch.mm(out, unknown)").model is not None


def test_a_tensor_that_shall_learn_is_no_data() -> None:
    assert tensor("x = torch.randn(3, requires_grad=True)").made is None
    assert tensor("x = Variable(torch.randn(3), requires_grad=True)").made is None


@pytest.mark.parametrize("given", ["unknown", "unknown['ids']", "unknown[:, 1:]"])
def test_a_tensor_of_something_unknown_can_be_followed_back_to_it(given: str) -> None:
    code = f"held = {given}\nx = torch.as_tensor(held).to(device)\ny = torch.tensor(held).long()\n"
    found = value_of(TORCH + code, "[x, y]")
    assert isinstance(found, Sequence)
    assert part_of(found.items[0]) == part_of(found.items[1]) is not None


OWN_MODEL = """
from transformers import BertModel, BertPreTrainedModel
from transformers.modeling_outputs import TokenClassifierOutput

class Tagger(BertPreTrainedModel):
    def __init__(self, config, weight=None):
        super().__init__(config)
        self.bert = BertModel(config)
        self.head = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, input_ids, labels=None, as_tuple=True):
        outputs = self.bert(input_ids)
        logits = self.head(outputs[0])
        outputs = (logits,) + outputs[2:]
        if labels is not None:
            loss = nn.CrossEntropyLoss()(logits.view(-1, 3), labels.view(-1))
            outputs = (loss,) + outputs
        if as_tuple:
            return outputs
        return TokenClassifierOutput(loss=loss, logits=logits)

class Loaded(Tagger):
    @classmethod
    def from_pretrained(cls, name):
        return super().from_pretrained(name)

ids, labels = torch.ones(3, 4), torch.ones(3, 4)
model = Tagger.from_pretrained("bert-base-cased")
"""


@pytest.mark.parametrize(
    "expression",
    [
        "model(ids, labels=labels)[0]",
        "model(ids, labels=labels)[:2][0]",
        "model(ids, labels=labels, as_tuple=False).loss",
        "model(ids, labels=labels, as_tuple=False)[0]",
        "model(ids, labels=labels, as_tuple=False)['loss']",
        "Loaded.from_pretrained('bert-base-cased')(ids, labels=labels)[0]",
    ],
)
def test_an_own_model_with_weights_of_a_checkpoint_runs_its_own_forward(expression: str) -> None:
    assert tensor(OWN_MODEL, expression).role is Role.LOSS


def test_the_loss_and_logits_of_a_model_of_transformers_can_be_sliced() -> None:
    code = "from transformers import BertForTokenClassification\n"
    model = "BertForTokenClassification.from_pretrained('bert-base-cased')"
    found = value_of(TORCH + code, f"{model}(input_ids=ids, labels=labels)[:2]")
    assert isinstance(found, Sequence)
    assert [getattr(item, "role", None) for item in found.items] == [Role.LOSS, Role.LOGITS]


def test_what_a_network_returns_may_be_several_tensors() -> None:
    code = (
        "class Net(nn.Module):\n    def forward(self, x):\n        return compute(x)\none, two = Net()(torch.ones(3))\n"
    )
    assert tensor(code, "two").model is not None


CACHED = """
import os, pickle, torch
def load(path):
    if os.path.exists(path):
        {read}
    else:
        made = 1
        {write}
    return made
x = load(name)
"""


@pytest.mark.parametrize(
    ("read", "write", "expected"),
    [
        ("made = torch.load(path)", "torch.save(made, path)", True),
        ("made = pickle.load(open(path, 'rb'))", "pickle.dump(made, open(path, 'wb'))", True),
        ("made = torch.load(path)", "pass", False),
        ("made = torch.load(path)", "torch.save(made, other)", False),
        (
            "with open(path, 'rb') as file:\n            made = pickle.load(file)",
            "with open(path, 'wb') as file:\n            pickle.dump(made, file)",
            True,
        ),
    ],
)
def test_what_a_function_loads_from_a_file_is_what_it_stores_there(read: str, write: str, *, expected: bool) -> None:
    assert isinstance(value_of(CACHED.format(read=read, write=write)), Constant) is expected


def test_a_pool_of_processes_gives_what_the_function_gives_of_each_item() -> None:
    code = "from multiprocessing import Pool\nwith Pool(4) as pool:\n    x = list(pool.imap(lambda row: 3, rows))[n]"
    assert plain(value_of(code)) == 3


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("held = dict(zip(['a', 'b'], [1, 2]))\nx = held['b']", 2),
        ("held = dict(zip(words, [1, 1, 1]))\nx = held[word]", 1),
        ("held = dict([(word, 1) for word in words])\nx = held[word]", 1),
        ("held = dict(pairs)\nx = held[word]", "unknown"),
    ],
)
def test_a_dictionary_of_pairs_holds_their_second_items(code: str, expected: object) -> None:
    assert plain(value_of(code)) == expected


def test_values_of_more_than_four_branches_keep_what_they_have_in_common() -> None:
    choice = "\n".join(f"    elif kind == {number}:\n        x = {{'a': 1, 'b{number}': 2}}" for number in range(5))
    code = f"def choose(kind):\n    if kind == 9:\n        x = {{'a': 1}}\n{choice}\n    return x\nx = choose(n)['a']"
    assert plain(value_of(code)) == 1


def test_tuples_of_more_than_four_branches_are_joined_item_by_item() -> None:
    table = "{" + ", ".join(f"'{name}': (1, '{name}')" for name in "abcde") + "}"
    assert plain(value_of(f"x, _ = {table}[name]")) == 1


ROWS = """
class Rows:
    def __init__(self, frame, tokenizer):
        self.frame, self.tokenizer = frame, tokenizer
    def __getitem__(self, index):
        return {}
x = Rows(some(), other())[len(names)]
"""


@pytest.mark.parametrize(
    ("code", "column"),
    [
        ("self.frame.iloc[index]['label']", "label"),
        ("self.frame.loc[index, 'label']", "label"),
        ("self.frame['label'].iloc[index]", "label"),
        ("self.frame.iloc[index, 3]", ""),
    ],
)
def test_a_value_of_an_unknown_frame_may_have_any_number_of_axes(code: str, column: str) -> None:
    found = value_of(ROWS.format(code))
    assert isinstance(found, ColumnValues)
    assert (found.column.name, found.axes) == (column, None)


@pytest.mark.parametrize(
    "code",
    [
        "self.frame.iloc[index]",  # of a series, it is no row
        "self.frame.iloc[:index]",
        "self.frame.loc[self.frame['label'] > 0, 'label']",
        "self.frame[index]['label']",
    ],
)
def test_other_parts_of_an_unknown_frame_are_unknown(code: str) -> None:
    assert isinstance(value_of(ROWS.format(code)), Unknown)


@pytest.mark.parametrize(
    "code",
    [
        "self.tokenizer(text, truncation=True, return_tensors='pt')",
        "self.tokenizer.encode_plus(text, return_tensors='pt')",
        "self.tokenizer.pad(rows, return_tensors='np')",
    ],
)
def test_what_is_asked_for_tensors_gives_them_by_name(code: str) -> None:
    assert isinstance(value_of(ROWS.format(code)), Encoding)
    ids = value_of(ROWS.format(code), "x['input_ids'].flatten()")
    assert shown(ids) == ("(N,)", "int")


@pytest.mark.parametrize(
    "code",
    [
        "self.tokenizer(text, truncation=True)",
        "self.tokenizer(text, return_tensors=kind)",
        "self.tokenizer(text, return_tensors=None)",
        "self.tokenizer.encode(text, return_tensors='pt')",
        "self.tokenizer.apply_chat_template(text, return_tensors='pt')",
    ],
)
def test_other_calls_of_what_is_unknown_give_no_encoding(code: str) -> None:
    assert not isinstance(value_of(ROWS.format(code)), Encoding)
