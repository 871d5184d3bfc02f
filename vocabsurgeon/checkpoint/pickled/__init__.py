"""`pytorch_model.bin` without executing it: the pickle inside is parsed as data, and says where each tensor lies."""
