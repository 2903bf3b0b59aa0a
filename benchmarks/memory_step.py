"""One family's training step, in a process of its own: `python -m benchmarks.memory_step FAMILY SCALE DEVICE`.

Prints as JSON what `benchmarks.memory` compares. The step is taken twice: the first one makes the optimizer's state.
"""

from __future__ import annotations

import ctypes
import gc
import json
import resource
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import transformers

from lintrain.runtime.measure.projection import Projection, Training

STEPS = 2
Batch = dict[str, Any]  # Any: tensors


@dataclass(frozen=True)
class Family:
    """What makes a model, and a batch of so many rows for it."""

    model: Callable[[], Any]
    batch: Callable[[int], Batch]
    rows: int


def tokens(rows: int, length: int, words: int) -> Any:
    return torch.randint(5, words, (rows, length))


def texts(length: int, words: int, *, classes: int | None = None) -> Callable[[int], Batch]:
    """Batches of unpadded token ids, with a label for each row or each token."""

    def batch(rows: int) -> Batch:
        ids = tokens(rows, length, words)
        labels = ids.clone() if classes is None else torch.randint(classes, (rows,))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}

    return batch


def images(size: int, classes: int) -> Callable[[int], Batch]:
    return lambda rows: {
        "pixel_values": torch.randn(rows, 3, size, size),
        "labels": torch.randint(classes, (rows,)),
    }


class ConvNet(torch.nn.Module):
    """A plain convolutional network with batch norm."""

    def __init__(self) -> None:
        super().__init__()
        widths = [3, 32, 64, 128]
        blocks = [
            torch.nn.Sequential(
                torch.nn.Conv2d(before, after, 3, padding=1),
                torch.nn.BatchNorm2d(after),
                torch.nn.ReLU(),
                torch.nn.MaxPool2d(2),
            )
            for before, after in pairwise(widths)
        ]
        self.body = torch.nn.Sequential(*blocks)
        self.head = torch.nn.Linear(128, 10)

    def forward(self, pixel_values: Any, labels: Any) -> tuple[Any, ...]:
        logits = self.head(self.body(pixel_values).mean(dim=(2, 3)))
        return (torch.nn.functional.cross_entropy(logits, labels), logits)


def bert() -> Any:
    config = transformers.BertConfig(
        num_hidden_layers=4, hidden_size=384, num_attention_heads=6, intermediate_size=1536
    )
    return transformers.BertForSequenceClassification(config)


def gpt2() -> Any:
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(n_layer=4, n_embd=384, n_head=6, vocab_size=20_000))


def llama() -> Any:
    config = transformers.LlamaConfig(
        num_hidden_layers=6,
        hidden_size=384,
        num_attention_heads=6,
        num_key_value_heads=2,
        intermediate_size=1024,
        vocab_size=16_000,
    )
    return transformers.LlamaForCausalLM(config)


def checkpointed_llama() -> Any:
    model = llama()
    model.gradient_checkpointing_enable()
    return model


def adapted_llama() -> Any:
    import peft

    return peft.get_peft_model(
        llama(), peft.LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )


def t5() -> Any:
    config = transformers.T5Config(num_layers=3, d_model=384, d_kv=64, num_heads=6, d_ff=1024, vocab_size=16_000)
    config.decoder_start_token_id = 0
    return transformers.T5ForConditionalGeneration(config)


def vit() -> Any:
    config = transformers.ViTConfig(
        num_hidden_layers=6, hidden_size=384, num_attention_heads=6, intermediate_size=1536, image_size=160
    )
    return transformers.ViTForImageClassification(config)


def whisper() -> Any:
    config = transformers.WhisperConfig(
        encoder_layers=3,
        decoder_layers=3,
        d_model=256,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=1024,
        decoder_ffn_dim=1024,
        max_source_positions=500,
        vocab_size=16_000,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return transformers.WhisperForConditionalGeneration(config)


def sounds(rows: int) -> Batch:
    return {"input_features": torch.randn(rows, 80, 1000), "labels": tokens(rows, 64, 16_000)}


FAMILIES = {
    "bert": Family(bert, texts(128, 30_000, classes=2), 16),
    "gpt2": Family(gpt2, texts(256, 20_000), 8),
    "llama": Family(llama, texts(256, 16_000), 8),
    "llama checkpointed": Family(checkpointed_llama, texts(256, 16_000), 8),
    "llama lora": Family(adapted_llama, texts(256, 16_000), 8),
    "t5": Family(t5, texts(128, 16_000), 8),
    "vit": Family(vit, images(160, 2), 16),
    "convnet": Family(ConvNet, images(96, 10), 32),
    "whisper": Family(whisper, sounds, 8),
}


class Step:
    """A model and its optimizer at work on one batch, again and again."""

    def __init__(self, family: Family, rows: int, device: str = "cpu") -> None:
        torch.manual_seed(0)
        self.model = family.model().train().to(device)
        self.batch = {name: values.to(device) for name, values in family.batch(rows).items()}
        self.optimizer = torch.optim.AdamW([each for each in self.model.parameters() if each.requires_grad], lr=1e-4)

    def passes(self, batch: Batch) -> None:
        output = self.model(**batch)
        (output["loss"] if hasattr(output, "keys") else output[0]).backward()

    def take(self) -> None:
        for _ in range(STEPS):
            self.passes(self.batch)
            self.optimizer.step()
            self.optimizer.zero_grad()


def resident_now() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measured(family: Family, rows: int) -> tuple[int, int]:
    """The most that torch's allocator held, and how much the process grew."""
    Step(family, 1).take()  # libraries make their buffers and thread pools at the first use
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    before = resident_now()
    Step(family, rows).take()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    gc.collect()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        Step(family, rows).take()
    return _most(profile), resident


def measured_on_gpu(family: Family, rows: int) -> tuple[int, int]:
    """The most that torch's allocator gave out on the GPU, and what it had taken from the GPU for it."""
    Step(family, 1, "cuda").take()  # cuBLAS and cuDNN take their workspaces at the first use
    gc.collect()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    Step(family, rows, "cuda").take()
    return torch.cuda.max_memory_allocated() - before, torch.cuda.max_memory_reserved()


def _most(profile: Any) -> int:
    """The highest sum of what was allocated and freed from the first event on."""
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def projected(family: Family, rows: int, *, for_gpu: bool) -> int:
    """What lintrain projects for the same step, from a batch of half its rows."""
    step = Step(family, max(1, rows // 2))
    training = Training(
        modules=(step.model,),
        optimizer=step.optimizer,
        batch=step.batch,
        had=max(1, rows // 2),
        run_batch=step.passes,
        finish=lambda: None,
    )
    projection = Projection(training, for_gpu=for_gpu)
    with projection.open():
        return projection.peak(rows).whole


def main() -> None:
    name, scale, device = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    family = FAMILIES[name]
    rows = max(2, int(family.rows * scale))
    is_gpu = device != "cpu"
    allocated, resident = measured_on_gpu(family, rows) if is_gpu else measured(family, rows)
    peak = projected(family, rows, for_gpu=is_gpu)
    found = {"family": name, "projected": peak, "allocated": allocated, "resident": resident}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
