"""A loss or an evaluator of Sentence Transformers gets the other kind of model than it is made for.

A `SentenceTransformer` makes a vector of each text, and its losses and evaluators compare vectors: they call `encode`.
A `CrossEncoder` reads two texts together and gives scores, with losses and evaluators of its own in
`sentence_transformers.cross_encoder`: they call `predict`. With the wrong kind, the run ends with an error in the
first step, or only after the first epoch, when the evaluator runs.

## Bad

    from sentence_transformers import CrossEncoder, losses

    scorer = CrossEncoder("cross-encoder/ms-marco-MiniLM-L-6-v2")
    loss = losses.CosineSimilarityLoss(scorer)  # <- wrong-encoder
    scorer.fit(pairs, loss_fct=loss)  # <- wrong-encoder

An evaluator:

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.cross_encoder.evaluation import CrossEncoderCorrelationEvaluator

    encoder = SentenceTransformer("all-MiniLM-L6-v2")
    judge = CrossEncoderCorrelationEvaluator(sentence_pairs, similarities)
    encoder.evaluate(judge)  # <- wrong-encoder

## Good

    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder.losses import BinaryCrossEntropyLoss

    scorer = CrossEncoder("cross-encoder/ms-marco-MiniLM-L-6-v2")
    loss = BinaryCrossEntropyLoss(scorer)

and

    from sentence_transformers import SentenceTransformer
    from sentence_transformers.evaluation import EmbeddingSimilarityEvaluator

    encoder = SentenceTransformer("all-MiniLM-L6-v2")
    judge = EmbeddingSimilarityEvaluator(first_texts, second_texts, similarities)
    encoder.evaluate(judge)

## When it is fine

Some losses are there for both kinds:

    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder.losses import MultipleNegativesRankingLoss

    scorer = CrossEncoder("cross-encoder/ms-marco-MiniLM-L-6-v2")
    loss = MultipleNegativesRankingLoss(scorer)

## Fix

None: the other kind of model may be meant, or another loss.

## References

sentence-transformers#2483, sentence-transformers#731; Sentence Transformers documentation, "Cross-Encoder vs
Bi-Encoder".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.pipeline.values.model import Encoder
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, one_per_location

USE = "the other kind of encoder"


class WrongEncoder(Rule):
    level = Level.ERROR
    keywords = "CrossEncoder|SentenceTransformer & Loss|Evaluator"
    needs_training = False

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self.finding(
                misuse.location,
                f"`{misuse.text}` is made for a {'SentenceTransformer' if of.scores_pairs else 'CrossEncoder'}",
                related=[Related(of.origin, f"this is a {_kind(of)}", "model")] if of.origin else [],
                help=f"use one of `{_module(of, misuse.text)}`",
            )
            for misuse in pipeline.misuses
            if misuse.use == USE and isinstance(of := misuse.value, Encoder)
        )


def _kind(encoder: Encoder) -> str:
    return encoder.path.rpartition(".")[2]


def _module(encoder: Encoder, name: str) -> str:
    """Where the losses, or the evaluators, of this kind of model are."""
    package = "sentence_transformers.cross_encoder" if encoder.scores_pairs else "sentence_transformers"
    return f"{package}.{'losses' if name.endswith('Loss') else 'evaluation'}"
