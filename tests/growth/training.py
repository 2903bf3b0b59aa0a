"""Forms of training code: loops, optimizers, loaders, Trainers, data sets, metrics, and findings by the hundred."""

from __future__ import annotations

from tests.growth.form import HEAD, Form, blocks, chained, inside, notebook, repeated

LOOP = "for x, y in loader:"
LOADER = f"{HEAD}loader = DataLoader(TensorDataset(torch.ones(8, 4), torch.zeros(8).long()), batch_size=2)\n"
LOSS = "loss = nn.functional.cross_entropy(model(x), y)"
METRICS = """\
acc = evaluate.load("accuracy")
def m$(p):
    logits, labels = p
    return acc.compute(predictions=logits.argmax(-1), references=labels)
"""
TRAINER = "Trainer(model, args, train_dataset=raw['train'], eval_dataset=raw['test'], processing_class=tok)"

STATEMENTS = {
    "model": "m$ = nn.Linear(4, 2)",
    "model-loaded": "m$ = AutoModelForSequenceClassification.from_pretrained('gpt2', num_labels=$)",
    "model-to-device": "m$ = model.to('cuda')",
    "model-of-last": "m$ = nn.Sequential(m~, nn.Linear(2, 2))",
    "model-frozen": "for p in model.parameters(): p.requires_grad = False",
    "model-modes": "model.train()\nmodel.eval()",
    "model-saved": "torch.save(model.state_dict(), 'm$.pt')",
    "model-layer-set": "model.l$ = nn.Linear(2, 2)",
    "optimizer": "o$ = torch.optim.Adam(model.parameters(), lr=0.1)",
    "optimizer-of-own-model": "n$ = nn.Linear(2, 2)\no$ = torch.optim.Adam(n$.parameters(), lr=0.1)",
    "optimizer-of-all": "m$ = nn.Linear(2, 2)\no = torch.optim.Adam([*m$.parameters(), *m~.parameters()])",
    "scheduler": "s$ = torch.optim.lr_scheduler.StepLR(opt, 1)\ns$.step()",
    "loader": "l$ = DataLoader(raw, batch_size=$)",
    "loader-of-tensors": "l$ = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=2)",
    "loader-of-lists": "l$ = DataLoader([(torch.ones(4), $)], batch_size=2)",
    "data-set": "d$ = load_dataset('imdb', split='train')",
    "data-set-mapped": "d$ = raw.map(lambda row: tok(row['text']))",
    "data-set-of-last": "raw = raw.map(lambda row: tok(row['text']), batched=True)",
    "data-set-split": "d$ = raw['train'].train_test_split(0.1)",
    "data-set-of-split": "raw = raw['train'].train_test_split(0.1)",
    "data-set-columns": "raw = raw.rename_column('text', 'text$')",
    "data-set-made": "d$ = Dataset.from_dict({'a': [1, 2, 3], 'b': ['x', 'y', 'z']})",
    "tokenizer": "t$ = AutoTokenizer.from_pretrained('gpt2')",
    "tokenizer-called": "x$ = tok('text', padding=True, return_tensors='pt')",
    "arguments-made": "args$ = TrainingArguments('o$', num_train_epochs=$)",
    "arguments-unknown": "args$ = TrainingArguments('o$', lerning_rate=1)",
    "arguments-deprecated": "args$ = TrainingArguments('o$', evaluation_strategy='epoch', save_strategy='no')",
    "trainer": f"t$ = {TRAINER}",
    "trainer-trained": f"t$ = {TRAINER}\nt$.train()",
    "trainer-with-arguments": f"args = TrainingArguments('o$')\nt$ = {TRAINER}\nt$.train()",
    "trainer-metrics": f"{METRICS}t$ = {TRAINER[:-1]}, compute_metrics=m$)",
    "metrics": METRICS,
    "seeds": "torch.manual_seed($)",
    "tensors": "t$ = torch.ones(3, $)",
    "numpy": "a$ = np.array([1, 2]) + np.zeros($)",
    "backward-outside": "loss = model(x).sum()\nloss.backward()\nopt.step()",
    "loop": f"{LOOP}\n    opt.zero_grad()\n    {LOSS}\n    loss.backward()\n    opt.step()",
    "loop-without-clearing": f"{LOOP}\n    {LOSS}\n    loss.backward()\n    opt.step()",
    "loop-of-own-optimizer": f"o$ = torch.optim.Adam(model.parameters())\n{LOOP}\n    o$.zero_grad()\n    {LOSS}\n"
    "    loss.backward()\n    o$.step()",
    "loop-of-own-loader": "l$ = DataLoader(TensorDataset(torch.ones(8, 4)), batch_size=2)\n"
    f"for x, y in l$:\n    {LOSS}\n    loss.backward()\n    opt.step()",
    "loop-in-function": f"def train$(model, opt, loader):\n    for x, y in loader:\n        {LOSS}\n"
    "        loss.backward()\n        opt.step()\ntrain$(model, opt, loader)",
    "loop-evaluation": "model.eval()\nfor x, y in val_loader$:\n    out = model(x)\n    losses.append(out)",
    "loop-with-unknown-call": f"{LOOP}\n    {LOSS}\n    helper$(model, loss)\n    loss.backward()\n    opt.step()",
}

