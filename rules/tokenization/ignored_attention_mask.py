"""The model is given an attention mask and does not use it.

Padding is then read as text: what the model answers to a row depends on how long the others in its batch are. Nothing
fails, and the evaluation changes with the batch size.

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

Causal models with their padding on the right need no mask: nothing that is read comes after it. Others find the
padding by its token. Both answer the same to a row with its padding and without, and are not reported.

## Fix

None: where the mask gets lost, only the model's code tells.

## References

Hugging Face course, chapter 2, "Handling multiple sequences".
"""

from collections.abc import Iterator

from lintrain.rule import Evidence, Finding, Level, Rule, Verdict

NOTHING, UNFELT, FELT = 1e-6, 1e-4, 1e-2
"""Shares of the largest answer: what rounding changes, what nobody notices, and what is noticed."""


class IgnoredAttentionMask(Rule):
    level = Level.WARNING

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        mask = evidence.responses.mask if evidence.responses else None
        if mask is None:
            return Verdict.inconclusive("no batch with padding was seen")
        told = f"attending to {mask.padding} tokens of padding changes the answers by {mask.change:.2g} of the largest"
        if not mask.given:
            return Verdict.inconclusive(f"the model was given no mask; {told}")
        if mask.change > NOTHING:
            return Verdict.refuted(told, change=mask.change)
        if mask.cut is None:
            return Verdict.inconclusive(f"{told}, and no row could be asked without its padding")
        text = f"{told}, and cutting {mask.cut_tokens} of them off one row changes its answer by {mask.cut:.2g}"
        if mask.cut > FELT:
            return Verdict.confirmed(text, change=mask.cut, padding=mask.padding)
        return Verdict.refuted(text, change=mask.cut) if mask.cut < UNFELT else Verdict.inconclusive(text)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        finding = self.finding(
            evidence.location,
            "the model does not use the attention mask that it is given",
            help="hand it on to the layers that read all tokens, and leave padding out of averages and maxima",
        )
        yield from self.if_confirmed(finding, evidence)
