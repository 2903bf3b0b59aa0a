"""A loader of bare texts is given to `fit` of Sentence Transformers, which takes examples.

`SentenceTransformer.fit` reads the texts and the label of an `InputExample` from each row of its loaders. A row that
is a text has neither: the run ends with `'str' object has no attribute 'texts'` in its first batch.

## Bad

    from sentence_transformers import SentenceTransformer, losses

    encoder = SentenceTransformer("all-MiniLM-L6-v2")
    loader = DataLoader(["a first text", "a second text"], batch_size=2, shuffle=True)  # <- bare-example
    encoder.fit(train_objectives=[(loader, losses.DenoisingAutoEncoderLoss(encoder))])

## Good

    from sentence_transformers import InputExample, SentenceTransformer, losses

    encoder = SentenceTransformer("all-MiniLM-L6-v2")
    rows = [InputExample(texts=[text, text]) for text in ["a first text", "a second text"]]
    loader = DataLoader(rows, batch_size=2, shuffle=True)
    encoder.fit(train_objectives=[(loader, losses.DenoisingAutoEncoderLoss(encoder))])

## When it is fine

A data set of the library makes examples of texts:

    from sentence_transformers import SentenceTransformer, losses
    from sentence_transformers.datasets import DenoisingAutoEncoderDataset

    encoder = SentenceTransformer("all-MiniLM-L6-v2")
    loader = DataLoader(DenoisingAutoEncoderDataset(["a first text", "a second text"]), batch_size=2, shuffle=True)
    encoder.fit(train_objectives=[(loader, losses.DenoisingAutoEncoderLoss(encoder))])

## Fix

None: which texts belong together is not certain.

## References

sentence-transformers#1412; Sentence Transformers documentation, `InputExample`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.values.loading import Loader
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location

USE = "bare texts"


class BareExample(Rule):
    level = Level.ERROR
    keywords = "train_objectives"
    needs_training = False

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                misuse.value.dataset_location or misuse.value.origin or misuse.location,
                "the rows of this loader are bare texts, and `fit` takes examples",
                related=[Related(misuse.location, "`fit` gets the loader", "fit")],
                help="make an example of each: `InputExample(texts=[first, second])`",
            )
            for misuse in pipeline.misuses
            if misuse.use == USE and isinstance(misuse.value, Loader)
        )
