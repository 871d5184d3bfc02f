"""What tying two different tables costs, measured by running the model: probe text, table swaps, figures."""
