"""The model gets padded batches without their attention mask.

The model treats padding as text, so its output for a row depends on the length of the other rows in the batch. No error
is raised, and the model learns from noise.

## Bad

    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        outputs = model(batch["input_ids"], labels=batch["labels"])  # <- missing-attention-mask
        outputs.loss.backward()
        optimizer.step()

Rows of a Trainer that keep only the ids of padded texts; the collator adds a mask of ones:

    def encode(batch):
        ids = tokenizer(batch["premise"], padding="max_length", truncation=True, max_length=32)["input_ids"]
        return {"input_ids": ids, "labels": batch["label"]}

    rows = raw.map(encode, batched=True, remove_columns=raw["train"].column_names)
    trainer = Trainer(model, args, train_dataset=rows["train"], data_collator=collator)  # <- missing-attention-mask

## Good

    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        outputs = model(batch["input_ids"], labels=batch["labels"], attention_mask=batch["attention_mask"])
        outputs.loss.backward()
        optimizer.step()

Rows with their mask:

    def encode(batch):
        encoded = tokenizer(batch["premise"], truncation=True, max_length=32)
        return {**encoded, "labels": batch["label"]}

    rows = raw.map(encode, batched=True, remove_columns=raw["train"].column_names)
    trainer = Trainer(model, args, train_dataset=rows["train"], data_collator=collator)

## When it is fine

The whole batch is passed, including the mask:

    model.train()
    for batch in train_loader:
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()

A batch of one row has no padding:

    one_by_one = DataLoader(columns["train"], batch_size=1, shuffle=True, collate_fn=collator)
    model.train()
    for batch in one_by_one:
        optimizer.zero_grad()
        model(batch["input_ids"], labels=batch["labels"]).loss.backward()
        optimizer.step()
        break

Batches from other code may have rows of equal length:

    from my_project import make_loader

    for batch in make_loader(tokenizer):
        optimizer.zero_grad()
        model(batch["input_ids"], labels=batch["labels"]).loss.backward()
        optimizer.step()

## Fix

Safe: without the mask of the batch the model treats padding as text.

## References

Hugging Face course, chapter 2, "Handling multiple sequences"; transformers#2630, transformers#3167.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import collators, loaders, run_data
from lintrain.pipeline.values.data import Collator, Dataset, Kind, Padding
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Task
from lintrain.pipeline.values.python import number_of
from lintrain.pipeline.values.training import ModelCall
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes

ROUNDING = 1e-6
"""The change of the output that rounding may cause, as a share of its maximum."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the batch's attention mask."""

    mask: str


