"""A run watched to its end: nothing of it changes, late mistakes are named once, sound courses are left alone."""

from __future__ import annotations

import gc
import math
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as everybody names it
from transformers import Trainer, TrainerCallback

import lintrain
from lintrain.callbacks import LightningWatch, TrainerWatch, whole_run
from lintrain.callbacks.history import History
from lintrain.callbacks.own_loop import LOOPS
from lintrain.callbacks.reporting import MistakeWarning, Reporting
from lintrain.callbacks.signs import signs
from lintrain.callbacks.whole_run import WholeRun
from lintrain.runtime.child.saved_batch import MOST_BYTES, GivenBatch, SavedBatch, load_batch, save_batch
from lintrain.runtime.in_process.embeddings import compared
from lintrain.runtime.in_process.loss_graph import GROUP, LateReader, heads_of, leaves_of
from lintrain.runtime.parent.pass_request import is_kept_batch
from tests.test_in_process_lightning import Classifier, made
from tests.test_in_process_trainer import same, state_of, trainer_of

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    yield
    LOOPS.finish()


def loop(
    steps: int = 200, *, watch: Any = lintrain.watch, at: int = -1, change: Callable[[Any], Any] | None = None
) -> Any:
    """A loop of one's own; from step `at` on its rows are changed."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for step in range(steps):
        x = torch.randn(16, 6)
        y = x[:, :3].argmax(1)
        if change is not None and step == at:
            x = change(x)
        loss = F.cross_entropy(net(x), y)
        if watch is not None and watch(loss, batch={"x": x, "y": y}, rows=range(step * 16, step * 16 + 16)):
            break
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return net


def kinds(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(each.message).split("[", 1)[1].split("]", 1)[0] for each in caught if each.category is MistakeWarning]


def test_weights_are_the_same_to_the_bit_with_a_watch() -> None:
    plain, watched = loop(watch=None), loop()
    assert same(dict(watched.state_dict()), dict(plain.state_dict()))
    assert import_module("torch.optim.optimizer")._global_optimizer_pre_hooks
    LOOPS.finish()
    assert not import_module("torch.optim.optimizer")._global_optimizer_pre_hooks


def test_a_loss_that_is_not_finite_is_named_once_with_its_step_rows_and_page() -> None:
    with pytest.warns(MistakeWarning, match=r"not finite at step 121.*rows 1920, 1921") as caught:
        loop(at=120, change=lambda x: x * float("nan"))
    assert len(caught) == 1
    text = str(caught[0].message)
    assert re.match(r"\S*test_whole_run\.py:\d+: error", text)
    assert "lintrain explain nan-loss" in text
    assert "--batch lintrain-batch-121.pt" in text


def test_the_failing_batch_is_kept() -> None:
    with pytest.warns(MistakeWarning):
        loop(at=120, change=lambda x: x * float("nan"))
    kept = load_batch("lintrain-batch-121.pt")
    assert kept.step == 121
    assert kept.rows == tuple(range(1920, 1936))
    assert kept.batch["x"].isnan().all()
    assert kept.batch["y"].shape == (16,)


@pytest.mark.parametrize("at", [121, 122, 123])
@pytest.mark.parametrize(("factor", "kind"), [(float("nan"), "non-finite"), (1e4, "spike")])
def test_losses_between_two_samples_are_judged_at_once(at: int, factor: float, kind: str) -> None:
    """Usual ones are only noted there, and added to the course at the next sample."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loop(at=at, steps=at + 1, change=lambda x: x * factor)
        assert kinds(caught) == [kind]
    (kept,) = Path().glob("lintrain-batch-*.pt")
    assert load_batch(str(kept)).rows == tuple(range(at * 16, at * 16 + 16))
    (run, _), *_ = LOOPS.runs.values()
    assert run.history.count == at + 1


