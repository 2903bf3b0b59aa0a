"""One of several branches does not set a name that the code after them needs.

The branches set up the same things for different cases, and one of them leaves a name out. If it is taken, the next use
of the name raises an error; the other cases work, so that it is noticed late.

## Bad

    kind = "wide"
    if kind == "narrow":
        network = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    elif kind == "wide":
        network = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
    else:
        raise ValueError(kind)
    optimizer.zero_grad()  # <- unbound-name
    for x, y in loader:
        criterion(network(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

    # raises NameError: name 'optimizer' is not defined

In a function:

    def build(kind):
        if kind == "masked":
            model = AutoModelForMaskedLM.from_pretrained(checkpoint)
            collator = DataCollatorForLanguageModeling(tokenizer)
        if kind == "classes":
            model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3)
        return Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)  # <- unbound-name

    build("classes").train()
    # raises UnboundLocalError

## Good

    kind = "wide"
    if kind == "narrow":
        network = nn.Linear(8, 3)
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    elif kind == "wide":
        network = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 3))
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    else:
        raise ValueError(kind)
    optimizer.zero_grad()
    for x, y in loader:
        criterion(network(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

and

    def build(kind):
        if kind == "masked":
            model = AutoModelForMaskedLM.from_pretrained(checkpoint)
            collator = DataCollatorForLanguageModeling(tokenizer)
        if kind == "classes":
            model = AutoModelForSequenceClassification.from_pretrained(checkpoint, num_labels=3)
            collator = DataCollatorWithPadding(tokenizer)
        return Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

    build("classes").train()

## When it is fine

The name has a value before the branches, or the branch ends the script:

    import sys

    kind = "narrow"
    width = 8
    if kind == "narrow":
        network = nn.Linear(8, 3)
    elif kind == "wide":
        width = 64
        network = nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 3))
    else:
        network = None
        sys.exit(f"no network of width {width}")
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for x, y in loader:
        criterion(network(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()

## Fix

None: which value belongs there is not certain.

## References

Python documentation, `UnboundLocalError`; the fix in `seyonechithrananda/bert-loves-chemistry`, commit 77e764c1d30c.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import unbound_names
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict

RAISED = ("UnboundLocalError", "NameError", "cannot access local variable", "is not defined")


class UnboundName(Rule):
    level = Level.ERROR
    keywords = "if "

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for found in unbound_names.unbound_names(pipeline.source):
            case = f"if `{found.test}`" if 0 < len(found.test) <= 40 else "in one of the branches before"
            yield self.finding(
                found.location,
                f"`{found.name}` is not set {case}",
                related=[
                    Related(found.branch, "this branch does not set it", "branch"),
                    Related(found.bound, "another one does"),
                ],
                help=f"set `{found.name}` in every branch",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        failed = evidence.failed_at(finding.location, *RAISED)
        if failed is not None:
            return Verdict.confirmed(f"the {failed.name} stage failed with 1 error: the name is not set")
        branches = [each.location for each in finding.with_role("branch")]
        if evidence.ran(finding.location) and branches and all(map(evidence.ran, branches)):
            return Verdict.refuted("the branch and the line ran with 0 errors")
        return Verdict.inconclusive("the run took 0 branches that leave the name unset")
