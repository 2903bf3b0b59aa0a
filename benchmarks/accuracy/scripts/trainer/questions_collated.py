"""Answers to questions by GPT-2: a collator of one's own tokenizes, pads, and masks the padding."""

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, Trainer, TrainingArguments

QUESTIONS = [{"question": f"what is {one} and {one + 2}?", "answer": f"it is {2 * one + 2}."} for one in range(48)]


class Collator:
    def __init__(self, tokenizer, longest):
        self.tokenizer = tokenizer
        self.longest = longest

    def __call__(self, rows):
        texts = [f"{row['question']} {row['answer']}{self.tokenizer.eos_token}" for row in rows]
        batch = self.tokenizer(texts, padding=True, truncation=True, max_length=self.longest, return_tensors="pt")
        batch["labels"] = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        return batch


def main():
    torch.manual_seed(8)
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    tokenizer.add_special_tokens({"pad_token": "[PAD]"})
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    model.resize_token_embeddings(len(tokenizer))
    rows = Dataset.from_list(QUESTIONS).train_test_split(0.25, seed=1)
    args = TrainingArguments(
        "questions",
        learning_rate=5e-5,
        per_device_train_batch_size=4,
        num_train_epochs=1,
        eval_strategy="epoch",
        remove_unused_columns=False,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=rows["train"],
        eval_dataset=rows["test"],
        data_collator=Collator(tokenizer, 24),
    )
    trainer.train()
    trainer.save_model("questions")
    tokenizer.save_pretrained("questions")


if __name__ == "__main__":
    main()