IN_LOOP = {
    "backward-and-step": "loss.backward(); opt.step()",
    "backward-and-step-of-model": f"{LOSS}\nloss.backward()\nopt.step()",
    "whole-iteration": f"opt.zero_grad()\n{LOSS}\nloss.backward()\nopt.step()",
    "clear": "opt.zero_grad()",
    "clip": "loss.backward()\ntorch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nopt.step()",
    "conditional-step": f"{LOSS}\nloss.backward()\nif i % $ == 0: opt.step()",
    "own-optimizers": f"{LOSS}\nloss.backward()\no$.step()",
    "forward": "out = model(x)",
    "modes": "model.train(); model.eval()",
    "sum-of-losses": f"{LOSS}\ntotal += loss",
    "sums-of-losses": f"{LOSS}\ntotal$ += loss",
    "list-of-losses": f"{LOSS}\nlosses.append(loss)",
    "unknown-calls": "helper$(model, opt)\nloss.backward()\nopt.step()",
    "unknown-methods": "model.reset$(opt)\nloss.backward()\nopt.step()",
    "leaving": "loss.backward(); opt.step()\nif q$: break",
    "scheduler-steps": "loss.backward(); opt.step(); sched.step()",
    "saves": "torch.save(model, 'a$')",
    "gradients": "loss.backward(); model.weight.grad = None",
    "items": "print(loss.item())",
    "no-grad": "with torch.no_grad(): out = model(x)",
}

IN_FUNCTION = {
    "statements-in-function": "x$ = model(x~)",
    "optimizers-in-function": "o$ = torch.optim.Adam(model.parameters())",
    "loaders-in-function": "l$ = DataLoader(raw)",
    "ifs-in-function": "if a$: return b$",
    "undefined-in-function": "nowhere$(1)",
    "used-before": "x$ = y$\ny$ = 1",
}

IN_CLASS = {
    "attributes-of-class": "x$ = $",
    "methods": "def f$(self): return self.x",
    "methods-that-set": "def f$(self): self.x$ = self.f~()",
    "methods-of-losses": "def f$(self, x): self.opt.step(); return self.model(x)",
}

IN_INIT = {
    "layers-set": "        self.l$ = nn.Linear(2, 2)",
    "layers-in-list": "        self.layers.append(nn.Linear(2, 2))",
}
MODULE = "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()"
USED = "net = Net()\nfor x, y in loader:\n    net(x).sum().backward()\n    opt.step()\n"

BLOCKS = {
    "loops": ("for x$ in loader:", "loss.backward()"),
    "loops-with-steps": ("for x$ in loader:", "opt.step()"),
    "accumulated": ("if i$ % 2 == 0:", "opt.zero_grad()"),
}

CELLS = {
    "cells": "x$ = 1",
    "cells-of-training": f"{LOOP}\n    {LOSS}\n    loss.backward()\n    opt.step()",
    "cells-of-findings": "TrainingArguments('o$', lerning_rate=1)",
    "cells-with-undefined": "nowhere$(1)",
    "cells-with-magics": "%time x$ = f()\n!pip install x$",
    "cells-with-comments": "TrainingArguments('o$', lerning_rate=1)  # lintrain: ignore[unknown-argument]",
    "cells-shown": "model(x$)",
}


def training_forms() -> list[Form]:
    """Every form of training code."""
    head = f"{LOADER}args = TrainingArguments('o')\ntotal = 0\nlosses = []\n"
    found = [repeated(name, line, head) for name, line in STATEMENTS.items()]
    found += [inside(f"in-loop-{name}", LOOP, line, head) for name, line in IN_LOOP.items()]
    found += [
        inside(f"{name}", "def main(model, x, y):", line, head, "main(model, 1, 2)\n")
        for name, line in IN_FUNCTION.items()
    ]
    found += [inside(name, "class C:", line, head, "c = C()\nc.f1(1)\n") for name, line in IN_CLASS.items()]
    found += [repeated(name, line, f"{head}{MODULE}\n", USED) for name, line in IN_INIT.items()]
    found += [
        blocks(name, opener, f"{LOSS}; loss.backward(); opt.step()", closer, head)
        for name, (opener, closer) in BLOCKS.items()
    ]
    found += [notebook(name, code) for name, code in CELLS.items()]
    found.append(
        chained(
            "layers-in-line",
            "net = nn.Sequential(",
            "nn.Linear(2, 2), ",
            f")\n{LOOP}\n    net(x).sum().backward()\n    opt.step()",
            head,
        )
    )
    return found
