"""What a run shows of single calls and of losses, with no help from the text: each mistake with a correct twin."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_probe_alone_loops import HEAD, STEPS, shown

pytestmark = pytest.mark.usefixtures("warm")

EVALUATED = """held_out = DataLoader(TensorDataset(*rows[:32]), batch_size=16)
net = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
def evaluate(model):
    model.eval()
    with torch.no_grad():
        found = sum(criterion(model(x + 1), y).item() for x, y in held_out)
    {end}
    return found
print(evaluate(net))
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
    print(evaluate(net))
"""
KEPT_IN_EVAL = """net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net.eval()
with torch.no_grad():
    print(criterion(net(torch.randn(4, 8)), torch.tensor([0, 1, 2, 0])).item())
for x, y in loader:
"""
SWAPPED = """scorer = nn.Sequential(nn.Linear(8, 1), nn.Sigmoid())
optimizer = torch.optim.SGD(scorer.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.binary_cross_entropy({given})
    loss.backward()
    optimizer.step()
"""
FIRST_SCALED = """from sklearn.preprocessing import StandardScaler
from sklearn.model_selection import train_test_split
inside, outside = train_test_split(rows.tensors[0].numpy(), test_size=0.25, random_state=0)
scaler = StandardScaler().fit(inside)
inside, outside = scaler.transform(inside), {outside}
for x, y in loader:
"""
CHUNKED = """class Chunks(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(16, 3)
    def forward(self, x):
        x = x.repeat(1, 4)
        return self.last(x.view({shape}).{rest})
net = Chunks()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
LAYERS = """class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        {made}
        self.last = nn.Linear(8, 3)
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return self.last(x)
net = Deep()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
SCORED = """net = nn.Linear(8, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
criterion = nn.BCEWithLogitsLoss()
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(net(x).flatten(), (y > 1).float())
    loss.backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    found = net(rows.tensors[0] * 9).flatten()
    hits = ({found} > 0.5) == (rows.tensors[1] > 1)
"""
MADE_AGAIN = """def train(model, {given}):
    for epoch in range(3):
        {made}
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
"""
LIT = """import lightning as L
class Lit(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(8, 3)
        self.automatic_optimization = {is_automatic}
    def training_step(self, batch, index):
        loss = criterion(self.net(batch[0]), batch[1])
        {then}
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
L.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, accelerator="cpu").fit(Lit(), loader)
"""
BY_HAND = "self.manual_backward(loss); self.optimizers().step()"
OWN_LOSS = """from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments
ids = [{{"input_ids": torch.randint(1, 50, (10,)), "labels": row % 3}} for row in range(48)]
config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, num_labels=3)
class Weighted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs.pop("labels")
        output = model(**inputs)
        loss = nn.functional.cross_entropy(output.logits{used}, labels, weight=torch.tensor([1.0, 2.0, 1.0]))
        return (loss, output) if return_outputs else loss
args = TrainingArguments("out", max_steps=4, report_to="none", use_cpu=True)
Weighted(BertForSequenceClassification(config), args, train_dataset=ids).train()
"""
PICTURES = """class Pictures(torch.utils.data.Dataset):
    def __init__(self, count, is_training):
        self.pictures, self.labels = torch.rand(count, 1, 4, 4), torch.randint(3, (count,))
        self.is_training = is_training
    def __len__(self):
        return len(self.labels)
    def __getitem__(self, row):
        picture = self.pictures[row]
        if {is_changed}:
            picture = picture + torch.randn(1) / 10
        return picture, self.labels[row]
loader = DataLoader(Pictures(64, True), batch_size=16, shuffle=True)
held_out = DataLoader(Pictures(32, False), batch_size=16)
net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    criterion(net(x), y).backward()
    optimizer.step()
net.eval()
with torch.no_grad():
    print(sum(criterion(net(x), y).item() for x, y in held_out))
"""
STEPWISE = """class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(4, 16{option})
        self.last = nn.Linear(16, 3)
    def forward(self, x):
        x = x.view(-1, 2, 4)
        {swap}
        return self.last(self.layer(x)[0]{taken})
net = Reader()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
CUT_OFF = """first, last = nn.Linear(8, 16), nn.Linear(16, 3)
optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    hidden = first(x)
    hidden = {hidden}
    criterion(last(hidden), y).backward()
    optimizer.step()
"""
OWN_NUMPY = """class Distance(nn.Module):
    def forward(self, given, wanted):
        {given}
        distance = (given - wanted).abs().mean()
        return {distance}
scorer, distance = nn.Linear(8, 1), Distance()
optimizer = torch.optim.SGD(scorer.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = distance(scorer(x), y[:, None].float())
    loss.backward()
    optimizer.step()
"""
STRETCHED = """scorer = nn.Linear(8, {outputs})
optimizer = torch.optim.SGD(scorer.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(scorer(x), y[:, None].float())
    loss.backward()
    optimizer.step()
"""
JUDGED = """maker, judge = nn.Linear(8, 8), nn.Linear(8, {answers})
optimizer = torch.optim.SGD(maker.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    made = maker(x)
    loss = (made - x).abs().mean() + {term}
    loss.backward()
    optimizer.step()
"""
TURNED = """layer = nn.GRU(1, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    count, steps = x.shape
    states, _ = layer({turned}[..., None])
    loss = criterion(states[-1], y)
    loss.backward()
    optimizer.step()
"""
SQUEEZED = """loader = DataLoader(rows, batch_size=16, drop_last={drops})
scorer = nn.Linear(8, 1)
optimizer = torch.optim.SGD(scorer.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    scores = scorer(x).squeeze()
    loss = nn.functional.binary_cross_entropy_with_logits(scores, (y > 0).float())
    loss.backward()
    optimizer.step()
"""
PAIRS = {
    "squeezed rows": ("squeezed-batch-axis", SQUEEZED.format(drops=False), SQUEEZED.format(drops=True), 15),
    "turned": (
        "view-for-permute",
        TURNED.format(turned="x.view(steps, count)"),
        TURNED.format(turned="x.t().contiguous().view(steps, count)"),
        15,
    ),
    "dropped rows": (
        "dropped-eval-rows",
        EVALUATED.format(end="model.train()").replace("batch_size=16)", "batch_size=12, drop_last=True)"),
        EVALUATED.format(end="model.train()").replace("batch_size=16)", "batch_size=16, drop_last=True)"),
        10,
    ),
    "rows as steps": (
        "batch-first-mismatch",
        STEPWISE.format(option="", swap="pass", taken="[:, -1]") + STEPS,
        STEPWISE.format(option=", batch_first=True", swap="pass", taken="[:, -1]") + STEPS,
        18,
    ),
    "rows in steps": (
        "view-for-permute",
        STEPWISE.format(option="", swap="x = x.reshape(2, -1, 4)", taken="[-1]") + STEPS,
        STEPWISE.format(option="", swap="x = x.transpose(0, 2)", taken="[-1]") + STEPS,
        17,
    ),
    "cut off": (
        "detached-loss",
        CUT_OFF.format(hidden="torch.autograd.Variable(hidden, requires_grad=True)"),
        CUT_OFF.format(hidden="hidden.relu()"),
        15,
    ),
    "in NumPy": (
        "detached-loss",
        OWN_NUMPY.format(given="given = given.detach()", distance="torch.tensor(distance.item(), requires_grad=True)"),
        OWN_NUMPY.format(given="pass", distance="distance"),
        12,
    ),
    "two outputs": ("broadcast-loss", STRETCHED.format(outputs=2), STRETCHED.format(outputs=1), 14),
    "judged by labels": (
        "missing-parameters",
        JUDGED.format(answers=3, term="criterion(judge(made), y)"),
        JUDGED.format(answers=1, term="(1 - judge(made)).mean()"),
        15,
    ),
    "changed pictures": (
        "augmented-eval-data",
        PICTURES.format(is_changed="True"),
        PICTURES.format(is_changed="self.is_training"),
        22,
    ),
    "left in eval mode": (
        "eval-mode-in-training",
        EVALUATED.format(end="pass"),
        EVALUATED.format(end="model.train()"),
        14,
    ),
    "swapped": (
        "swapped-loss-arguments",
        SWAPPED.format(given="(y > 0).float()[:, None], scorer(x)"),
        SWAPPED.format(given="scorer(x), (y > 0).float()[:, None]"),
        14,
    ),
    "fitted again": (
        "refitted-preprocessor",
        FIRST_SCALED.format(outside="StandardScaler().fit_transform(outside)") + STEPS,
        FIRST_SCALED.format(outside="scaler.transform(outside)") + STEPS,
        14,
    ),
    "view": (
        "view-for-permute",
        CHUNKED.format(shape="4, x.size(0), 8", rest="transpose(0, 1)[:, :2].flatten(1)").replace(
            "x.repeat(1, 4)", "x.repeat(1, 4).view(-1, 4, 8)"
        )
        + STEPS,
        CHUNKED.format(shape="x.size(0), 4, 8", rest="transpose(0, 1)[:2].transpose(0, 1).flatten(1)") + STEPS,
        16,
    ),
    "one layer": (
        "repeated-module",
        LAYERS.format(made="self.layers = nn.ModuleList([nn.Linear(8, 8)] * 3)") + STEPS,
        LAYERS.format(made="shared = nn.Linear(8, 8); self.layers = nn.ModuleList([shared] * 3)") + STEPS,
        13,
    ),
    "threshold": (
        "threshold-on-logits",
        SCORED.format(found="found"),
        SCORED.format(found="found.sigmoid()"),
        21,
    ),
    "made again": (
        "recreated-optimizer",
        MADE_AGAIN.format(given="", made="optimizer = torch.optim.Adam(model.parameters())") + "train(net)\n",
        MADE_AGAIN.format(given="optimizer", made="pass")
        + "for stage in range(2):\n    train(net, torch.optim.Adam(net.parameters(), lr=1e-3 * (stage + 1)))\n",
        12,
    ),
    "no clearing in Lightning": (
        "missing-zero-grad",
        LIT.format(is_automatic="False", then=BY_HAND),
        LIT.format(is_automatic="False", then=f"self.optimizers().zero_grad(); {BY_HAND}"),
        21,
    ),
    "nothing returned in Lightning": (
        "missing-backward",
        LIT.format(is_automatic="True", then="self.log('loss', loss)"),
        LIT.format(is_automatic="True", then="return loss"),
        21,
    ),
    "softmax in a Trainer": (
        "softmax-before-cross-entropy",
        OWN_LOSS.format(used=".softmax(-1)"),
        OWN_LOSS.format(used=""),
        17,
    ),
}


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize(("rule", "bad", "good", "line"), PAIRS.values(), ids=PAIRS)
def test_a_run_shows_a_call_at_its_statement_and_leaves_the_twin(
    tmp_path: Path, rule: str, bad: str, good: str, line: int
) -> None:
    assert (rule, line) in shown(tmp_path, HEAD + bad)
    assert rule not in {found for found, _ in shown(tmp_path, HEAD + good)}


WINDOWS = """class Windows(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Linear(2, 2), nn.Linear(128, 3)
    def forward(self, x):
        x = x.repeat(1, 16).view(-1, 64, 2)
        return self.last(self.layer(x.view(-1, 16, 2)).view(-1, 128))
net = Windows()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
"""
TASKS = """for task in range(2):
    optimizer = torch.optim.Adam(net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()
"""


def test_windows_as_long_as_a_batch_are_no_swapped_axes(tmp_path: Path) -> None:
    assert shown(tmp_path, HEAD + WINDOWS + STEPS) == set()


def test_a_new_optimizer_for_each_task_is_left_alone(tmp_path: Path) -> None:
    assert shown(tmp_path, HEAD + TASKS) == set()


def test_a_model_that_stays_in_eval_mode_on_purpose_is_left_alone(tmp_path: Path) -> None:
    assert shown(tmp_path, HEAD + KEPT_IN_EVAL + STEPS) == set()


OWN_MODEL = """from transformers import Trainer, TrainingArguments
ids = [{"input_ids": torch.randint(1, 50, (10,)), "labels": row % 3} for row in range(64)]
class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layer, self.last = nn.Embedding(50, 8), nn.GRU(8, 8), nn.Linear(8, 3)
    def forward(self, input_ids, labels=None):
        x = self.embed(input_ids)
        states, _ = self.layer(x.view(x.size(1), x.size(0), 8))
        logits = self.last(states[-1])
        return {"loss": criterion(logits, labels), "logits": logits}
args = TrainingArguments("out", max_steps=4, per_device_train_batch_size=16, report_to="none", use_cpu=True)
Trainer(Own(), args, train_dataset=ids).train()
"""


def test_a_call_in_a_model_of_a_trainer_is_seen(tmp_path: Path) -> None:
    assert ("view-for-permute", 18) in shown(tmp_path, HEAD + OWN_MODEL)
