from dataclasses import dataclass

import evaluate
import nltk
import numpy as np
from datasets import load_dataset
from peft import LoraConfig, TaskType, get_peft_model
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    HfArgumentParser,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    set_seed,
)


@dataclass
class Config:
    model_name: str = "google/flan-t5-base"
    dataset_name: str = "knkarthick/samsum"
    max_source_length: int = 768
    max_target_length: int = 128
    prefix: str = "summarize: "
    lora_r: int = 16
    lora_alpha: int = 32
    lora_dropout: float = 0.05
    batch_size: int = 8
    lr: float = 1e-3
    epochs: int = 3
    seed: int = 1234
    output_dir: str = "flan-t5-samsum-lora"


class Summarizer:
    def __init__(self, cfg: Config):
        self.cfg = cfg
        set_seed(cfg.seed)
        self.tokenizer = AutoTokenizer.from_pretrained(cfg.model_name)
        base = AutoModelForSeq2SeqLM.from_pretrained(cfg.model_name)
        lora = LoraConfig(
            task_type=TaskType.SEQ_2_SEQ_LM,
            r=cfg.lora_r,
            lora_alpha=cfg.lora_alpha,
            lora_dropout=cfg.lora_dropout,
            target_modules=["q", "v"],
            bias="none",
        )
        self.model = get_peft_model(base, lora)
        self.model.print_trainable_parameters()
        self.rouge = evaluate.load("rouge")

    def preprocess(self, batch):
        inputs = [self.cfg.prefix + doc for doc in batch["dialogue"]]
        model_inputs = self.tokenizer(inputs, max_length=self.cfg.max_source_length, truncation=True)
        labels = self.tokenizer(text_target=batch["summary"], max_length=self.cfg.max_target_length, truncation=True)
        model_inputs["labels"] = labels["input_ids"]
        return model_inputs

    def load(self):
        raw = load_dataset(self.cfg.dataset_name)
        return raw.map(self.preprocess, batched=True, remove_columns=raw["train"].column_names)

    def compute_metrics(self, eval_pred):
        preds, labels = eval_pred
        if isinstance(preds, tuple):
            preds = preds[0]
        preds = np.where(preds != -100, preds, self.tokenizer.pad_token_id)
        labels = np.where(labels != -100, labels, self.tokenizer.pad_token_id)
        decoded_preds = self.tokenizer.batch_decode(preds, skip_special_tokens=True)
        decoded_labels = self.tokenizer.batch_decode(labels, skip_special_tokens=True)
        decoded_preds = ["\n".join(nltk.sent_tokenize(p.strip())) for p in decoded_preds]
        decoded_labels = ["\n".join(nltk.sent_tokenize(t.strip())) for t in decoded_labels]
        scores = self.rouge.compute(predictions=decoded_preds, references=decoded_labels, use_stemmer=True)
        return {k: round(v * 100, 2) for k, v in scores.items()}

    def train(self):
        data = self.load()
        collator = DataCollatorForSeq2Seq(
            self.tokenizer,
            model=self.model,
            label_pad_token_id=-100,
            pad_to_multiple_of=8,
        )
        args = Seq2SeqTrainingArguments(
            output_dir=self.cfg.output_dir,
            per_device_train_batch_size=self.cfg.batch_size,
            per_device_eval_batch_size=self.cfg.batch_size,
            learning_rate=self.cfg.lr,
            num_train_epochs=self.cfg.epochs,
            predict_with_generate=True,
            generation_max_length=self.cfg.max_target_length,
            generation_num_beams=4,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="rougeL",
            greater_is_better=True,
            logging_steps=100,
            bf16=True,
            seed=self.cfg.seed,
        )
        trainer = Seq2SeqTrainer(
            model=self.model,
            args=args,
            train_dataset=data["train"],
            eval_dataset=data["validation"],
            data_collator=collator,
            processing_class=self.tokenizer,
            compute_metrics=self.compute_metrics,
        )
        trainer.train()
        scores = trainer.evaluate(data["test"], metric_key_prefix="test")
        print(scores)
        self.model.save_pretrained(self.cfg.output_dir)
        self.tokenizer.save_pretrained(self.cfg.output_dir)


if __name__ == "__main__":
    nltk.download("punkt_tab")
    (config,) = HfArgumentParser(Config).parse_args_into_dataclasses()
    Summarizer(config).train()
