"""The labels of words are given to the tokens as they are, without a look at which word a token belongs to.

A tokenizer that gets words adds special tokens, and cuts many words into several tokens. The labels of the words are
then fewer than the tokens: a collator fills them up at the end, so the first special token gets the label of the first
word, and each later one is a wrong label too. Training runs, and learns the wrong tags.

Special tokens and padding belong to no word. With the number of a class as their label they are trained on and scored;
losses and metrics leave out -100.

## Bad

    from datasets import Dataset
    from transformers import DataCollatorForTokenClassification

    words = Dataset.from_dict({"tokens": [["good", "movie"]] * 16, "tags": [[0, 1]] * 16})

    def encode(batch):
        encoded = tokenizer(batch["tokens"], is_split_into_words=True, truncation=True)
        encoded["labels"] = batch["tags"]  # <- unaligned-word-labels
        return encoded

    rows = words.map(encode, batched=True, remove_columns=words.column_names)
    tagger = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
    trainer = Trainer(tagger, args, train_dataset=rows, data_collator=DataCollatorForTokenClassification(tokenizer))

Special tokens that get the first class:

    from datasets import Dataset
    from transformers import DataCollatorForTokenClassification

    words = Dataset.from_dict({"tokens": [["good", "movie"]] * 16, "tags": [[0, 1]] * 16})

    def encode(batch):
        encoded = tokenizer(batch["tokens"], is_split_into_words=True, truncation=True)
        all_labels = []
        for row, tags in enumerate(batch["tags"]):
            labels = []
            for word in encoded.word_ids(row):
                if word is None:
                    labels.append(0)  # <- unaligned-word-labels
                else:
                    labels.append(tags[word])
            all_labels.append(labels)
        encoded["labels"] = all_labels
        return encoded

    rows = words.map(encode, batched=True, remove_columns=words.column_names)
    tagger = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
    trainer = Trainer(tagger, args, train_dataset=rows, data_collator=DataCollatorForTokenClassification(tokenizer))

## Good

    from datasets import Dataset
    from transformers import DataCollatorForTokenClassification

    words = Dataset.from_dict({"tokens": [["good", "movie"]] * 16, "tags": [[0, 1]] * 16})

    def encode(batch):
        encoded = tokenizer(batch["tokens"], is_split_into_words=True, truncation=True)
        numbers = [encoded.word_ids(row) for row in range(len(batch["tokens"]))]
        encoded["labels"] = [
            [-100 if word is None else tags[word] for word in row] for row, tags in zip(numbers, batch["tags"])
        ]
        return encoded

    rows = words.map(encode, batched=True, remove_columns=words.column_names)
    tagger = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
    trainer = Trainer(tagger, args, train_dataset=rows, data_collator=DataCollatorForTokenClassification(tokenizer))

and

    from datasets import Dataset
    from transformers import DataCollatorForTokenClassification

    words = Dataset.from_dict({"tokens": [["good", "movie"]] * 16, "tags": [[0, 1]] * 16})

    def encode(batch):
        encoded = tokenizer(batch["tokens"], is_split_into_words=True, truncation=True)
        all_labels = []
        for row, tags in enumerate(batch["tags"]):
            labels = []
            for word in encoded.word_ids(row):
                if word is None:
                    labels.append(-100)
                else:
                    labels.append(tags[word])
            all_labels.append(labels)
        encoded["labels"] = all_labels
        return encoded

    rows = words.map(encode, batched=True, remove_columns=words.column_names)
    tagger = AutoModelForTokenClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
    trainer = Trainer(tagger, args, train_dataset=rows, data_collator=DataCollatorForTokenClassification(tokenizer))

## When it is fine

A text that is split into words has one label for all of them:

    from datasets import Dataset

    words = Dataset.from_dict({"tokens": [["good", "movie"]] * 16, "label": [1] * 16})

    def encode(batch):
        encoded = tokenizer(batch["tokens"], is_split_into_words=True, truncation=True)
        encoded["labels"] = batch["label"]
        return encoded

    rows = words.map(encode, batched=True, remove_columns=words.column_names)
    model = AutoModelForSequenceClassification.from_pretrained("distilbert-base-uncased", num_labels=2)
    trainer = Trainer(model, args, train_dataset=rows, data_collator=DataCollatorWithPadding(tokenizer))

## Fix

None: which token of a word gets its label is a choice.

## References

Transformers documentation, "Token classification": `word_ids` and -100 for special tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions, special_labels
from lintrain.analysis.expressions import Assignment, Expression, Kind
from lintrain.pipeline import blocks
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, lazy_pattern, one_per_location

ALIGNS = lazy_pattern(r"word_ids|word_ids_|word_to_tokens|token_to_word|offset|-100|\balign")
"""What a function mentions that gives labels to tokens by their words."""

LOOKUP = lazy_pattern(r"\w+|[\w.]+\[\w+\]")
"""A label, or its number in a dictionary: `tag`, `label2id[tag]`."""

WHY_SPECIAL = (
    "Special tokens and padding belong to no word, and losses and metrics leave out only the label -100. Each of them "
    "counts as a word of this class, which changes the loss and the scores. No error is raised."
)


class UnalignedWordLabels(Rule):
    level = Level.ERROR
    keywords = "is_split_into_words|word_ids( & ForTokenClassification"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                labels.location,
                "word labels are used as token labels, but there are more tokens than words",
                related=[Related(call.location, "makes tokens of words", "tokens")],
                help="give each token the label of its word by `word_ids()`, and -100 to special tokens",
            )
            for call in expressions.calls_in_file(pipeline.source)
            if _gets_words(call)
            for labels in _labels_of_words(pipeline, call)
        )
        yield from one_per_location(map(self._report_special, special_labels.labelled_specials(pipeline.source)))

    def _report_special(self, found: special_labels.SpecialLabel) -> Finding:
        return self.finding(
            found.location,
            f"special tokens get the class {found.label}, so they are trained on and scored",
            why=WHY_SPECIAL,
            help="give -100 to tokens whose word is None",
            level=Level.WARNING,
        )


def _gets_words(call: Expression) -> bool:
    """Whether a tokenizer gets words, and adds its special tokens."""
    words = call.keywords.get("is_split_into_words")
    return "add_special_tokens" not in call.keywords and words is not None and words.value is True


def _labels_of_words(pipeline: Pipeline, call: Expression) -> Iterator[Assignment]:
    """The statements next to a call, in a function that aligns nothing, that make a column of its rows the labels."""
    source, function = pipeline.source, blocks.scope_of(pipeline, call.location)
    names = [each.arg for each in getattr(getattr(function, "args", None), "args", ())]
    code = source.lines[getattr(function, "lineno", 1) - 1 : getattr(function, "end_lineno", None)]
    if not names or any(map(ALIGNS.search, code)):
        return
    column = re.compile(rf"(?:{'|'.join(map(re.escape, names))})\['\w+'\]")
    for made in source.cached(_assignments_of_labels):
        is_there = blocks.is_one_scope(pipeline, call.location, made.location)
        if is_there and _has_label_of_each(made.value, column):
            yield made


def _has_label_of_each(value: Expression, column: re.Pattern[str]) -> bool:
    """Whether a value is a column, or a copy with as many labels: `[[ids[tag] for tag in row] for row in …]`."""
    rows = value.gone_through or (value.arguments[0] if value.called_name == "list" and value.arguments else None)
    if rows is None:
        return column.fullmatch(value.code) is not None
    return _has_label_of_each(rows, column) and (value.element is None or _is_label_of_one(value.element))


def _is_label_of_one(element: Expression) -> bool:
    """Whether an element is made of one label or row of labels alone, so that their number stays."""
    inner = element.gone_through
    if inner is not None and element.element is not None:
        return inner.kind is Kind.NAME and _is_label_of_one(element.element)
    is_copied = element.called_name in {"int", "list"} and [each.kind for each in element.arguments] == [Kind.NAME]
    return is_copied or LOOKUP.fullmatch(element.code) is not None


def _assignments_of_labels(source: Source) -> list[Assignment]:
    found = expressions.assignments_in_file(source)
    return [
        each
        for each in found
        if [target.kind for target in each.targets] == [Kind.SUBSCRIPT] and each.targets[0].code.endswith("['labels']")
    ]
