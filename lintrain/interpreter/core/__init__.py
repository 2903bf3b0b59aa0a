"""The core of the interpreter: the state of one reading, and what is done to code and values, over tables."""
