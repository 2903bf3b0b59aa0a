"""Options in dataclasses, read by HfArgumentParser, from the command line or a JSON file."""

import sys
from dataclasses import dataclass, field

import evaluate
from datasets import load_dataset
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    DataCollatorWithPadding,
    HfArgumentParser,
    Trainer,
    TrainingArguments,
    set_seed,
)


@dataclass
class ModelOptions:
    checkpoint: str = field(default="distilbert-base-uncased", metadata={"help": "the pretrained model"})


@dataclass
class DataOptions:
    task: str = field(default="mrpc")
    max_length: int = field(default=128, metadata={"help": "longer pairs are cut"})


@dataclass
class Options(TrainingArguments):
    output_dir: str = "paraphrases"
    learning_rate: float = 2e-5
    num_train_epochs: float = 1.0
    do_train: bool = True
    do_eval: bool = True


def main():
    parser = HfArgumentParser((ModelOptions, DataOptions, Options))
    if len(sys.argv) == 2 and sys.argv[1].endswith(".json"):
        model_options, data_options, options = parser.parse_json_file(sys.argv[1])
    else:
        model_options, data_options, options = parser.parse_args_into_dataclasses()
    set_seed(options.seed)

    pairs = load_dataset("glue", data_options.task)
    labels = pairs["train"].features["label"].names
    config = AutoConfig.from_pretrained(model_options.checkpoint, num_labels=len(labels))
    tokenizer = AutoTokenizer.from_pretrained(model_options.checkpoint)
    model = AutoModelForSequenceClassification.from_pretrained(model_options.checkpoint, config=config)

    def preprocess(rows):
        return tokenizer(rows["sentence1"], rows["sentence2"], max_length=data_options.max_length, truncation=True)

    with options.main_process_first(desc="tokenizing"):
        pairs = pairs.map(preprocess, batched=True)

    metric = evaluate.load("accuracy")

    def compute_metrics(prediction):
        guessed = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        return metric.compute(predictions=guessed.argmax(axis=1), references=prediction.label_ids)

    trainer = Trainer(
        model=model,
        args=options,
        train_dataset=pairs["train"] if options.do_train else None,
        eval_dataset=pairs["validation"] if options.do_eval else None,
        compute_metrics=compute_metrics,
        processing_class=tokenizer,
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    if options.do_train:
        trainer.train(resume_from_checkpoint=options.resume_from_checkpoint)
        trainer.save_model()
    if options.do_eval:
        trainer.log_metrics("eval", trainer.evaluate())


if __name__ == "__main__":
    main()
