"""`LoadedTokenizer`: a tokenizer.json run by the `tokenizers` library. The only place where the library is imported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vocabsurgeon.checkpoint.vocabulary_files import FAST
from vocabsurgeon.errors import TokenizerError


class LoadedTokenizer:
    """A tokenizer without truncation and padding. It takes ten times the memory of its file: keep one at a time."""

    def __init__(self, raw: bytes, where: str = FAST) -> None:
        """Raises `TokenizerError` with the library's own words where it does not take the file."""
        from tokenizers import Tokenizer

        try:
            self._inner: Any = Tokenizer.from_buffer(raw)
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise TokenizerError(f"the tokenizers library does not load it: {error}", where=where) from error
        self._inner.no_truncation()
        self._inner.no_padding()

    def ids(self, text: str) -> tuple[int, ...]:
        """The ids of `text`, without the special tokens that a post-processor adds. Raises `TokenizerError`."""
        try:
            return tuple(self._inner.encode(text, add_special_tokens=False).ids)
        except Exception as error:  # the library raises bare Exception, say for an unk_token outside the vocabulary
            hint = "repair the tokenizer first"
            raise TokenizerError(
                f"the tokenizers library cannot encode text: {error}", where=FAST, hint=hint
            ) from error

    def ids_as_text(self, text: str) -> tuple[int, ...]:
        """The ids of `text` with special tokens in it read as plain text."""
        self._inner.encode_special_tokens = True
        try:
            return self.ids(text)
        finally:
            self._inner.encode_special_tokens = False

    def token(self, number: int) -> str | None:
        """The token of id `number`, None where the id is none."""
        token: str | None = self._inner.id_to_token(number)
        return token

    def id(self, token: str) -> int | None:
        """The id of `token`, None where it is unknown."""
        number: int | None = self._inner.token_to_id(token)
        return number

    def normalized(self, text: str) -> str:
        """`text` as the tokenizer's normalizer leaves it."""
        normalizer = self._inner.normalizer
        return text if normalizer is None else str(normalizer.normalize_str(text))

    def decoded(self, tokens: Sequence[str]) -> str:
        """The text that the tokenizer's decoder makes of `tokens`."""
        decoder = self._inner.decoder
        return " ".join(tokens) if decoder is None else str(decoder.decode(list(tokens)))
