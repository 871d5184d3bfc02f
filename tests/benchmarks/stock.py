"""New tokens with transformers alone: load, resize, save. A program of its own: `python stock.py CKPT OUT TOKEN…`."""

from __future__ import annotations

import sys


def extend(source: str, out: str, tokens: list[str]) -> None:
    """What transformers' documentation says to do, except that no row is cut off."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(source, dtype="auto")
    tokenizer = AutoTokenizer.from_pretrained(source)
    tokenizer.add_tokens(tokens, special_tokens=True)
    model.resize_token_embeddings(max(len(tokenizer), model.get_input_embeddings().num_embeddings))
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    extend(sys.argv[1], sys.argv[2], sys.argv[3:])