class MissingAttentionMask(Rule[Claim]):
    level = Level.ERROR
    keywords = "DataLoader|Trainer & backward|Trainer"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from self._in_loops(pipeline)
        for given in run_data.given_datasets(pipeline):
            model, is_train = given.run.model, given.parameter == "train_dataset"
            if (
                model is None
                or model.task is Task.CAUSAL_LM
                or not is_train
                or not run_data.collates_plainly(given.run)
            ):
                continue
            if model.path.startswith("transformers.") and all(map(_keeps_ids_alone, given.datasets)):
                yield self.finding(
                    given.argument.location,
                    f"{given.text} holds padded `input_ids`, but no `attention_mask`",
                    related=[*given.datasets[0].origins()],
                    help="keep the `attention_mask` of the tokenizer: without it, padding is read as text",
                )

    def _in_loops(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        reported: set[Location] = set()
        for feeding in loaders.feedings(pipeline):
            reasons = collators.ragged_at(pipeline, feeding.loader.collated_rows)
            if not reasons or not _pads(feeding.loader):
                continue
            for call in pipeline.model_calls:
                ids = _ids_alone(call) if _is_in(feeding, call) else None
                if ids is None or call.location in reported or call.model.task is Task.CAUSAL_LM:
                    continue
                reported.add(call.location)
                yield self.finding(
                    call.location,
                    f"`{ids}` is padded, but the model gets no `attention_mask`",
                    related=[*reasons, *_padded_at(feeding.loader)],
                    help="pass the batch's `attention_mask` as well",
                    claim=Claim(ids.replace("input_ids", "attention_mask")),
                )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        mask, location = evidence.responses.mask if evidence.responses else None, evidence.first("trained")
        if mask is not None and not mask.given and mask.padding and location is not None:
            yield self.finding(
                location,
                "the model gets padded rows without an `attention_mask`",
                help="pass the batch's `attention_mask` as well",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return _of_trainer(evidence)
        batch = evidence.batch()
        if batch is None or not loop.inputs:
            return Verdict.inconclusive(f"the inputs of the model were not recorded in {loop.batches} batches")
        if "attention_mask" in loop.inputs:
            return Verdict.refuted("the model got `attention_mask`", inputs=", ".join(loop.inputs))
        if batch.padding_tokens is None:
            return Verdict.inconclusive(
                "the amount of padding is unknown, and the model got `" + "`, `".join(loop.inputs) + "`"
            )
        text = f"the model got {batch.padding_tokens} padding tokens and no `attention_mask`"
        mask = evidence.responses.mask if evidence.responses else None
        if mask is not None and not mask.given:
            text = f"{text}, which changes the output by {mask.change:.2g} of its maximum"
            verdict = Verdict.confirmed if mask.change > ROUNDING else Verdict.refuted
            return verdict(text, padding=mask.padding, change=mask.change)
        return (Verdict.confirmed if batch.padding_tokens else Verdict.refuted)(text, padding=batch.padding_tokens)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.AddArgument(finding.location, "attention_mask", finding.claim.mask)
        return fixes.Fix.of("pass `attention_mask`", edit, safe=True)


def _keeps_ids_alone(dataset: Dataset) -> bool:
    """Whether rows have the ids of texts that a tokenizer padded to one length, and no mask."""
    columns = dataset.columns or {}
    ids = columns.get("input_ids")
    # Other columns are those that were loaded: a mask among them would belong to other ids.
    is_padded = ids is not None and ids.kind is Kind.TOKENS and ids.padding is Padding.FIXED
    has_others = any("mask" in name for name in columns) or dataset.has_transform
    return is_padded and not has_others and (dataset.is_complete or dataset.rest is not None)


def _of_trainer(evidence: Evidence) -> Verdict:
    batch = evidence.batch()
    if batch is None or batch.tensor("input_ids") is None:
        return Verdict.inconclusive(evidence.not_reached("batch"))
    is_given = batch.tensor("attention_mask") is not None
    unmasked = batch.mask_on_padding if is_given else batch.padding_tokens
    if unmasked is None or batch.pad_is_eos:
        return Verdict.inconclusive("the amount of padding is unknown")
    text = f"{unmasked} padding tokens of one batch are read as text"
    return (Verdict.confirmed if unmasked else Verdict.refuted)(text, padding=unmasked)


def _pads(loader: Loader) -> bool:
    """Whether batches of several rows are certainly padded to the longest one."""
    size = number_of(loader.value("batch_size"))
    return isinstance(loader.collator, Collator) and loader.collator.pads is True and size is not None and size > 1


def _padded_at(loader: Loader) -> list[Related]:
    location = loader.collator.origin
    return [Related(location, "each batch is padded here", "padded")] if location else []


def _is_in(feeding: loaders.Feeding, call: ModelCall) -> bool:
    return call.location.path == feeding.loop.location.path and feeding.loop.location.holds(call.location)


def _ids_alone(call: ModelCall) -> str | None:
    """The code of the batch's ids if a model of transformers gets them and nothing that may be a mask."""
    given = call.arguments
    ids = given.get("input_ids") or given.get("0")
    others = [name for name in given if name.isdigit() and name != "0"]
    if ids is None or others or "**" in given or not call.model.path.startswith("transformers."):
        return None
    is_masked = any("mask" in name or "mask" in argument.text for name, argument in given.items())
    return ids.text if "input_ids" in ids.text and "[" in ids.text and not is_masked else None
