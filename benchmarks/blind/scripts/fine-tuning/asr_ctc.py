# wav2vec2 CTC fine-tuning for our Estonian read-speech corpus
import json
import os
import re
from typing import Any, Dict, List, Union

import evaluate
import numpy as np
import torch
from datasets import Audio, load_dataset
from transformers import (
    Trainer,
    TrainingArguments,
    Wav2Vec2CTCTokenizer,
    Wav2Vec2FeatureExtractor,
    Wav2Vec2ForCTC,
    Wav2Vec2Processor,
    set_seed,
)

CORPUS = os.environ.get("CORPUS_DIR", "/data/corpora/et_read")
WORK = os.environ.get("WORK_DIR", "exp/w2v2_et")
PRETRAINED = "facebook/wav2vec2-xls-r-300m"
IGNORED = re.compile(r"[\,\?\.\!\-\;\:\"\“\%\‘\”\�\(\)]")
MAX_SECONDS = 12.0


def clean(row):
    row["sentence"] = IGNORED.sub("", row["sentence"]).lower().strip()
    return row


def build_vocab(split, path):
    chars = sorted(set("".join(split["sentence"])))
    vocab = {c: i for i, c in enumerate(chars)}
    vocab["|"] = vocab.pop(" ")
    vocab["[UNK]"] = len(vocab)
    vocab["[PAD]"] = len(vocab)
    with open(path, "w") as f:
        json.dump(vocab, f, ensure_ascii=False)


class CTCCollator:
    def __init__(self, processor):
        self.processor = processor

    def __call__(self, features: List[Dict[str, Union[List[int], torch.Tensor]]]) -> Dict[str, Any]:
        inputs = [{"input_values": f["input_values"]} for f in features]
        targets = [{"input_ids": f["labels"]} for f in features]
        batch = self.processor.feature_extractor.pad(inputs, padding=True, return_tensors="pt")
        padded = self.processor.tokenizer.pad(targets, padding=True, return_tensors="pt")
        batch["labels"] = padded["input_ids"].masked_fill(padded.attention_mask.ne(1), -100)
        return batch


def main():
    set_seed(2024)
    os.makedirs(WORK, exist_ok=True)

    corpus = load_dataset("audiofolder", data_dir=CORPUS)
    corpus = corpus.map(clean)
    corpus = corpus.cast_column("audio", Audio(sampling_rate=16_000))

    build_vocab(corpus["train"], os.path.join(WORK, "vocab.json"))
    tokenizer = Wav2Vec2CTCTokenizer(
        os.path.join(WORK, "vocab.json"), unk_token="[UNK]", pad_token="[PAD]", word_delimiter_token="|"
    )
    extractor = Wav2Vec2FeatureExtractor(
        feature_size=1, sampling_rate=16_000, padding_value=0.0, do_normalize=True, return_attention_mask=True
    )
    processor = Wav2Vec2Processor(feature_extractor=extractor, tokenizer=tokenizer)
    processor.save_pretrained(WORK)

    def prepare(row):
        audio = row["audio"]
        row["input_values"] = processor(audio["array"], sampling_rate=audio["sampling_rate"]).input_values[0]
        row["input_length"] = len(row["input_values"])
        row["labels"] = processor(text=row["sentence"]).input_ids
        return row

    columns = corpus["train"].column_names
    corpus = corpus.map(prepare, remove_columns=columns, num_proc=8)
    limit = int(MAX_SECONDS * 16_000)
    corpus["train"] = corpus["train"].filter(lambda n: n < limit, input_columns=["input_length"])

    wer = evaluate.load("wer")
    cer = evaluate.load("cer")

    def compute_metrics(pred):
        pred_ids = np.argmax(pred.predictions, axis=-1)
        label_ids = pred.label_ids.copy()
        label_ids[label_ids == -100] = processor.tokenizer.pad_token_id
        hyp = processor.batch_decode(pred_ids)
        ref = processor.batch_decode(label_ids, group_tokens=False)
        return {"wer": wer.compute(predictions=hyp, references=ref), "cer": cer.compute(predictions=hyp, references=ref)}

    model = Wav2Vec2ForCTC.from_pretrained(
        PRETRAINED,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        mask_time_prob=0.05,
        layerdrop=0.0,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
        pad_token_id=processor.tokenizer.pad_token_id,
        vocab_size=len(processor.tokenizer),
    )
    model.freeze_feature_encoder()

    args = TrainingArguments(
        output_dir=WORK,
        train_sampling_strategy="group_by_length",
        length_column_name="input_length",
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2,
        eval_strategy="steps",
        eval_steps=500,
        save_steps=500,
        num_train_epochs=30,
        fp16=True,
        learning_rate=3e-4,
        warmup_steps=500,
        save_total_limit=2,
        load_best_model_at_end=True,
        metric_for_best_model="wer",
        greater_is_better=False,
        seed=2024,
    )
    trainer = Trainer(
        model=model,
        args=args,
        data_collator=CTCCollator(processor),
        train_dataset=corpus["train"],
        eval_dataset=corpus["validation"],
        compute_metrics=compute_metrics,
        processing_class=processor.feature_extractor,
    )
    trainer.train()
    trainer.save_model(WORK)
    print(trainer.evaluate(corpus["test"], metric_key_prefix="test"))


if __name__ == "__main__":
    main()
