import argparse

import torch
from datasets import load_dataset
from peft import LoraConfig, PeftModel, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, EarlyStoppingCallback, set_seed
from trl import SFTConfig, SFTTrainer

SYSTEM = "You are a support assistant of a small book shop. Answer briefly and kindly."


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="meta-llama/Llama-3.1-8B-Instruct")
    parser.add_argument("--data", default="tickets.jsonl")
    parser.add_argument("--output", default="runs/support-qlora")
    parser.add_argument("--epochs", type=float, default=3)
    parser.add_argument("--lr", type=float, default=2e-4)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--max-length", type=int, default=2048)
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--seed", type=int, default=17)
    return parser.parse_args()


def load_model(name):
    quantization = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )
    model = AutoModelForCausalLM.from_pretrained(name, quantization_config=quantization, dtype=torch.bfloat16, device_map={"": 0})
    model.config.use_cache = False
    return prepare_model_for_kbit_training(model, use_gradient_checkpointing=True)


def load_tokenizer(name):
    tokenizer = AutoTokenizer.from_pretrained(name)
    tokenizer.pad_token = "<|finetune_right_pad_id|>"
    tokenizer.padding_side = "right"
    return tokenizer


def to_messages(row):
    prompt = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": row["question"].strip()}]
    return {"prompt": prompt, "completion": [{"role": "assistant", "content": row["answer"].strip()}]}


def load_tickets(path, seed):
    rows = load_dataset("json", data_files=path, split="train")
    rows = rows.filter(lambda row: bool(row["question"]) and bool(row["answer"]))
    parts = rows.train_test_split(test_size=0.05, seed=seed)
    columns = parts["train"].column_names
    return parts.map(to_messages, remove_columns=columns)


def merge(base_name, adapter_dir, out_dir, tokenizer):
    base = AutoModelForCausalLM.from_pretrained(base_name, dtype=torch.bfloat16, device_map="cpu")
    merged = PeftModel.from_pretrained(base, adapter_dir).merge_and_unload()
    merged.save_pretrained(out_dir)
    tokenizer.save_pretrained(out_dir)


def main():
    args = get_args()
    set_seed(args.seed)
    tokenizer = load_tokenizer(args.model)
    parts = load_tickets(args.data, args.seed)
    model = load_model(args.model)

    lora = LoraConfig(
        r=args.rank,
        lora_alpha=2 * args.rank,
        lora_dropout=0.05,
        bias="none",
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
        task_type="CAUSAL_LM",
    )
    config = SFTConfig(
        output_dir=args.output,
        num_train_epochs=args.epochs,
        per_device_train_batch_size=args.batch_size,
        per_device_eval_batch_size=args.batch_size,
        gradient_accumulation_steps=args.accumulate,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        learning_rate=args.lr,
        lr_scheduler_type="cosine",
        warmup_steps=50,
        max_length=args.max_length,
        packing=False,
        completion_only_loss=True,
        bf16=True,
        optim="paged_adamw_8bit",
        logging_steps=10,
        eval_strategy="steps",
        eval_steps=200,
        save_strategy="steps",
        save_steps=200,
        save_total_limit=3,
        load_best_model_at_end=True,
        metric_for_best_model="eval_loss",
        greater_is_better=False,
        seed=args.seed,
        report_to="none",
    )
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=parts["train"],
        eval_dataset=parts["test"],
        processing_class=tokenizer,
        peft_config=lora,
        callbacks=[EarlyStoppingCallback(early_stopping_patience=3)],
    )
    trainer.train()
    print(trainer.evaluate())
    trainer.save_model(args.output)

    model = trainer.model
    model.eval()
    question = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Can I return a gift without the receipt?"}]
    inputs = tokenizer.apply_chat_template(question, add_generation_prompt=True, return_tensors="pt", return_dict=True).to(model.device)
    with torch.no_grad():
        answer = model.generate(**inputs, max_new_tokens=120, do_sample=False)
    print(tokenizer.decode(answer[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))

    if args.merge:
        merge(args.model, args.output, args.output + "-merged", tokenizer)


if __name__ == "__main__":
    main()
