"""vocabsurgeon."""
