"""What lintrain says of public repositories that its authors never looked at while they wrote rules."""
