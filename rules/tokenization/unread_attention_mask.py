"""A function has the attention mask of its token ids, and does not pass it to the model.

The model then reads padding as text, so its output for a row depends on the length of the other rows in the batch. No
error is raised.

## Bad

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = AutoModel.from_pretrained("distilbert-base-uncased")
            self.head = nn.Linear(self.encoder.config.hidden_size, 3)

        def forward(self, input_ids, attention_mask, labels):
            hidden = self.encoder(input_ids).last_hidden_state[:, 0]  # <- unread-attention-mask
            logits = self.head(hidden)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    classifier = Classifier()
    trainer = Trainer(classifier, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = AutoModel.from_pretrained("distilbert-base-uncased")
            self.head = nn.Linear(self.encoder.config.hidden_size, 3)

        def forward(self, input_ids, attention_mask, labels):
            hidden = self.encoder(input_ids, attention_mask=attention_mask).last_hidden_state[:, 0]
            logits = self.head(hidden)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    classifier = Classifier()
    trainer = Trainer(classifier, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

A network without such an argument leaves padding out by itself:

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.EmbeddingBag(30522, 16, padding_idx=0)
            self.head = nn.Linear(16, 3)

        def forward(self, input_ids, attention_mask, labels):
            logits = self.head(self.words(input_ids))
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    classifier = Classifier()
    trainer = Trainer(classifier, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

None: which argument takes the mask depends on the model.

## References

Hugging Face course, chapter 2, "Handling multiple sequences".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import unread_masks
from lintrain.rule import Evidence, Finding, Level, Pipeline, Rule, Source, Targets, Verdict, one_per_location

ROUNDING = 1e-6
"""The change of the output that rounding may cause, as a share of its maximum."""


class UnreadAttentionMask(Rule):
    level = Level.WARNING
    keywords = "mask & ids|Transformer"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(True for _ in unread_masks.unread_masks(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(self._report(pipeline, each) for each in unread_masks.unread_masks(pipeline.source))

    def _report(self, pipeline: Pipeline, found: unread_masks.UnreadMask) -> Finding:
        called = pipeline.code(pipeline.source.location(found.call.func))
        if found.is_layer:
            return self.finding(
                pipeline.source.location(found.call),
                f"`{found.mask}` is made, and `{called}` does not get it"
                if len(called) + len(found.mask) < 48
                else "a mask is made, and the encoder does not get it",
                help="pass it, or tokens are attended to that it should hide",
            )
        return self.finding(
            pipeline.source.location(found.call),
            f"`{called}` gets the ids, and not `{found.mask}`"
            if len(called) + len(found.mask) < 48
            else "the model gets the ids, and not their mask",
            help="pass it, so that padding is not read as text: `attention_mask=…`",
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        mask = evidence.responses.mask if evidence.responses else None
        if mask is None:
            return Verdict.inconclusive("no batch with padding was seen")
        text = f"attending to {mask.padding} padding tokens changes the output by {mask.change:.2g} of its maximum"
        if not mask.given:
            return Verdict.inconclusive(f"the model gets no mask; {text}")
        verdict = Verdict.refuted if mask.change > ROUNDING else Verdict.confirmed
        return verdict(text, change=mask.change, padding=mask.padding)
