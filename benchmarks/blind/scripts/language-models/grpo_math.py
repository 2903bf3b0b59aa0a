# GRPO on grade school maths, reward = right number + right format
import re
from dataclasses import dataclass, field

import torch
from datasets import load_dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, set_seed
from trl import GRPOConfig, GRPOTrainer

SYSTEM_PROMPT = (
    "Think step by step inside <think> and </think>, "
    "then give only the final number inside <answer> and </answer>."
)
FORMAT = re.compile(r"^<think>.+?</think>\s*<answer>.+?</answer>\s*$", re.DOTALL)
ANSWER = re.compile(r"<answer>(.+?)</answer>", re.DOTALL)


@dataclass
class ScriptArguments:
    dataset_name: str = field(default="openai/gsm8k")
    eval_rows: int = field(default=200)
    base_model: str = field(default="Qwen/Qwen2.5-1.5B-Instruct")


def gold_number(text):
    return text.split("####")[-1].strip().replace(",", "")


def to_prompt(row):
    return {
        "prompt": [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": row["question"]},
        ],
        "gold": gold_number(row["answer"]),
    }


def completion_texts(completions):
    return [completion[0]["content"] for completion in completions]


def format_reward(completions, **kwargs):
    return [0.5 if FORMAT.match(text) else 0.0 for text in completion_texts(completions)]


def correctness_reward(completions, gold, **kwargs):
    rewards = []
    for text, target in zip(completion_texts(completions), gold):
        found = ANSWER.search(text)
        said = found.group(1).strip().replace(",", "").replace("$", "") if found else None
        rewards.append(1.0 if said == target else 0.0)
    return rewards


def solve_rate(model, tokenizer, rows, limit=64):
    model.eval()
    right = 0
    for row in rows.select(range(limit)):
        inputs = tokenizer.apply_chat_template(
            row["prompt"], add_generation_prompt=True, return_tensors="pt", return_dict=True
        ).to(model.device)
        with torch.no_grad():
            output = model.generate(**inputs, max_new_tokens=512, do_sample=False)
        text = tokenizer.decode(output[0, inputs["input_ids"].shape[1]:], skip_special_tokens=True)
        right += int(correctness_reward([[{"content": text}]], [row["gold"]])[0])
    return right / limit


def main():
    script = ScriptArguments()
    set_seed(11)

    raw = load_dataset(script.dataset_name, "main")
    train = raw["train"].map(to_prompt, remove_columns=raw["train"].column_names)
    test = raw["test"].map(to_prompt, remove_columns=raw["test"].column_names)
    held_out = test.shuffle(seed=11).select(range(script.eval_rows))

    tokenizer = AutoTokenizer.from_pretrained(script.base_model, padding_side="left")
    model = AutoModelForCausalLM.from_pretrained(script.base_model, dtype=torch.bfloat16)

    config = GRPOConfig(
        output_dir="grpo-gsm8k",
        learning_rate=1e-5,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=20,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        gradient_accumulation_steps=4,
        num_generations=8,
        max_completion_length=512,
        temperature=1.0,
        beta=0.02,
        max_steps=800,
        max_grad_norm=0.2,
        bf16=True,
        gradient_checkpointing=True,
        logging_steps=5,
        eval_strategy="steps",
        eval_steps=100,
        save_steps=100,
        seed=11,
        report_to="wandb",
    )
    peft_config = LoraConfig(
        r=32,
        lora_alpha=64,
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[format_reward, correctness_reward],
        args=config,
        train_dataset=train,
        eval_dataset=held_out,
        processing_class=tokenizer,
        peft_config=peft_config,
    )
    trainer.train()
    trainer.save_model(config.output_dir)
    print("solve rate", solve_rate(trainer.model, tokenizer, held_out))


if __name__ == "__main__":
    main()
