"""Pieces of scripts as people paste them: which texts they are, how they are read, what they take for granted."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lintrain.analysis import whole_numbers
from lintrain.check.one_file import OLD_GRAMMAR, Reading, check_source
from lintrain.check.tiers import names_library
from lintrain.cli import run
from lintrain.knowledge.versions import TargetVersions
from lintrain.model.level import Level
from lintrain.rulebook import find_rules
from lintrain.source.fragments import KERAS_NAMES, MODULES, NAMES, TORCH_NAMES, meaning_in, meanings, packages_meant
from lintrain.source.pasted import is_pasted
from lintrain.source.reading import read_bytes
from lintrain.source.repair import repair
from lintrain.source.source import Source
from lintrain.source.training_syntax import imported_packages
from tests.support.notebooks import notebook

LOOP = "for x, y in loader:\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    optimizer.step()\n"
"""Gradients are never cleared."""


def read(text: str, path: str = "t.py") -> Reading:
    return check_source(Source(path, text), find_rules(), TargetVersions)


def findings_in(text: str) -> list[tuple[str, int, int]]:
    found = [one.finding for one in read(text).reported]
    return [(one.rule, one.location.line, one.location.column) for one in found]


class TestWhichTexts:
    @pytest.mark.parametrize(
        "text",
        [
            LOOP,
            "loss.backward()",
            "model = nn.Linear(3, 2)",
            "trainer = Trainer(model=model)",
            'model.compile("adam", loss="mse")',
            "x.requires_grad = True",
            "ids = tokenizer.apply_chat_template(turns)",
            "def update():\n    optimizer.zero_grad()",
        ],
    )
    def test_training_without_an_import_is_a_piece_of_a_script(self, text: str) -> None:
        assert is_pasted(text)
        assert names_library(text.encode())

    @pytest.mark.parametrize(
        "text",
        [
            "import os\n" + LOOP,
            "def f():\n    from torch import nn\n" + LOOP,
            "model.fit(x)",
            "optimizer = dict(type='SGD', lr=0.02)\nmodel = dict(type='FCN')",
            "env.step(action)",
            "print('hello')",
            "",
        ],
    )
    def test_other_texts_are_none(self, text: str) -> None:
        assert not is_pasted(text)


class TestMargins:
    @pytest.mark.parametrize(
        "text",
        [
            "".join(f"    {line}\n" for line in LOOP.splitlines()),
            LOOP.replace("    ", "\t"),
            LOOP.replace("    loss.backward", "\tloss.backward"),
            LOOP.replace("loader:", "loader\uff1a"),
            LOOP.replace("model(x)", "model\uff08x\uff09"),
            LOOP.replace("    loss.b", "  loss.b"),
            "# as told\n" + LOOP.replace("    optimizer", "   optimizer"),
            LOOP + "for x in loader:\n",
            "Why does this not learn?\n\n```python\n" + LOOP + "```\nThanks!",
            "```\n" + LOOP + "```\n and\n```py\nx = 1\n```",
            "".join(f"{'...' if line[0] == ' ' else '>>>'} {line}\n" for line in LOOP.splitlines())
            + "tensor(3)\n>>> x\n",
        ],
    )
    def test_a_shifted_margin_is_read_in_silence(self, text: str) -> None:
        assert [rule for rule, _, _ in findings_in(text)] == ["missing-zero-grad"]

    def test_a_first_line_that_lost_its_margin_gets_that_of_the_next(self) -> None:
        tree = Source("t.py", "out = model(x)\n        loss = F.mse_loss(out, y)\n        loss.backward()\n").tree
        assert [(each.lineno, each.col_offset) for each in tree.body] == [(1, 0), (2, 8), (3, 8)]

    def test_places_are_those_of_the_text_as_it_was_pasted(self) -> None:
        text = "    größe = '長', nn.Linear(3, 2)\n    x = größe\n"
        source = Source("t.py", text)
        (call,) = source.nodes_of(ast.Call)
        assert source.code(source.location(call)) == "nn.Linear(3, 2)"

    @pytest.mark.parametrize(
        "line",
        [
            "x = (",
            "print(list(net.parameters())  # all of them",
            "....",
            "Then I get this error:",
            "rows = {\n    'x': [1, 2],\n",
            "%matplotlib inline",
            "    )",
        ],
    )
    def test_a_line_that_is_cut_off_or_no_code_is_a_note_and_the_rest_is_judged(self, line: str) -> None:
        reading = read(LOOP + f"{line}\nprint(x)\n")
        found = {one.finding.rule: one.finding.level for one in reading.reported}
        assert found == {"syntax-error": Level.NOTE, "missing-zero-grad": Level.ERROR}

    def test_a_bracket_that_nothing_closes_ends_before_the_next_statement(self) -> None:
        text = "rows = load(\n    {'x': 1,\n     'y': 2}\nother = load(3)\nnn.ReLU()\n"
        tree = Source("t.py", text).tree
        assert [ast.unparse(each) for each in tree.body] == [
            "rows = load({'x': 1, 'y': 2})", "other = load(3)", "nn.ReLU()",
        ]  # fmt: skip

    def test_prose_with_a_few_words_of_code_is_not_read(self) -> None:
        text = "My model does not learn.\nI call loss.backward() in it\nand do not know why.\n" * 9
        assert [rule for rule, _, _ in findings_in(text)] == ["syntax-error"]

    def test_a_file_with_commands_of_a_notebook_is_judged_without_them(self) -> None:
        text = f"import torch\nfrom torch.nn import functional as F\n!pip install x\n%cd data\n{LOOP}"
        assert [rule for rule, _, _ in findings_in(text)] == ["syntax-error", "missing-zero-grad"]

    def test_the_margin_of_code_with_imports_is_a_mistake_and_the_rest_is_judged(self) -> None:
        text = "".join(f"    {line}\n" for line in ("from torch.nn import functional as F", *LOOP.splitlines()))
        assert [rule for rule, _, _ in findings_in(text)] == ["syntax-error", "missing-zero-grad"]

    def test_a_script_with_imports_is_not_repaired(self) -> None:
        reading = read("import torch\n    x = 1\n")
        assert reading.is_broken
        assert [one.finding.rule for one in reading.reported] == ["syntax-error"]


class TestOldGrammar:
    @pytest.mark.parametrize(
        "line",
        [
            'print "a", loss',
            'print "a"  # why',
            'if loss: print "a"',
            'print "a %d" % (\n        loss)',
            "x = x.cuda(async=True)",
            "try:\n        f()\n    except Error, caught:\n        pass",
        ],
    )
    def test_python_2_is_a_note_and_the_rest_is_judged(self, line: str) -> None:
        reading = read(LOOP + f"    {line}\n")
        found = {one.finding.rule: one.finding.level for one in reading.reported}
        assert set(found) == {"syntax-error", "missing-zero-grad"}
        assert found["syntax-error"] == "note"
        assert not reading.is_broken

    @pytest.mark.parametrize(
        "line",
        [
            'print "a", loss',
            'print "a %d" % (\n        loss)',
            "x = x.cuda(async=True)",
            "try:\n        f()\n    except Error, caught:\n        pass",
        ],
    )
    def test_a_whole_file_of_python_2_cannot_run_and_the_rest_is_judged(self, line: str) -> None:
        reading = read(f"import torch\nfrom torch.nn import functional as F\nstart()\n{LOOP}    {line}\n")
        found = {one.finding.rule: (one.finding.level, one.finding.why) for one in reading.reported}
        assert set(found) == {"syntax-error", "missing-zero-grad"}
        assert found["syntax-error"] == ("error", OLD_GRAMMAR)
        assert all(one.fix is None for one in reading.reported)

    @pytest.mark.parametrize(
        ("before", "after", "is_float"),
        [
            ("", "print('a')", True),
            ("", "print 'a'", False),
            ("from __future__ import division\n", "print 'a'", True),
            ("", "x = x.cuda(async=True)", True),
        ],
    )
    def test_only_python_2_divides_whole_numbers_into_a_whole_number(
        self, before: str, after: str, is_float: bool
    ) -> None:
        reading = read(f"{before}import torch\nsteps = len([1]) / 2\nfor step in range(steps):\n    {after}\n")
        assert ("float-size" in {one.finding.rule for one in reading.reported}) is is_float

    @pytest.mark.parametrize(
        ("beside", "found"),
        [
            ("print 'read {}'.format(n)\n", 0),
            ("print 'read %d' % n\n", 0),
            ("print('read')\n", 1),
            ("# print 'a'\n", 1),
        ],
    )
    def test_a_script_of_python_2_beside_a_file_counts_for_it(self, beside: str, found: int, tmp_path: Path) -> None:
        code = "import torch.nn as nn\n\n\ndef build(width):\n    half = width / 2\n    return nn.Linear(half, 1)\n"
        (tmp_path / "net.py").write_text(code)
        (tmp_path / "count.py").write_text(f"n = 1\n{beside}")
        assert len(whole_numbers.float_sizes(Source(str(tmp_path / "net.py"), code))) == found

    @pytest.mark.parametrize(("head", "is_found"), [("", True), ("import torch\nfrom torch import nn\n\n\n", False)])
    def test_a_piece_shows_no_caller_that_needs_no_axes(self, head: str, is_found: bool) -> None:
        network = "class Scorer(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        layer = "        self.output = nn.Linear(8, 1)\n\n    def forward(self, x):\n"
        reading = read(f"{head}{network}{layer}        return self.output(x).squeeze()\n")
        assert ("squeezed-batch-axis" in {one.finding.rule for one in reading.reported}) is is_found

    @pytest.mark.parametrize(("beside", "found"), [("print 'read'\n", 0), ("print('read')\n", 1)])
    def test_a_script_of_python_2_beside_a_file_means_an_old_keras(
        self, beside: str, found: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "fit.py").write_text(
            "import keras\n\nmodel = keras.models.load_model('m.h5')\n"
            "model.compile(loss='mse', optimizer='adam', metrics=['accuracy'])\n"
            "best = keras.callbacks.ModelCheckpoint('b.h5', monitor='val_acc', save_best_only=True)\n"
            "model.fit(x, y, validation_data=(v, w), callbacks=[best])\n"
        )
        (tmp_path / "count.py").write_text(beside)
        (tmp_path / "requirements.txt").write_text("keras>=2.3\n")
        run(["check", "--isolated", "--no-cache", "--select", "unavailable-monitor", str(tmp_path / "fit.py")])
        assert capsys.readouterr().out.count("fit.py:") == found

    def test_a_file_with_another_mistake_is_not_read(self) -> None:
        reading = read(f"import torch\n{LOOP}    print 'a'\nx = (\n")
        assert reading.is_broken

    def test_async_keeps_its_name(self) -> None:
        (keyword,) = Source("t.py", "x = nn.f(async=True)").nodes_of(ast.keyword)
        assert keyword.arg == "async"


class TestNames:
    @pytest.mark.parametrize(
        ("text", "name", "path"),
        [
            ("nn.Linear(1, 1)", "nn", "torch.nn"),
            ("np.zeros(3); loss.backward()", "np", "numpy"),
            ("trainer = Trainer(model=model, args=args)", "Trainer", "transformers.Trainer"),
            ("trainer = Trainer(max_epochs=3); trainer.fit(net)", "Trainer", "pytorch_lightning.Trainer"),
            ("class A(Dataset): ...\nDataLoader(A())", "Dataset", "torch.utils.data.Dataset"),
            ("rows = Dataset.from_dict({}); Trainer(rows)", "Dataset", "datasets.Dataset"),
            ("o = Adam(net.parameters()); o.zero_grad()", "Adam", "torch.optim.Adam"),
            ("net.add(Dense(1)); o = Adam()", "Adam", "keras.optimizers.Adam"),
            ("Dense(1, activation=tf.nn.relu)", "Dense", "keras.layers.Dense"),
            ("datasets.MNIST(root); nn.f", "datasets", "torchvision.datasets"),
            ("datasets.load_dataset('x')", "datasets", "datasets"),
            (
                "AutoModelForCausalLM.from_pretrained('gpt2')",
                "AutoModelForCausalLM",
                "transformers.AutoModelForCausalLM",
            ),
            ("SFTTrainer(model)", "SFTTrainer", "trl.SFTTrainer"),
        ],
    )
    def test_a_free_name_stands_for_what_it_usually_does(self, text: str, name: str, path: str) -> None:
        source = Source("t.py", text + "\nx.detach()" if not is_pasted(text) else text)
        assert meanings(source)[name] == path
        assert path.partition(".")[0] in packages_meant(source)

    def test_a_name_that_the_text_binds_stands_for_that(self) -> None:
        assert not meanings(
            Source("t.py", "nn = build()\nnn.f(); loss.backward()\ndef g(F, *optim): F.relu(optim.x)\n")
        )

    def test_a_script_has_no_usual_names(self) -> None:
        assert not meanings(Source("t.py", "import os\nnn.Linear(1, 1)\n"))

    @pytest.mark.parametrize(
        ("text", "path"),
        [
            ("import os\nnn.Linear(1, 1)\n", "torch.nn"),
            ("import os\nnn = build()\nnn.Linear(1, 1)\n", None),
            ("from mine import *\nnn.Linear(1, 1)\n", None),
            ("import os\nglobals().update(nn=build())\nnn.Linear(1, 1)\n", None),
            ("nn.Linear(1, 1)\nloss.backward()\n", "torch.nn"),
        ],
    )
    def test_a_name_whose_import_was_forgotten_stands_for_what_it_usually_does(
        self, text: str, path: str | None
    ) -> None:
        assert meaning_in(Source("t.py", text), "nn") == path

    def test_a_forgotten_import_hides_no_other_mistake(self) -> None:
        text = "import torch\n\ncompare = nn.CrossEntropyLoss()\n" + LOOP.replace("F.cross_entropy(", "compare(")
        found = findings_in(text.replace("model(x)", "torch.softmax(model(x), 1)"))
        assert "softmax-before-cross-entropy" in [rule for rule, _, _ in found]

    def test_no_name_has_two_meanings(self) -> None:
        names = [name for table in (NAMES, TORCH_NAMES) for each in table.values() for name in each.split()]
        assert len(names) == len(set(names))
        assert len(keras := [name for each in KERAS_NAMES.values() for name in each.split()]) == len(set(keras))
        assert not set(names) & set(MODULES)

    def test_a_finding_says_what_its_names_are_taken_for(self) -> None:
        (one,) = read(
            LOOP.replace("model(x)", "F.softmax(model(x), -1)").replace("loss.b", "optimizer.zero_grad()\n    loss.b")
        ).reported
        assert one.finding.why.endswith("Here `F` is taken for `torch.nn.functional`.")


class TestWholeScripts:
    IMPORTS = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
    CODE = (
        "model = nn.Linear(8, 2)\noptimizer = torch.optim.Adam(model.parameters())\n"
        "schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"
        "for x, y in torch.load('rows.pt'):\n    optimizer.zero_grad()\n"
        "    F.cross_entropy(model(x), y).backward()\n    optimizer.step()\n"
    )

    def test_what_the_rest_of_a_script_may_do_is_no_mistake_of_a_piece(self) -> None:
        whole = {one.finding.rule for one in read(self.IMPORTS + self.CODE).reported}
        assert "unstepped-scheduler" in whole
        assert read(self.CODE).reported == ()

    def test_rules_that_judge_the_whole_script(self) -> None:
        assert {rule.name for rule in find_rules() if rule.judges_whole_script} == {
            "missing-seed",
            "restarted-best-score",
            "two-models-on-device",
            "uncompiled-model",
            "unsaved-model",
            "unstepped-scheduler",
            "unused-callback",
            "unused-eval-settings",
            "weights-only-resume",
        }


class TestNotebooks:
    def read(self, *cells: str) -> tuple[Source, Reading]:
        source = read_bytes("n.ipynb", notebook(*cells).encode())
        return source, check_source(source, find_rules(), TargetVersions)

    def test_a_cell_that_does_not_parse_is_one_finding_and_the_rest_is_judged(self) -> None:
        source, reading = self.read("import torch\nfrom torch.nn import functional as F", "x = = 1\ny = (", LOOP)
        found = sorted((one.finding.location, one.finding.rule, one.finding.level) for one in reading.reported)
        assert [(rule, level) for _, rule, level in found] == [
            ("syntax-error", "error"),
            ("missing-zero-grad", "error"),
        ]
        assert [source.locate(location).cell for location, _, _ in found] == [2, 3]

    def test_a_cell_of_python_2_is_read(self) -> None:
        loop = LOOP.replace("    optimizer", '    print "loss", loss\n    optimizer')
        source, reading = self.read("import torch\nfrom torch.nn import functional as F", "print 1", loop)
        found = sorted((one.finding.location, one.finding.rule) for one in reading.reported)
        assert [rule for _, rule in found] == ["syntax-error", "missing-zero-grad"]
        assert not source.is_partial

    def test_lines_in_the_message_are_those_of_the_cell(self) -> None:
        _, reading = self.read("import torch", "x = 1\ny = [\n1)")
        assert [one.finding.message for one in reading.reported] == [
            "closing parenthesis ')' does not match opening parenthesis '[' on line 2"
        ]

    def test_a_notebook_without_a_readable_cell_is_broken(self) -> None:
        _, reading = self.read("import torch (", "x = = 1")
        assert reading.is_broken


def test_a_whole_file_in_an_old_grammar_is_read() -> None:
    loop = LOOP.replace("    optimizer", '    x = x.cuda(async=True)\n    print "loss", loss\n    optimizer')
    source = Source("train.py", f"import torch\nfrom torch.nn import functional as F\n{loop}")
    assert [flaw.lineno for flaw in source.flaws] == [source.text.split("\n").index("    x = x.cuda(async=True)") + 1]
    assert not source.is_partial
    assert any(each.arg == "async" for each in source.nodes_of(ast.keyword))


def test_a_whole_file_with_another_mistake_is_not_repaired() -> None:
    assert repair("import torch\nprint 1\nx = (", ()) is None


def test_a_project_file_without_imports_is_read(tmp_path: Path) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    assert names_library((tmp_path / "loop.py").read_bytes())


@pytest.mark.parametrize(
    ("text", "packages"),
    [
        (
            "from sklearn.svm import SVC\nnet = Sequential([Dense(3)])\nnet.compile('sgd', 'mse')\n",
            {"sklearn", "keras"},
        ),
        ("import numpy as np\nnet = nn.Linear(3, 2)\nnet(x).sum().backward()\n", {"numpy", "torch"}),
        ("from sklearn.svm import SVC\nfrom setup import *\nnet = Sequential([Dense(3)])\n", {"sklearn", "setup"}),
        ("from sklearn.svm import SVC\nSVC().fit(x, y)\n", {"sklearn"}),
    ],
)
def test_a_script_uses_the_libraries_whose_import_it_lacks(text: str, packages: set[str]) -> None:
    assert imported_packages(Source("t.py", text)) == packages


@pytest.mark.parametrize("base", ["nn.Module", "th.nn.Module", "LightningModule"])
@pytest.mark.parametrize(("layers", "is_lost"), [("[Linear(8, 8), Linear(8, 3)]", True), ("ModuleList([])", False)])
def test_a_network_in_a_piece_may_lack_its_forward_pass(base: str, layers: str, *, is_lost: bool) -> None:
    layers = layers.replace("Linear", "nn.Linear").replace("ModuleList", "nn.ModuleList")
    text = f"class Net({base}):\n    def __init__(self):\n        super().__init__()\n        self.all = {layers}\n"
    found = [rule for rule, _, _ in findings_in(f"{text}net = Net()\noptimizer = optim.SGD(net.parameters(), 0.1)\n")]
    assert ("unregistered-modules" in found) is is_lost


def test_a_file_with_its_imports_does_not_lack_its_forward_pass() -> None:
    lines = "class Net(nn.Module):\n    def __init__(self):\n        self.all = [nn.Linear(8, 8), nn.Linear(8, 3)]\n"
    assert "unregistered-modules" not in {
        rule for rule, _, _ in findings_in(f"from torch import nn\n{lines}net = Net()\n")
    }


@pytest.mark.parametrize(
    ("rows", "use", "found"),
    [
        ("MNIST('d', train=True)", "", 1),
        ("MNIST('d', train=True)", "fit(model, train_loader)", 1),
        ("MNIST('d', train=True)", "validate_open_set(model, rows=train_loader)", 0),
        ("MNIST('d', train=False)", "", 0),
    ],
)
def test_a_loader_that_is_only_evaluated_on_needs_no_shuffling(rows: str, use: str, found: int) -> None:
    text = f"train_loader = DataLoader({rows}, batch_size=8)\nmodel = nn.Linear(3, 2)\n{use}\n"
    rules = [rule for rule, *_ in findings_in(text)]
    assert rules.count("unshuffled-training-data") == found
