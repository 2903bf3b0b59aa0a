"""A model generates from a chat template without the opening of its own turn.

`apply_chat_template(…, add_generation_prompt=True)` ends with the tokens that open an answer. Without them the text
ends after the question, as no training text does, and the model may go on with the question or write a turn of another
speaker.

## Bad

    chat = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    talker = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    messages = [{"role": "user", "content": "What is LoRA?"}]
    text = chat.apply_chat_template(messages, tokenize=False)  # <- missing-generation-prompt
    inputs = chat(text, return_tensors="pt", add_special_tokens=False)
    out = talker.generate(**inputs, max_new_tokens=8)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Good

    chat = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    talker = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    messages = [{"role": "user", "content": "What is LoRA?"}]
    text = chat.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    inputs = chat(text, return_tensors="pt", add_special_tokens=False)
    out = talker.generate(**inputs, max_new_tokens=8)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## When it is fine

The last message is the beginning of the answer:

    chat = AutoTokenizer.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    talker = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B-Instruct")
    messages = [{"role": "user", "content": "What is LoRA?"}, {"role": "assistant", "content": "LoRA is"}]
    text = chat.apply_chat_template(messages, tokenize=False, continue_final_message=True)
    inputs = chat(text, return_tensors="pt", add_special_tokens=False)
    out = talker.generate(**inputs, max_new_tokens=8)
    trainer = Trainer(model, args, train_dataset=tokenized["train"], data_collator=collator)

## Fix

Asks first: the template of a model may open the answer by itself. There is no fix for `add_generation_prompt=False`.

## References

Transformers documentation, "Chat templates", `add_generation_prompt`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import chat_prompts
from lintrain.pipeline.values.data import Tokenizer
from lintrain.pipeline.values.python import is_missing, literal, text_of
from lintrain.pipeline.values.tensors import Templated
from lintrain.rule import (
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    dataclass,
    fixes,
    lazy_pattern,
    one_per_location,
)

OPENS = lazy_pattern(
    r"qwen|llama-?3|smollm|gemma|phi-|zephyr|olmo|granite|deepseek|llava|tinyllama|gpt-oss|command-r|aya-",
    re.IGNORECASE,
)
"""Checkpoints whose templates open an answer if they are asked to; those of Llama 2 and Mistral never do."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Whether the call has no `add_generation_prompt`."""

    is_missing: bool


class MissingGenerationPrompt(Rule[Claim]):
    level = Level.WARNING
    keywords = "apply_chat_template & generate"
    needs_training = False
    # A file that gets its model from another one may import nothing but torch.
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return source.contains(r"\.apply_chat_template\(")

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(self._found(pipeline))

    def _found(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        known = set[Location]()
        for misuse in pipeline.misuses:
            made = misuse.value
            if misuse.use == "generated from template" and isinstance(made, Templated) and made.origin is not None:
                if isinstance(made.owner, Tokenizer) and _published_name(made.owner):
                    known.add(made.origin)
                if _is_closed(made):
                    yield self._report(made.origin, misuse.location, Claim(is_missing(made.adds_prompt)))
        names = {_published_name(each) for each in pipeline.tokenizers} - {""}
        if not all(map(OPENS.search, names)):
            return
        # Of a tokenizer that is not known, as that of a class or a parameter, the names show what is generated from.
        # A template that no one knows may open the answer by itself, so what a call switches off is left alone.
        for each in chat_prompts.unopened_prompts(pipeline.source):
            if each.location not in known and (each.is_missing or names):
                yield self._report(each.location, each.generated, Claim(each.is_missing))

    def _report(self, location: Location, generated: Location, claim: Claim) -> Finding[Claim]:
        return self.finding(
            location,
            "the prompt does not open the answer that the model is to generate",
            related=[Related(generated, "generated here", "generated")],
            help="pass `add_generation_prompt=True`",
            claim=claim,
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None or not finding.claim.is_missing:
            return None
        edit = fixes.AddArgument(finding.location, "add_generation_prompt", "True")
        return fixes.Fix.of("open the answer", edit, safe=False)


def _published_name(tokenizer: Tokenizer) -> str:
    """The name of a tokenizer's checkpoint with its owner; empty for others.

    A name without an owner is that of a folder of the script, or of an old checkpoint, which has no template.
    """
    name = text_of(tokenizer.checkpoint) or ""
    return name if "/" in name else ""


def _is_closed(written: Templated) -> bool:
    """Whether a template that can open an answer certainly leaves it out."""
    owner = written.owner
    if not isinstance(owner, Tokenizer) or "chat_template" in owner.attributes:
        return False
    name = text_of(owner.checkpoint)
    is_off = is_missing(written.adds_prompt) or literal(written.adds_prompt) is False
    return name is not None and OPENS.search(name) is not None and is_off and is_missing(written.goes_on)
