"""What a run shows of data and labels without any text: mistakes that no rule's page runs, each with a correct twin."""

from __future__ import annotations

import textwrap

import pytest

from lintrain.evidence.run import Evidence
from lintrain.model.verdict import Outcome
from lintrain.rulebook import load_rules
from lintrain.verdicts.judging import judge
from tests.pages.assembly import assemble
from tests.pages.running import PageRunner

pytestmark = pytest.mark.slow


LOOP = """
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        for x, y in held_out:
            print(net(x).argmax(-1).eq(y).float().mean())
"""
OWN_LM = """
    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(60, 16)
            self.rnn = nn.GRU(16, 16, batch_first=True)
            self.head = nn.Linear(16, 60)

        def forward(self, ids):
            return self.head(self.rnn(self.embed(ids))[0])

    torch.manual_seed(0)
    ids = torch.randint(3, 60, (64, 12))
    for row in range(64):
        ids[row, 4 + row % 8 :] = 0
    tiny = Tiny()
    optimizer = torch.optim.Adam(tiny.parameters())
    for start in range(0, 64, 16):
        rows = ids[start : start + 16]
"""
CLASSIFIER = """
    rows = tokenized["train"]
    model = AutoModelForSequenceClassification.from_pretrained(
        "distilbert-base-uncased", id2label=dict(enumerate({names}))
    )
    trainer = Trainer(model, args, train_dataset=rows, data_collator=collator)
    trainer.train()
"""
FROZEN = """
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
            self.head = nn.Linear(32, 3)

        def forward(self, x):
            return self.head(self.body(x))

    net = Net()
    for layer in (net.{frozen},):
        for parameter in layer.parameters():
            parameter.requires_grad = False
    optimizer = torch.optim.Adam(parameter for parameter in net.parameters() if parameter.requires_grad)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
"""
CASES = {
    "rows of the training in the evaluation of a loop": (
        "train-data-in-eval",
        """
    held_out = DataLoader(TensorDataset(features[:48].clone(), targets[:48].clone()), batch_size=16)
    """
        + LOOP,
        """
    train_loader = DataLoader(TensorDataset(features[48:], targets[48:]), batch_size=16, shuffle=True)
    held_out = DataLoader(TensorDataset(features[:48].clone(), targets[:48].clone()), batch_size=16)
    """
        + LOOP,
    ),
    "a rare label beyond a head of one's own": (
        "missing-num-labels",
        """
    labels = targets.clone()
    labels[-1] = 7
    train_loader = DataLoader(TensorDataset(features, labels), batch_size=4)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    """,
        """
    train_loader = DataLoader(TensorDataset(features, targets), batch_size=4)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    """,
    ),
    "nearly all labels of a loop in one class": (
        "label-imbalance",
        """
    labels = torch.zeros(96, dtype=torch.int64)
    labels[::40] = 1
    train_loader = DataLoader(TensorDataset(features, labels), batch_size=4, shuffle=True)
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    """,
        """
    labels = torch.zeros(96, dtype=torch.int64)
    labels[::40] = 1
    weighted = nn.CrossEntropyLoss(weight=torch.tensor([0.1, 1.0, 1.0]))
    train_loader = DataLoader(TensorDataset(features, labels), batch_size=4, shuffle=True)
    for x, y in train_loader:
        optimizer.zero_grad()
        weighted(net(x), y).backward()
        optimizer.step()
    """,
    ),
    "an own language model that predicts its own tokens": (
        "missing-shift",
        OWN_LM
        + """
        optimizer.zero_grad()
        F.cross_entropy(tiny(rows).flatten(0, 1), rows.flatten(), ignore_index=0).backward()
        optimizer.step()
    """,
        OWN_LM
        + """
        optimizer.zero_grad()
        F.cross_entropy(tiny(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=0).backward()
        optimizer.step()
    """,
    ),
    "padding in the loss of an own language model": (
        "pad-in-loss",
        OWN_LM
        + """
        optimizer.zero_grad()
        F.cross_entropy(tiny(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten()).backward()
        optimizer.step()
    """,
        OWN_LM
        + """
        optimizer.zero_grad()
        F.cross_entropy(tiny(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten(), ignore_index=0).backward()
        optimizer.step()
    """,
    ),
    "labels shifted the wrong way": (
        "missing-shift",
        """
    def collate(rows):
        ids = torch.randint(5, 500, (len(rows), 12))
        return {"input_ids": ids, "labels": torch.cat([ids[:, :1], ids[:, :-1]], dim=1)}

    settings = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(lm, settings, train_dataset=text["train"], data_collator=collate)
    trainer.train()
    """,
        """
    def collate(rows):
        ids = torch.randint(5, 500, (len(rows), 12))
        return {"input_ids": ids, "labels": ids.clone()}

    settings = TrainingArguments("out", remove_unused_columns=False)
    trainer = Trainer(lm, settings, train_dataset=text["train"], data_collator=collate)
    trainer.train()
    """,
    ),
    "raw rows given to predict": (
        "raw-dataset",
        """
    trainer = Trainer(model, args, train_dataset=tokenized["train"], processing_class=tokenizer)
    trainer.train()
    trainer.predict(raw["validation_matched"])
    """,
        """
    trainer = Trainer(model, args, train_dataset=tokenized["train"], processing_class=tokenizer)
    trainer.train()
    trainer.predict(tokenized["validation_matched"])
    """,
    ),
    "an evaluation of one class": (
        "sorted-subset",
        """
    few = tokenized["validation_matched"].sort("label").select(range(12))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], eval_dataset=few, processing_class=tokenizer)
    trainer.train()
    """,
        """
    few = tokenized["validation_matched"].shuffle(seed=0).select(range(12))
    trainer = Trainer(model, args, train_dataset=tokenized["train"], eval_dataset=few, processing_class=tokenizer)
    trainer.train()
    """,
    ),
    "a last layer of one's own that is frozen": (
        "frozen-head",
        FROZEN.format(frozen="head"),
        FROZEN.format(frozen="body[0]"),
    ),
    "names of labels in another order": (
        "reordered-label-names",
        CLASSIFIER.format(names='["contradiction", "neutral", "entailment"]'),
        CLASSIFIER.format(names='["entailment", "neutral", "contradiction"]'),
    ),
}
EVERY_CASE = pytest.mark.parametrize(("rule", "bad", "good"), CASES.values(), ids=CASES)


@pytest.mark.turns(one_in=3)
@EVERY_CASE
def test_a_run_alone_finds_the_mistake_and_leaves_its_twin(rule: str, bad: str, good: str, runner: PageRunner) -> None:
    assert rule in confirmed_in(bad, runner)
    assert rule not in confirmed_in(good, runner)


def confirmed_in(example: str, runner: PageRunner) -> set[str]:
    """The rules that a run confirms by itself."""
    evidence = evidence_of(example, runner)
    judged = judge([evidence], [], load_rules())
    return {finding.rule for finding, verdict in judged if verdict.outcome is Outcome.CONFIRMED}


def evidence_of(example: str, runner: PageRunner) -> Evidence:
    """What a run of an example measures."""
    outcome = runner.probe(assemble(textwrap.dedent(example).strip("\n") + "\n"), overfit=False)
    assert outcome.evidence is not None, outcome.output
    return outcome.evidence
