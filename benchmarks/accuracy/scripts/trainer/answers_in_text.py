"""Where an answer stands in a text: start and end of the span as labels."""

from datasets import Dataset
from transformers import (
    AutoModelForQuestionAnswering,
    AutoTokenizer,
    DefaultDataCollator,
    Trainer,
    TrainingArguments,
)

NAMES = ["ada", "grace", "alan", "mary"]
CITIES = ["london", "paris", "rome", "cairo"]
rows = [
    {"question": f"where does {name} live", "context": f"{name} lives in {city} by the river", "answer": city}
    for name in NAMES
    for city in CITIES
] * 3
tokenizer = AutoTokenizer.from_pretrained("bert-base-uncased")


def prepare(batch):
    encoded = tokenizer(
        batch["question"],
        batch["context"],
        max_length=40,
        truncation="only_second",
        padding="max_length",
        return_offsets_mapping=True,
    )
    starts, ends = [], []
    for index, offsets in enumerate(encoded.pop("offset_mapping")):
        first = batch["context"][index].index(batch["answer"][index])
        last = first + len(batch["answer"][index])
        kinds = encoded.sequence_ids(index)
        inside = [
            token
            for token, (start, end) in enumerate(offsets)
            if kinds[token] == 1 and start >= first and end <= last and end > start
        ]
        starts.append(inside[0] if inside else 0)
        ends.append(inside[-1] if inside else 0)
    encoded["start_positions"] = starts
    encoded["end_positions"] = ends
    return encoded


data = Dataset.from_list(rows).shuffle(seed=11)
data = data.map(prepare, batched=True, remove_columns=data.column_names)
parts = data.train_test_split(test_size=0.25, seed=11)

trainer = Trainer(
    model=AutoModelForQuestionAnswering.from_pretrained("bert-base-uncased"),
    args=TrainingArguments(
        output_dir="answers",
        eval_strategy="epoch",
        save_strategy="epoch",
        learning_rate=3e-5,
        per_device_train_batch_size=8,
        num_train_epochs=1,
    ),
    train_dataset=parts["train"],
    eval_dataset=parts["test"],
    data_collator=DefaultDataCollator(),
    processing_class=tokenizer,
)
trainer.train()
