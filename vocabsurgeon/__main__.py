"""`python -m vocabsurgeon`."""

from vocabsurgeon.cli import main

if __name__ == "__main__":
    main(prog_name="vocabsurgeon")
