"""Sentence Transformers: its two kinds of models, and the losses, evaluators and examples that each is given."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.registry import Transfer, family, function, method
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.loading import Loader
from lintrain.pipeline.values.model import Encoder
from lintrain.pipeline.values.python import UNKNOWN, Constant, LibraryObject, Sequence, Value

PACKAGE = "sentence_transformers."
LOSSES = (
    "AdaptiveLayerLoss AnglELoss BatchAllTripletLoss BatchHardSoftMarginTripletLoss BatchHardTripletLoss "
    "BatchSemiHardTripletLoss CachedGISTEmbedLoss CachedMultipleNegativesSymmetricRankingLoss CoSENTLoss "
    "ContrastiveLoss ContrastiveTensionLoss ContrastiveTensionLossInBatchNegatives CosineSimilarityLoss "
    "DenoisingAutoEncoderLoss GISTEmbedLoss Matryoshka2dLoss MatryoshkaLoss MegaBatchMarginLoss "
    "MultipleNegativesSymmetricRankingLoss OnlineContrastiveLoss SoftmaxLoss TripletLoss"
)
"""Losses of vectors that Sentence Transformers 6.2 has for no CrossEncoder: their module there has other names."""
CROSS_LOSSES = (
    "ADRMSELoss BinaryCrossEntropyLoss CrossEntropyLoss LambdaLoss ListMLELoss ListNetLoss PListMLELoss RankNetLoss"
)
EVALUATORS = (
    "BinaryClassificationEvaluator EmbeddingSimilarityEvaluator InformationRetrievalEvaluator NanoBEIREvaluator "
    "MSEEvaluator ParaphraseMiningEvaluator RerankingEvaluator TranslationEvaluator TripletEvaluator"
)
"""Evaluators that call `encode`."""
CROSS_EVALUATORS = (
    "CEBinaryAccuracyEvaluator CEBinaryClassificationEvaluator CECorrelationEvaluator CEF1Evaluator "
    "CERerankingEvaluator CESoftmaxAccuracyEvaluator CrossEncoderClassificationEvaluator "
    "CrossEncoderCorrelationEvaluator CrossEncoderNanoBEIREvaluator CrossEncoderRerankingEvaluator"
)
"""Evaluators that call `predict`."""
SCORES_PAIRS = {
    **dict.fromkeys((*LOSSES.split(), *EVALUATORS.split()), False),
    **dict.fromkeys((*CROSS_LOSSES.split(), *CROSS_EVALUATORS.split()), True),
}
"""Whether a loss or an evaluator is for a CrossEncoder, which scores pairs."""
OTHER_KIND, BARE_TEXTS = "the other kind of encoder", "bare texts"
"""The uses of an encoder with what is made for the other kind, and of a loader whose rows are no examples."""


@function(f"{PACKAGE}SentenceTransformer", f"{PACKAGE}CrossEncoder")
def _encoder(call: Call) -> Value:
    escape(call)
    return Encoder(call.path, call.values(), origin=call.location)


@family("sentence_transformers")
def _part(path: str) -> Transfer | None:
    """The losses and evaluators; an evaluator may be made by its `from_input_examples`."""
    name = path.removeprefix(PACKAGE).removesuffix(".from_input_examples")
    return _made if name in SCORES_PAIRS else None


def _made(call: Call) -> Value:
    made = LibraryObject(call.path, call.values(), origin=call.location)
    given = call.argument("model", 0)
    if call.path.endswith("Loss") and given is not None:
        _note(call, given, made, call.path)
    escape(call)
    return made


@method(Encoder, "fit", "old_fit", "evaluate")
def _used(call: Call) -> Value:
    parts = [call.argument(name) for name in ("evaluator", "loss_fct")]
    if call.path.endswith(".evaluate"):
        parts.append(call.argument("evaluator", 0))
    for part in parts:
        if part is not None and isinstance(part.value, LibraryObject) and isinstance(call.receiver, Encoder):
            _note(call, part, call.receiver, part.value.path)
    for loader in _loaders(call.argument("train_objectives", 0)):
        rows = loader.dataset
        if isinstance(rows, Sequence) and rows.items and all(_is_text(row) for row in rows.items):
            call.reader.record.misuses.append(Misuse(call.location, loader, BARE_TEXTS, call.text))
    escape(call)
    return UNKNOWN


def _note(call: Call, given: Argument, made: Value, path: str) -> None:
    """Note an encoder that meets what is made for the other kind; `made` and the argument are the two."""
    encoder = next((each for each in (given.value, made) if isinstance(each, Encoder)), None)
    name = path.removeprefix(PACKAGE).partition(".")[0]
    if encoder is not None and SCORES_PAIRS.get(name, encoder.scores_pairs) is not encoder.scores_pairs:
        call.reader.record.misuses.append(Misuse(given.keyword or given.location, encoder, OTHER_KIND, name))


def _loaders(objectives: Argument | None) -> Iterator[Loader]:
    """The loaders of `train_objectives`, a list of pairs of a loader and its loss."""
    pairs = objectives.value.items if objectives is not None and isinstance(objectives.value, Sequence) else []
    for pair in pairs:
        if isinstance(pair, Sequence) and pair.items and isinstance(pair.items[0], Loader):
            yield pair.items[0]


def _is_text(row: Value) -> bool:
    return isinstance(row, Constant) and isinstance(row.value, str)
