"""What a run is told."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    checkpoint: str = "bert-base-uncased"
    task: str = "mnli"
    classes: int = 3
    max_length: int = 96
    rate: float = 2e-5
    epochs: int = 1
    output: str = "pairing"