def test_weights_that_are_nan_already_lead_to_the_batch_before() -> None:
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(8):
            x = torch.full((2, 4), float(step))
            loss = net(x).square().mean()
            if step == 4:
                loss = loss + (net.weight.sum() * 0).sqrt()  # its gradient is NaN
            lintrain.watch(loss, batch=x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert kinds(caught) == ["non-finite"]
    assert load_batch("lintrain-batch-6.pt").batch[0, 0] == 4


def test_an_error_is_raised_on_request() -> None:
    def watch(loss: Any, **given: Any) -> bool:
        return lintrain.watch(loss, on_mistake="raise", **given)

    with pytest.raises(lintrain.MistakesError, match="not finite at step 51") as raised:
        loop(at=50, watch=watch, change=lambda x: x * float("inf"))
    assert [sign.rule for sign in raised.value.report.findings] == ["non-finite"]


def test_a_loop_can_end_when_asked_to() -> None:
    seen: list[bool] = []

    def watch(loss: Any, **given: Any) -> bool:
        seen.append(lintrain.watch(loss, on_mistake="stop", **given))
        return seen[-1]

    with pytest.warns(MistakeWarning):
        loop(at=50, watch=watch, change=lambda x: x * float("inf"))
    assert (len(seen), seen[-1]) == (51, True)


def test_a_kind_can_be_ignored() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loop(
            at=50,
            watch=lambda loss, **given: lintrain.watch(loss, ignore=("non-finite",), **given),
            change=lambda x: x * float("inf"),
        )


def test_each_line_has_losses_of_its_own_and_names_do_too() -> None:
    for step in range(150):
        lintrain.watch(1.0 + step % 3)
        lintrain.watch({"one": 100.0, "two": 0.001})
    assert [run.history.start for run, _ in LOOPS.runs.values()] == [2.0, 100.0, 0.001]


def test_a_loss_without_gradients_is_one_of_evaluation() -> None:
    weight = torch.ones((), requires_grad=True)
    for _ in range(3):
        lintrain.watch(weight * 2)
        with torch.no_grad():
            lintrain.watch(weight * 4)
            lintrain.watch(weight * 6)
    ((run, _),) = LOOPS.runs.values()
    run.finish()
    assert [point.value for point in run.history.evaluations] == [5.0, 5.0, 5.0]


def test_no_graph_and_no_old_model_is_kept() -> None:
    net = nn.Linear(3, 1)
    for _ in range(3):
        loss = net(torch.ones(2, 3)).mean()
        lintrain.watch(loss)
    references = [weakref.ref(net.weight), weakref.ref(loss)]
    del net, loss
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_a_new_model_at_the_same_line_begins_anew() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            loop(120)


def test_a_weight_at_the_address_of_one_that_is_gone_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lintrain.callbacks.whole_run.id", lambda _: 7, raising=False)
    run = WholeRun(Reporting("warn"), None)
    for is_new in (False, True):
        net = nn.Linear(6, 1, bias=False)
        loss = net(torch.ones(4, 6)).mean()
        assert run._is_new_run(leaves_of(loss)) is is_new
        run.on_loss(loss)
        del net, loss


def test_what_is_on_its_way_is_read_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    class Arrival:
        here = False

        def query(self) -> bool:
            return self.here

        def synchronize(self) -> None:
            self.here = True

    arrivals: list[Arrival] = []

    def on_its_way(values: Any) -> tuple[Any, Any]:
        arrivals.append(Arrival())
        return values.clone(), arrivals[-1]

    monkeypatch.setattr("lintrain.runtime.in_process.loss_graph._on_its_way", on_its_way)
    monkeypatch.setattr("lintrain.runtime.in_process.loss_graph.AT_ONCE", "nothing")
    reader, read = LateReader(), list[float]()
    for value in range(3):
        reader.add(torch.tensor(float(value)), lambda values: read.extend(values), is_alone=True)
    arrivals[1].here = True
    reader.read()
    assert read == []
    arrivals[0].here = True
    reader.read()
    assert read == [0.0, 1.0]
    reader.read(must=True)
    assert read == [0.0, 1.0, 2.0]


def test_losses_of_an_accelerator_are_sent_together(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []

    def on_its_way(values: Any) -> tuple[Any, Any]:
        sent.append(len(values))
        return values.clone(), None

    monkeypatch.setattr("lintrain.runtime.in_process.loss_graph._on_its_way", on_its_way)
    monkeypatch.setattr("lintrain.runtime.in_process.loss_graph.AT_ONCE", "nothing")
    monkeypatch.setattr("lintrain.runtime.in_process.loss_graph.LONGEST_S", 1_000.0)
    reader, read, loss = LateReader(), list[float](), torch.zeros(())
    for value in range(GROUP + 3):
        reader.add(loss.fill_(value), lambda values: read.extend(values))
    assert (sent, read) == ([GROUP], [float(value) for value in range(GROUP)])
    assert reader.waits
    reader.read(must=True)
    assert (sent, read) == ([GROUP, 3], [float(value) for value in range(GROUP + 3)])
    monkeypatch.setattr("lintrain.runtime.in_process.loss_graph.LONGEST_S", 0.0)
    reader.add(loss, lambda values: read.extend(values))
    reader.read()
    assert (sent[-1], read[-1]) == (1, GROUP + 2)


def follow_all(losses: list[Any]) -> None:
    for number, loss in enumerate(losses):
        lintrain.watch(loss, batch={"x": torch.full((2,), float(number))})


def test_the_batch_of_a_loss_that_is_sent_later_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lintrain.runtime.in_process.loss_graph.AT_ONCE", "nothing")
    monkeypatch.chdir(tmp_path)
    losses = [torch.tensor(math.nan if number == 5 else 1.0, requires_grad=True) for number in range(3 * GROUP)]
    with pytest.warns(MistakeWarning, match="not finite"):
        follow_all(losses)
    (path,) = tmp_path.glob("lintrain-batch-*.pt")
    kept = torch.load(path, weights_only=False)
    assert "5." in str(kept)


@pytest.mark.parametrize("shape", [(8, 5), (2, 5, 7), (2, 5, 3, 4)])
def test_predictions_are_read_from_the_graph(shape: tuple[int, ...]) -> None:
    scores = torch.randn(shape, requires_grad=True)
    targets = torch.randint(5, (shape[0], *shape[2:]))
    targets.view(-1)[0] = -100
    (head,) = heads_of(F.cross_entropy(scores, targets) / 4)
    predicted, true, losses = torch.tensor(head.marked(head.values.flatten().tolist())).view(3, -1)
    assert head.classes == 5
    assert (true == -1).sum() == 1
    if len(true) == targets.numel():
        assert torch.equal(predicted, scores.argmax(1).view(-1).float())
        assert losses[true >= 0].mean() == pytest.approx(F.cross_entropy(scores, targets).item(), rel=1e-5)


def test_a_graph_that_is_gone_costs_no_run() -> None:
    weight = torch.ones(4, 3, requires_grad=True)
    for _ in range(30):
        loss = F.cross_entropy(weight, torch.zeros(4, dtype=torch.long))
        loss.backward()  # type: ignore[no-untyped-call]
        lintrain.watch(loss)


def course(losses: list[float], **given: Any) -> list[str]:
    history = History()
    for step, loss in enumerate(losses, 1):
        history.add(step, loss)
    for name, values in given.items():
        for step, value in enumerate(values, 1):
            getattr(history, name).add(step, value)
    return [sign.name for sign in signs(history, is_alone=True, is_thorough=True)]


class Breaks(TrainerCallback):
    """Makes a weight NaN after a number of steps."""

    def __init__(self, after: int, module: Any) -> None:
        self.after, self.module = after, module

    def on_step_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if state.global_step == self.after:
            with torch.no_grad():
                self.module.classifier.bias[0] = float("nan")


FALLING = [2.0 / (1 + step / 50) for step in range(400)]


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        (FALLING, []),
        ([*FALLING, *[3.0] * 40], ["diverged"]),
        ([*FALLING, *[2.0] * 300], ["diverged"]),
        ([*FALLING, *[0.5] * 40, *FALLING[100:]], []),
        ([*FALLING, *FALLING], []),
        ([*FALLING, float("nan")], ["non-finite"]),
        ([*FALLING, 25.0], ["spike"]),
        ([*FALLING, 15.0, *FALLING[300:]], []),
        ([0.7] * 1000, []),
        ([0.0] * 300, []),
        ([step**3 / 1e3 for step in range(1, 200)], ["diverged"]),
        ([-(step % 7) for step in range(500)], []),
    ],
)
def test_the_course_of_a_loss(losses: list[float], expected: list[str]) -> None:
    assert course(losses) == expected


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ([1e-3] * 300, []),
        ([1e-3] * 300 + [0.0] * 120, ["rate-zero"]),
        ([0.0] * 120, ["rate-zero"]),
        ([1e-3 * (1 - step / 2000) for step in range(2001)], []),
        ([0.0] + [step / 1e5 for step in range(300)], []),
        ([1e-3 * 0.9**step for step in range(400)], ["rate-zero"]),
    ],
)
def test_the_course_of_a_rate(rates: list[float], expected: list[str]) -> None:
    assert course(FALLING[:50], rates=rates) == expected


