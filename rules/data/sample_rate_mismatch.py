"""Features of audio are computed for another sample rate than the audio has.

The bands of a mel spectrogram are placed by the rate: with a wrong one they are those of other frequencies, and a model
that was pretrained on 16 kHz gets audio of 48 kHz three times too slow. No error is raised, and the accuracy is low.

## Bad

    import torchaudio

    RATE = 22050
    spectrogram = torchaudio.transforms.MelSpectrogram(n_mels=64)  # <- sample-rate-mismatch


    def features(path):
        wave, rate = torchaudio.load(path)
        return torch.log(spectrogram(torchaudio.functional.resample(wave, rate, RATE)) + 1e-6)

The rates of a resampling exchanged:

    import torchaudio


    def load(path):
        wave, rate = torchaudio.load(path)
        return torch.clamp(torchaudio.functional.resample(wave, 16000, rate), -1, 1)  # <- sample-rate-mismatch

## Good

    import torchaudio

    RATE = 22050
    spectrogram = torchaudio.transforms.MelSpectrogram(sample_rate=RATE, n_mels=64)


    def features(path):
        wave, rate = torchaudio.load(path)
        return torch.log(spectrogram(torchaudio.functional.resample(wave, rate, RATE)) + 1e-6)

and

    import torchaudio


    def load(path):
        wave, rate = torchaudio.load(path)
        return torch.clamp(torchaudio.functional.resample(wave, rate, 16000), -1, 1)

## When it is fine

The rate of the file is passed on:

    import librosa


    def features(path):
        wave, rate = librosa.load(path, sr=None)
        return torch.from_numpy(librosa.feature.melspectrogram(y=wave, sr=rate))

## Fix

None: either the audio or the features may have the rate that was meant.

## References

torchaudio documentation, `MelSpectrogram`; librosa documentation, `load`; transformers documentation, "Audio".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import sample_rates
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, Source, Targets, one_per_location


class SampleRateMismatch(Rule):
    level = Level.ERROR
    keywords = "torchaudio|librosa|sampling_rate"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return bool(sample_rates.rate_mismatches(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(map(self._report, sample_rates.rate_mismatches(pipeline.source)))

    def _report(self, found: sample_rates.RateMismatch) -> Finding:
        related = [Related(found.given, "the audio gets its rate here", "origin")]
        return self.finding(found.location, found.problem, related=related, help=found.remedy)
