"""How often lintrain knows what rules ask for, over public training code."""
