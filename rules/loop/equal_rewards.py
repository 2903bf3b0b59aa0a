"""All completions get the same reward.

GRPO and RLOO compare the completions of one prompt: what a completion got more than the others is its advantage. If all
have the same reward, all advantages are 0, the loss has no gradient, and no weight changes. Most often the reward looks
for a form that the model does not write yet, or it is given messages where it expects a text. No error is raised, and
the loss of a correct run is near 0 as well.

## Bad

    def reward(completions, **kwargs):
        return [1.0 if "<answer>" in each else 0.0 for each in completions]

    prompts = Dataset.from_dict({"prompt": ["a", "b", "c", "d"] * 4})
    args = trl.GRPOConfig("out", per_device_train_batch_size=4, num_generations=4, max_completion_length=8)
    trainer = trl.GRPOTrainer("gpt2", reward, args, train_dataset=prompts)  # <- equal-rewards
    trainer.train()

## Good

A reward with steps in between:

    def reward(completions, **kwargs):
        return [("<answer>" in each) + 0.01 * len(set(each)) for each in completions]

    prompts = Dataset.from_dict({"prompt": ["a", "b", "c", "d"] * 4})
    args = trl.GRPOConfig("out", per_device_train_batch_size=4, num_generations=4, max_completion_length=8)
    trainer = trl.GRPOTrainer("gpt2", reward, args, train_dataset=prompts)
    trainer.train()

## When it is fine

A hard task whose first success is rare begins like this. Then the rewards of more prompts say more: give the probe a
larger batch, or look at `frac_reward_zero_std` in the log of the run.

## Fix

None: what a completion deserves is up to its author.

## References

Shao and others, "DeepSeekMath", 2024, section 4.1; TRL documentation, "GRPO Trainer", logged metrics.
"""

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Verdict

FEWEST = 8
"""Completions from which on equal rewards are no chance."""


class EqualRewards(EvidenceRule):
    level = Level.WARNING
    message = "all completions get the same reward, so nothing is learned from them"
    help_text = "print a few completions with their rewards, and reward steps towards the goal too"

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        rewards = evidence.rewards
        if rewards is None:
            return Verdict.inconclusive(evidence.not_reached("backward"))
        are_equal = not any(rewards.spreads) and len(set(rewards.means)) == 1
        if not are_equal:
            least, most = min(rewards.means), max(rewards.means)
            text = f"the mean reward of a batch is from {least:.3g} to {most:.3g}, and rewards of one batch differ"
            return Verdict.refuted(text, completions=rewards.completions)
        text = f"the reward of all {rewards.completions} completions is {rewards.means[0]:.3g}"
        if rewards.completions < FEWEST:
            return Verdict.inconclusive(text)
        return Verdict.confirmed(text, completions=rewards.completions)
