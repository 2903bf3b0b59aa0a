"""The vocabulary that every part of lintrain shares: findings, fixes, levels, verdicts, rules. Plain data."""
