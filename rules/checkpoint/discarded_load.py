"""The model that `load_from_checkpoint`, `from_pretrained` or `merge_and_unload` returns is dropped.

The first two are class methods: they build a new model, load the weights into it and return it. The model that they are
called on stays as it was, so the script goes on with random weights.

`merge_and_unload` of PEFT returns the model without its adapter. The wrapper that it is called on has no adapter left:
if that is saved, the folder holds neither the model nor its adapter.

## Bad

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 3)

    model = Classifier()
    model.load_from_checkpoint("last.ckpt")  # <- discarded-load
    model.eval()

An adapter is merged, and its empty wrapper is saved:

    from peft import LoraConfig, get_peft_model

    tuned = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), LoraConfig(task_type="CAUSAL_LM"))
    tuned.merge_and_unload()  # <- discarded-load
    tuned.save_pretrained("merged")

## Good

    class Classifier(L.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(8, 3)

    model = Classifier()
    model = Classifier.load_from_checkpoint("last.ckpt")
    model.eval()

and

    from peft import LoraConfig, get_peft_model

    tuned = get_peft_model(AutoModelForCausalLM.from_pretrained("gpt2"), LoraConfig(task_type="CAUSAL_LM"))
    tuned = tuned.merge_and_unload()
    tuned.save_pretrained("merged")

## When it is fine

A call that only fills the cache with a download, by the class:

    from transformers import AutoTokenizer

    AutoTokenizer.from_pretrained("gpt2")

## Fix

Asks first: assigns the result to the name of the model, which may be known elsewhere too.

## References

PEFT 0.21, `PeftModel.merge_and_unload`; Lightning 2.6 documentation, `LightningModule.load_from_checkpoint`;
pytorch-lightning#4789.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import checkpoints
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement that assigns the result; None without a fix."""

    statement: str | None


class DiscardedLoad(Rule[Claim]):
    level = Level.ERROR
    keywords = "load_from_checkpoint|from_pretrained|merge_and_unload"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(True for _ in checkpoints.loads_as_statements(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for found in checkpoints.discarded_loads(pipeline):
            yield self.finding(
                found.location,
                f"`{found.method}` returns another model, which is dropped",
                help=f"assign it: `{found.statement}`" if found.statement else "assign it to a name",
                claim=Claim(found.statement),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or finding.claim.statement is None:
            return None
        edit = fixes.Replace(finding.location, finding.claim.statement)
        return fixes.Fix.of("assign the loaded model", edit, safe=False)
