"""Fine-tune an encoder for named entity recognition on CoNLL-style data.

python run_ner.py --model_name bert-base-cased --train_file train.json --validation_file dev.json --output_dir out
"""
import argparse
import logging

import evaluate
import numpy as np
from datasets import load_dataset
from transformers import (
    AutoConfig,
    AutoModelForTokenClassification,
    AutoTokenizer,
    DataCollatorForTokenClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

logger = logging.getLogger(__name__)


def parse_args():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model_name", default="bert-base-cased")
    parser.add_argument("--train_file", required=True)
    parser.add_argument("--validation_file", required=True)
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--max_length", type=int, default=256)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=3e-5)
    parser.add_argument("--seed", type=int, default=13)
    parser.add_argument("--fp16", action="store_true")
    return parser.parse_args()


def get_label_list(tag_column):
    tags = set()
    for sentence in tag_column:
        tags.update(sentence)
    return sorted(tags)


def tokenize_and_align(examples, tokenizer, label2id, max_length):
    tokenized = tokenizer(
        examples["tokens"],
        truncation=True,
        max_length=max_length,
        is_split_into_words=True,
    )
    all_labels = []
    for i, tags in enumerate(examples["ner_tags"]):
        word_ids = tokenized.word_ids(batch_index=i)
        previous = None
        label_ids = []
        for word_id in word_ids:
            if word_id is None:
                label_ids.append(-100)
            elif word_id != previous:
                label_ids.append(label2id[tags[word_id]])
            else:
                label_ids.append(-100)
            previous = word_id
        all_labels.append(label_ids)
    tokenized["labels"] = all_labels
    return tokenized


def build_metrics(label_list):
    seqeval = evaluate.load("seqeval")

    def compute_metrics(p):
        logits, labels = p
        predictions = np.argmax(logits, axis=2)
        true_predictions = [
            [label_list[pr] for pr, la in zip(prediction, label) if la != -100]
            for prediction, label in zip(predictions, labels)
        ]
        true_labels = [
            [label_list[la] for pr, la in zip(prediction, label) if la != -100]
            for prediction, label in zip(predictions, labels)
        ]
        results = seqeval.compute(predictions=true_predictions, references=true_labels)
        return {
            "precision": results["overall_precision"],
            "recall": results["overall_recall"],
            "f1": results["overall_f1"],
        }

    return compute_metrics


def main():
    args = parse_args()
    logging.basicConfig(level=logging.INFO)
    set_seed(args.seed)

    files = {"train": args.train_file, "validation": args.validation_file}
    raw = load_dataset("json", data_files=files)

    label_list = get_label_list(raw["train"]["ner_tags"])
    label2id = {label: i for i, label in enumerate(label_list)}
    id2label = {i: label for i, label in enumerate(label_list)}

    config = AutoConfig.from_pretrained(
        args.model_name,
        num_labels=len(label_list),
        id2label=id2label,
        label2id=label2id,
    )
    tokenizer = AutoTokenizer.from_pretrained(args.model_name, use_fast=True)
    model = AutoModelForTokenClassification.from_pretrained(args.model_name, config=config)

    data = raw.map(
        tokenize_and_align,
        batched=True,
        remove_columns=raw["train"].column_names,
        fn_kwargs={"tokenizer": tokenizer, "label2id": label2id, "max_length": args.max_length},
    )
    logger.info("train sentences: %d", len(data["train"]))

    training_args = TrainingArguments(
        output_dir=args.output_dir,
        learning_rate=args.lr,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=args.batch_size * 2,
        num_train_epochs=args.epochs,
        weight_decay=0.01,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="f1",
        fp16=args.fp16,
        seed=args.seed,
    )
    trainer = Trainer(
        model=model,
        args=training_args,
        train_dataset=data["train"],
        eval_dataset=data["validation"],
        data_collator=DataCollatorForTokenClassification(tokenizer),
        processing_class=tokenizer,
        compute_metrics=build_metrics(label_list),
    )
    trainer.train()
    metrics = trainer.evaluate()
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)
    trainer.save_model(args.output_dir)


if __name__ == "__main__":
    main()
