"""A stream of text that has no length: steps are counted, not epochs."""

from datasets import IterableDataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DataCollatorForLanguageModeling,
    Trainer,
    TrainingArguments,
)


def sentences():
    number = 0
    while True:
        number += 1
        yield {"text": f"line {number} of the endless story of the sea"}


tokenizer = AutoTokenizer.from_pretrained("gpt2")
tokenizer.add_special_tokens({"pad_token": "<pad>"})
model = AutoModelForCausalLM.from_pretrained("gpt2")
model.resize_token_embeddings(len(tokenizer))

stream = IterableDataset.from_generator(sentences).shuffle(seed=4, buffer_size=64)
stream = stream.map(
    lambda rows: tokenizer([text + tokenizer.eos_token for text in rows["text"]], truncation=True, max_length=32),
    batched=True,
    remove_columns=["text"],
)

trainer = Trainer(
    model=model,
    args=TrainingArguments("stream", max_steps=6, per_device_train_batch_size=4, learning_rate=5e-5, logging_steps=2),
    train_dataset=stream,
    data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False),
    processing_class=tokenizer,
)
trainer.train()
