"""The model gets an attention mask and does not use it.

The model then treats padding as text, so its output for a row depends on the length of the other rows in the batch. No
error is raised, and the evaluation results change with the batch size.

## Bad

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = AutoModel.from_pretrained("distilbert-base-uncased")
            self.head = nn.Linear(self.encoder.config.hidden_size, 3)

        def forward(self, input_ids, attention_mask, labels):
            hidden = self.encoder(input_ids).last_hidden_state[:, 0]
            logits = self.head(hidden)
            return {"loss": F.cross_entropy(logits, labels), "logits": logits}

    classifier = Classifier()
    trainer = Trainer(  # <- ignored-attention-mask
        classifier, args, train_dataset=tokenized["train"], data_collator=collator
    )

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
    trainer = Trainer(
        classifier, args, train_dataset=tokenized["train"], data_collator=collator
    )

## When it is fine

Causal models with padding on the right need no mask, because no token attends to the padding. Some models detect
padding by its token id. The outputs of both are the same with and without padding, and they are not reported.

## Fix

None: a probe does not show where the model's code drops the mask.

## References

Hugging Face course, chapter 2, "Handling multiple sequences".
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

ROUNDING, NEGLIGIBLE, LARGE = 1e-6, 1e-4, 1e-2
"""Changes of the output as a share of its maximum: by rounding, without an effect, and with one."""


class IgnoredAttentionMask(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        mask = evidence.responses.mask if evidence.responses else None
        if mask is None:
            return Verdict.inconclusive("no batch with padding was seen")
        text = f"attending to {mask.padding} padding tokens changes the output by {mask.change:.2g} of its maximum"
        if not mask.given:
            return Verdict.inconclusive(f"the model gets no mask; {text}")
        if mask.change > ROUNDING:
            return Verdict.refuted(text, change=mask.change)
        if mask.cut is None:
            return Verdict.inconclusive(f"{text}, and no row could be run without padding")
        text = f"{text}, and removing {mask.cut_tokens} of them from one row changes its output by {mask.cut:.2g}"
        if mask.cut > LARGE:
            return Verdict.confirmed(text, change=mask.cut, padding=mask.padding)
        return Verdict.refuted(text, change=mask.cut) if mask.cut < NEGLIGIBLE else Verdict.inconclusive(text)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "the model gets an attention mask and does not use it",
            help="pass it to the attention layers, and exclude padding from mean and max pooling",
        )
        yield from self.if_confirmed(finding, evidence)
