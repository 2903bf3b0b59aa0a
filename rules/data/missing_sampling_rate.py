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

from collections.abc import Iterator

from lintrain.analysis import sample_rates
from lintrain.rule import Finding, Level, Pipeline, Rule, Source, Targets


class MissingSamplingRate(Rule):
    level = Level.WARNING
    keywords = "array & Extractor|Processor"
    needs_training = False

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(r"[\"\']array[\"\']\]")

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        for location in sample_rates.arrays_without_rate(pipeline.source):
            yield self.finding(
                location,
                "the sampling rate is not passed, so a wrong one is not noticed",
                help='pass `sampling_rate=audio["sampling_rate"]`, and cast the column to the rate of the model',
            )
