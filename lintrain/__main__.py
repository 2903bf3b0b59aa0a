"""`python -m lintrain`."""

from lintrain.cli import main

if __name__ == "__main__":
    main()