def signs_in_short_steps(train: Callable[[Any, Any, int], None], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of signs in a run whose steps are so short that no time is left for samples."""
    return [each.split("[")[1].split("]")[0] for each in messages_in_short_steps(train, monkeypatch)]


def messages_in_short_steps(train: Callable[[Any, Any, int], None], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a watch warns of in such a run."""
    monkeypatch.setattr(whole_run, "ALLOWANCE", 0.0)
    monkeypatch.setattr(whole_run, "SHARE", 0.0)
    torch.manual_seed(0)
    net = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(1_500):
            train(net, optimizer, step)
        LOOPS.finish()
    return [str(each.message) for each in caught if each.category is MistakeWarning]


def _stops_stepping(at: int, every: int = 1) -> Callable[[Any, Any, int], None]:
    def train(net: Any, optimizer: Any, step: int) -> None:
        x = torch.randn(16, 6)
        loss = F.cross_entropy(net(x), x[:, :3].argmax(1))
        lintrain.watch(loss)
        loss.backward()  # type: ignore[no-untyped-call]
        if step < at and step % every == every - 1:
            optimizer.step()
            optimizer.zero_grad()

    return train


@pytest.mark.parametrize(("every", "named"), [(1, " since step 401,"), (4, " since optimizer step 101,")])
def test_a_loop_that_accumulates_is_told_which_steps_are_counted(
    every: int, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [message] = messages_in_short_steps(_stops_stepping(400, every), monkeypatch)
    assert "no weight has changed" in message
    assert named in message


@pytest.mark.parametrize(("at", "expected"), [(100, ["unchanged-weights"]), (1_500, [])])
def test_weights_are_compared_where_steps_leave_no_time(
    at: int, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert signs_in_short_steps(_stops_stepping(at), monkeypatch) == expected


@pytest.mark.parametrize(("is_detached", "expected"), [(True, ["no-gradient"]), (False, [])])
def test_an_optimizer_that_lost_its_gradients_is_named(
    is_detached: bool, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = nn.Linear(3, 1)
    other = torch.optim.SGD(judge.parameters(), lr=1e-4)

    def train(maker: Any, optimizer: Any, step: int) -> None:
        made = maker(torch.randn(16, 6))
        loss = (judge(made.detach() if is_detached and step >= 300 else made) - 1).pow(2).mean()
        lintrain.watch(loss)
        optimizer.zero_grad()
        other.zero_grad()
        loss.backward()
        optimizer.step()
        other.step()

    assert signs_in_short_steps(train, monkeypatch) == expected


@pytest.mark.parametrize(("reduction", "expected"), [("sum", []), ("mean", ["diverged"])])
def test_a_sum_over_more_targets_does_not_diverge(reduction: str, expected: list[str]) -> None:
    """The loss of each target falls in both runs, and a mean does not grow with the number of targets."""
    history = History()
    values = [*([1.0] * 40), *([0.3] * 200), *([2.0] * 400)]
    for step, value in enumerate(values, 1):
        history.add(step, value)
        if step % 5 == 0:
            loss = 1.0 if step < 60 else 0.3
            history.add_samples(step, 0, 3, [0.0, 1.0, 0.0, 1.0, loss, loss], is_mean=reduction == "mean")
    assert [each.name for each in signs(history, is_alone=True, is_thorough=False)] == expected


def test_the_graph_shows_whether_a_loss_is_a_sum() -> None:
    scores, targets = torch.randn(4, 3, requires_grad=True), torch.tensor([0, 1, 2, 0])
    heads = [heads_of(F.cross_entropy(scores, targets, reduction=each))[0] for each in ("sum", "mean")]
    assert [head.is_mean for head in heads] == [False, True]


def test_a_trainer_is_watched_beyond_its_first_steps(tmp_path: Path) -> None:
    trainer, watch = trainer_of(tmp_path), TrainerWatch(steps=2, on_mistake="warn")
    trainer.args.max_steps = 40
    trainer.add_callback(watch)
    module: Any = trainer.model
    breaks = Breaks(31, module)
    trainer.add_callback(breaks)
    with pytest.warns(MistakeWarning, match="not finite at step 32"):
        trainer.train()
    (sign,) = watch.run_report.findings
    assert (sign.rule, sign.step) == ("non-finite", 32)
    assert sign.batch == str(tmp_path / "out" / "lintrain-batch-32.pt") or Path(sign.batch).is_file()
    assert set(load_batch(sign.batch).batch) == {"input_ids", "attention_mask", "labels"}
    assert len(module._forward_hooks) == 0


def test_a_trainer_stops_with_an_error_and_leaves_no_hook(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    trainer.args.max_steps = 40
    module: Any = trainer.model
    for callback in (TrainerWatch(steps=2), Breaks(20, module)):
        trainer.add_callback(callback)
    with pytest.raises(lintrain.MistakesError, match="not finite at step 21"):
        trainer.train()
    assert len(module._forward_hooks) == 0
    assert not import_module("torch.optim.optimizer")._global_optimizer_pre_hooks


def test_a_trainer_trains_the_same_to_the_end_and_names_its_rows(tmp_path: Path) -> None:
    plain = trainer_of(tmp_path)
    plain.args.max_steps = 12
    plain.train()
    expected = state_of(plain)["weights"]
    watched, watch = trainer_of(tmp_path), TrainerWatch(steps=2)
    watched.args.max_steps = 12
    watched.add_callback(watch)
    rows: list[Any] = []
    original = watch._watching.follow

    def follow(loss: Any, batch: Any, numbers: Any, **given: Any) -> None:
        rows.append(numbers)
        original(loss, batch, numbers, **given)

    watch._watching.follow = follow  # type: ignore[assignment,method-assign]
    watched.train()
    assert same(state_of(watched)["weights"], expected)
    size = plain.args.per_device_train_batch_size
    assert {len(numbers) for numbers in rows} == {size}
    assert sorted(number for numbers in rows[: 32 // size] for number in numbers) == list(range(32))


@pytest.mark.filterwarnings("ignore")
def test_lightning_is_watched_beyond_its_first_steps(tmp_path: Path) -> None:
    class Late(Classifier):
        def training_step(self, batch: Any, index: int) -> Any:
            loss = super().training_step(batch, index)
            return loss * float("nan") if self.global_step == 11 else loss

    trainer, _, data = made(tmp_path)
    watch = LightningWatch(steps=2, on_mistake="warn")
    trainer.callbacks.append(watch)  # type: ignore[attr-defined]
    with pytest.warns(MistakeWarning, match="not finite at step 12"):
        trainer.fit(Late(), datamodule=data)
    (sign,) = watch.run_report.findings
    assert len(load_batch(sign.batch).rows or ()) == 8


def test_a_large_batch_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "large.pt"
    assert "more than" in save_batch(str(path), SavedBatch(torch.zeros(MOST_BYTES // 4 + 1)))
    assert not path.exists()


def test_a_batch_is_read_as_data_alone(tmp_path: Path) -> None:
    path = str(tmp_path / "batch.pt")
    batch = {"x": torch.arange(6).view(2, 3)[:, 1:], "names": ["a", "b"], "other": object(), "pair": (1, None)}
    assert save_batch(path, SavedBatch(batch, (4, 7), 3, float("nan"))) == ""
    kept = load_batch(path)
    assert set(kept.batch) == {"x", "names", "pair"}
    assert kept.batch["x"].tolist() == [[1, 2], [4, 5]]
    assert kept.rows == (4, 7)


@pytest.mark.parametrize(
    ("script", "kept", "fits"),
    [
        ({"x": torch.zeros(2, 3), "y": torch.zeros(2)}, {"x": torch.ones(4, 3), "y": torch.ones(4)}, True),
        ({"x": torch.zeros(2, 3), "other": 1}, {"x": torch.ones(4, 3)}, True),
        ([torch.zeros(2, 3), torch.zeros(2)], {"x": torch.ones(4, 3), "y": torch.ones(4)}, True),
        ((torch.zeros(2, 3), torch.zeros(2)), [torch.ones(4, 3), torch.ones(4)], True),
        (torch.zeros(2, 3), torch.ones(4, 3), True),
        ({"x": torch.zeros(2, 3)}, {"ids": torch.ones(4, 3)}, False),
        ([torch.zeros(2, 3)], [torch.ones(4, 3), torch.ones(4)], False),
        ([torch.zeros(2, 3), torch.zeros(2)], [torch.ones(4), torch.ones(4)], False),
    ],
)
def test_a_kept_batch_takes_the_place_of_one_of_its_form(script: Any, kept: Any, fits: bool, tmp_path: Path) -> None:
    path = str(tmp_path / "batch.pt")
    save_batch(path, SavedBatch(kept, (5, 9), 31))
    notes: list[str] = []
    given = GivenBatch(path, notes.append)
    used = given.instead_of(script)
    assert (type(used) is type(script), used is not script) == (True, fits)
    assert given.instead_of(script) is script
    given.conclude()
    assert ("kept at step 31; its rows are 5, 9 of the data set" in notes[0]) is fits
    assert ("was not measured" in notes[-1]) is not fits
    assert is_kept_batch(Path(path))


def test_another_file_is_no_kept_batch(tmp_path: Path) -> None:
    path = tmp_path / "weights.pt"
    torch.save({"weight": torch.ones(2)}, path)
    notes: list[str] = []
    given = GivenBatch(str(path), notes.append)
    assert given.instead_of("batch") == "batch"
    assert "not a batch that lintrain saved" in notes[0]
    assert not is_kept_batch(path)


COSINES = {
    "cosine_similarity": lambda one, other: -F.cosine_similarity(one, other).mean(),
    "cosine_embedding_loss": lambda one, other: F.cosine_embedding_loss(one, other, torch.ones(len(one))),
    "normalize": lambda one, other: 2 - 2 * (F.normalize(one) * F.normalize(other)).sum(1).mean(),
}


def compare(function: Callable[[Any, Any], Any], *, apart: float, steps: int = 900) -> list[str]:
    """Train two views of rows to have one direction; `apart` weighs what keeps different rows apart."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(steps):
            x = torch.randn(16, 8)
            one, other = net(x), net(x + 0.1 * torch.randn(16, 8))
            loss = function(one, other)
            if apart:
                loss = loss + apart * (F.normalize(one) @ F.normalize(one).T - torch.eye(16)).square().mean()
            lintrain.watch(loss)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        LOOPS.finish()
    return kinds(caught)


@pytest.mark.parametrize("name", COSINES)
@pytest.mark.parametrize("apart", [0.0, 2.0])
def test_embeddings_that_collapse_are_named_and_those_kept_apart_are_not(
    name: str, apart: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_run, "ALLOWANCE", 60.0)  # on a busy machine samples would be left out
    assert compare(COSINES[name], apart=apart) == ([] if apart else ["collapsed"])


def test_products_of_one_hot_rows_are_no_embeddings() -> None:
    scores = torch.randn(16, 8, requires_grad=True)
    chosen = F.one_hot(torch.zeros(16, dtype=torch.long), 8).float()
    found = compared(-(scores.log_softmax(1) * chosen).sum(1).mean())
    assert found is not None
    assert found.alikeness(found.values.flatten().tolist()) is None


GROWTHS: dict[str, tuple[Callable[[int], float], bool]] = {
    "by a factor": (lambda sample: 1.02**sample, True),
    "to a bound": (lambda sample: 5_000 * (1 - 0.98**sample) + 1, False),
    "by a number": (lambda sample: 1.0 + 40 * sample, False),
    "by a factor, and then no more": (lambda sample: 1.02 ** min(sample, 420), False),
    "a little": (lambda sample: 1.004**sample, False),
}


@pytest.mark.parametrize("growth", GROWTHS)
def test_targets_that_grow_without_bound_are_named(growth: str) -> None:
    history = History()
    size, is_named = GROWTHS[growth]
    for sample in range(500):
        targets = [size(sample) * (0.9 + 0.02 * row) for row in range(8)]
        history.add(5 * sample + 1, 0.1)
        history.add_samples(5 * sample + 1, 0, 0, [*targets, *targets, *[0.01] * 8])
    found = [each for each in signs(history, is_alone=False, is_thorough=True) if "targets" in each.message]
    assert [each.name for each in found] == ["diverged"] * is_named


def regression(targets: Callable[[int], float]) -> list[str]:
    """The signs of a loss that falls and then rises above its start, while it is as large as its targets vary."""
    history = History()
    for step in range(1, 601):
        history.add(step, 1.0 if step < 100 else 0.2 if step < 400 else 2.0)
        if step % 5 == 0:
            size = targets(step)
            values = [size * (0.9 + 0.02 * row) for row in range(8)]
            history.add_samples(step, 0, 0, [*values, *values, *[size**2 * 0.001] * 8])
    return [each.name for each in signs(history, is_alone=True, is_thorough=False)]


def test_a_loss_rises_with_its_targets_only_where_these_grow() -> None:
    assert regression(lambda _step: 1.0) == ["diverged"]
    assert regression(lambda step: 1.0 if step < 400 else 5.0) == []
    assert regression(lambda step: 1.0 if step < 400 else 5_000.0) == ["diverged"]
    assert regression(lambda step: 0.0 if step < 100 else 1.0) == []


@pytest.mark.parametrize("is_lost", [True, False])
def test_few_samples_are_enough_to_see_that_classes_are_no_longer_told_apart(is_lost: bool) -> None:
    """Short steps leave time for one sample of 50 losses: the latest of them decide, and not the whole window."""
    history = History()
    for step in range(1, 2_501):
        loss = math.log(2) if is_lost and step > 1_000 else 0.2
        history.add(step, loss)
        if step % 50 == 0:
            history.add_samples(step, 0, 2, [*([0.0, 1.0] * 16), *([0.0, 1.0] * 16), *([loss] * 32)])
    found = [each.name for each in signs(history, is_alone=True, is_thorough=True) if each.name == "no-progress"]
    assert found == ["no-progress"] * is_lost


class ComputesItsLoss(Trainer):
    """A trainer whose loss is another one than that of its model, as those of TRL are."""

    def compute_loss(self, *given: Any, **named: Any) -> Any:
        loss: Any = super().compute_loss(*given, **named)
        return loss * float("nan") if self.state.global_step == 20 else loss


def test_the_loss_that_a_trainer_computes_is_followed(tmp_path: Path) -> None:
    trainer, watch = trainer_of(tmp_path), TrainerWatch(steps=2, on_mistake="warn")
    trainer.__class__ = ComputesItsLoss
    trainer.args.max_steps = 30
    trainer.add_callback(watch)
    with pytest.warns(MistakeWarning, match="not finite at step 21"):
        trainer.train()
    assert watch.run_report.findings[0].rule == "non-finite"
    assert "compute_loss" not in vars(trainer)
