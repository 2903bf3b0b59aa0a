"""The tasks of text among the twelve: preferences with TRL, sequences, and adapters in bfloat16."""

from __future__ import annotations

import copy
import logging
import tempfile
from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks.watch.parts import F, Watch, adam, nn, torch
from lintrain.callbacks import TrainerWatch

WORDS = ("[PAD]", "[UNK]", "</s>", *"abcdefghijklmnop")


def _tokenizer() -> Any:
    tokenizers, transformers = import_module("tokenizers"), import_module("transformers")
    raw = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    raw.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]", eos_token="</s>"
    )


def _small_gpt2() -> Any:
    transformers = import_module("transformers")
    transformers.logging.set_verbosity_error()
    sizes = {"n_positions": 32, "n_embd": 32, "n_layer": 1, "n_head": 2}
    config = transformers.GPT2Config(vocab_size=len(WORDS), **sizes, pad_token_id=0, eos_token_id=2, bos_token_id=2)
    return transformers.GPT2LMHeadModel(config)


def _prefer(rows: list[dict[str, str]]) -> None:
    """DPO of TRL on rows in their order."""
    trl, datasets = import_module("trl"), import_module("datasets")
    model = _small_gpt2()
    logging.getLogger("trl").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder:
        settings = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "use_cpu": True, "bf16": False}
        arguments = trl.DPOConfig(
            folder,
            per_device_train_batch_size=4,
            learning_rate=1e-3,
            num_train_epochs=1,
            train_sampling_strategy="sequential",
            logging_steps=20,
            **settings,
        )
        trl.DPOTrainer(
            model,
            ref_model=copy.deepcopy(model),
            args=arguments,
            processing_class=_tokenizer(),
            train_dataset=datasets.Dataset.from_list(rows),
            callbacks=[TrainerWatch(on_mistake="warn")],
        ).train()


def _pairs(count: int) -> list[dict[str, str]]:
    letters = WORDS[3:]
    chosen = torch.randint(8, (count, 4)).tolist()
    return [
        {
            "prompt": " ".join(letters[each] for each in row[:2]),
            "chosen": " " + " ".join(letters[each] for each in row),
            "rejected": " " + " ".join(letters[each + 8] for each in row),
        }
        for row in chosen
    ]


def exchanged_later(_watch: Watch) -> None:
    """DPO on two files: the second one has its columns of chosen and rejected texts exchanged."""
    other = [{**row, "chosen": row["rejected"], "rejected": row["chosen"]} for row in _pairs(800)]
    _prefer([*_pairs(1_200), *other])


def all_learned(_watch: Watch) -> None:
    """DPO on rows that are soon told apart, so that little of the loss is left."""
    _prefer(_pairs(2_000))


def _translate(watch: Watch, own: Callable[[int], float], ignored: Callable[[int], int]) -> None:
    """A pair of recurrences that writes a sequence backwards; with a chance it reads its own words."""
    words = nn.Embedding(20, 32)
    reader, writer, head = nn.GRU(32, 64, batch_first=True), nn.GRUCell(32, 64), nn.Linear(64, 20)
    optimizer = adam(nn.ModuleList([words, reader, writer, head]), 3e-3)
    for step in range(1_400):
        tokens = torch.randint(1, 20, (32, 6))
        targets = tokens.flip(1)
        hidden, word, scores = reader(words(tokens))[1][0], torch.zeros(32).long(), []
        for at in range(6):
            hidden = writer(words(word), hidden)
            scores.append(head(hidden))
            word = torch.where(torch.rand(32) < own(step), scores[-1].argmax(1), targets[:, at])
        labels = targets.clone()
        labels[:, : ignored(step)] = -100
        each = F.cross_entropy(torch.stack(scores, 2), labels, reduction="sum")
        loss = each / (labels != -100).sum().clamp(min=1)
        watch(loss, batch=(tokens, labels))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], 1.0)
        optimizer.step()


def prompts_beyond_the_limit(watch: Watch) -> None:
    """Sequences whose prompts grow with the curriculum, until they fill all that is kept of a row."""
    _translate(watch, lambda _step: 0.0, lambda step: min(6, step // 200))


def own_words_later(watch: Watch) -> None:
    """Scheduled sampling: the writer reads ever more of its own words, so that the loss rises."""
    _translate(watch, lambda step: min(1.0, step / 1_000), lambda _step: 0)


def _counted(rows: int, by: int) -> Any:
    """Sequences that count in a circle of eight words."""
    return (torch.randint(8, (rows, 1)) + by * torch.arange(12)) % 8 + 3


def _pretrained() -> Any:
    """A model that counts by one."""
    model = _small_gpt2()
    optimizer = adam(model, 1e-2)
    for _ in range(150):
        tokens = _counted(16, 1)
        optimizer.zero_grad()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
    return model


def _adapt(factor: Callable[[int], float]) -> None:
    """LoRA on weights of bfloat16 with a Trainer, whose rate is multiplied by a factor of the step."""
    peft, transformers = import_module("peft"), import_module("transformers")
    model = _pretrained().to(torch.bfloat16)
    adapters = peft.LoraConfig(
        r=8, target_modules=["c_attn", "c_fc", "c_proj"], fan_in_fan_out=True, task_type="CAUSAL_LM"
    )
    model = peft.get_peft_model(model, adapters, autocast_adapter_dtype=False)
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=3e-3)
    rows = [{"input_ids": row, "labels": row} for row in _counted(8_000, 3)]
    with tempfile.TemporaryDirectory() as folder:
        settings = {"report_to": "none", "disable_tqdm": True, "save_strategy": "no", "use_cpu": True}
        transformers.Trainer(
            model,
            transformers.TrainingArguments(folder, num_train_epochs=1, logging_steps=20, **settings),
            train_dataset=rows,
            optimizers=(optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)),
            callbacks=[TrainerWatch(on_mistake="warn")],
        ).train()


def rate_below_half_precision(_watch: Watch) -> None:
    """Adapters in bfloat16, whose rate falls to a thousandth of a thousandth: steps are smaller than their digits."""
    _adapt(lambda step: 1.0 if step < 300 else 1e-6)


def cosine_to_zero(_watch: Watch) -> None:
    """Adapters in bfloat16, whose rate falls to 0 in the last step."""
    _adapt(lambda step: 1 - step / 1_000)
