"""Audio is passed to a feature extractor without its sampling rate.

A speech model reads every recording as if it had 16,000 samples per second. Common Voice has 48,000: played three times
too slow, no word is recognized. The extractor raises an error for a wrong `sampling_rate`, but only if it is given one.

## Bad

    from transformers import AutoFeatureExtractor

    extractor = AutoFeatureExtractor.from_pretrained("openai/whisper-tiny")
    speech = load_dataset("mozilla-foundation/common_voice_11_0", "hi", split="train")

    def prepare(row):
        row["input_features"] = extractor(row["audio"]["array"]).input_features[0]  # <- missing-sampling-rate
        return row

    speech = speech.map(prepare)
    trainer = Trainer(model, args, train_dataset=speech)

## Good

    from datasets import Audio
    from transformers import AutoFeatureExtractor

    extractor = AutoFeatureExtractor.from_pretrained("openai/whisper-tiny")
    speech = load_dataset("mozilla-foundation/common_voice_11_0", "hi", split="train")
    speech = speech.cast_column("audio", Audio(sampling_rate=16_000))

    def prepare(row):
        audio = row["audio"]
        row["input_features"] = extractor(audio["array"], sampling_rate=audio["sampling_rate"]).input_features[0]
        return row

    speech = speech.map(prepare)
    trainer = Trainer(model, args, train_dataset=speech)

## When it is fine

The column is cast to the rate of the model:

    from datasets import Audio
    from transformers import AutoFeatureExtractor

    extractor = AutoFeatureExtractor.from_pretrained("openai/whisper-tiny")
    speech = load_dataset("mozilla-foundation/common_voice_11_0", "hi", split="train")
    speech = speech.cast_column("audio", Audio(sampling_rate=16_000))
    speech = speech.map(lambda row: {"input_features": extractor(row["audio"]["array"]).input_features[0]})
    trainer = Trainer(model, args, train_dataset=speech)

## Fix

None: the recordings may have to be resampled as well.

## References

Transformers documentation, `WhisperFeatureExtractor.__call__`: "It is strongly recommended to pass `sampling_rate`";
datasets documentation, `Audio`.
"""

from __future__ import annotations

import ast  # the rule is about how the arrays of recordings are passed on
from collections.abc import Iterator

from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets, lazy_pattern

RESAMPLES = lazy_pattern(r"\bAudio\(|resample|librosa|torchaudio|soundfile|target_sr")
"""What gives recordings another rate, or reads them with one."""

MAKES_FEATURES = lazy_pattern(r"(?i)extractor|processor")


class MissingSamplingRate(Rule):
    level = Level.WARNING
    keywords = "array & Extractor|Processor"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(r"[\"\']array[\"\']\]")

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        source = pipeline.source
        if source.contains(RESAMPLES):
            return
        for call in source.nodes_of(ast.Call):
            if _passes_array(call) and MAKES_FEATURES.search(ast.unparse(call.func)):
                yield self.finding(
                    source.location(call),
                    "the sampling rate is not passed, so a wrong one is not noticed",
                    help='pass `sampling_rate=audio["sampling_rate"]`, and cast the column to the rate of the model',
                )


def _passes_array(call: ast.Call) -> bool:
    """Whether a call gets the samples of `datasets` first, and no rate."""
    named = {each.arg for each in call.keywords}
    if not call.args or named & {"sampling_rate", None} or len(call.args) > 1:
        return False
    first = call.args[0].elt if isinstance(call.args[0], ast.ListComp) else call.args[0]
    return isinstance(first, ast.Subscript) and isinstance(first.slice, ast.Constant) and first.slice.value == "array"
