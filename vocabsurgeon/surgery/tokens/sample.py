"""Text on which a tokenizer's old behavior is held: many scripts, code, emoji, white space and numbers. Data only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

SAMPLE: tuple[str, ...] = (
    "The quick brown fox jumps over the lazy dog; another mother's brother wouldn't.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Ça fait déjà l'été à Noël.",
    "Съешь же ещё этих мягких французских булок. Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "我能吞下玻璃而不伤身体。私はガラスを食べられます。나는 유리를 먹을 수 있어요.",
    "أنا قادر على أكل الزجاج و هذا لا يؤلمني. אני יכול לאכול זכוכית. \u200fمرحبا\u200e 123",
    "मैं काँच खा सकता हूँ। আমি কাঁচ খেতে পারি। ฉันกินกระจกได้ მინას ვჭამ",
    "e\u0301 a\u030a\u0323 o\u0302\u0301 \u1e9b\u0323 ﬁ ½ ① Ⅷ ㎏ ﷺ \u00a0\u2003\u3000 \ufeff x\u00ady",
    "👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 👍🏽 🇩🇪🇯🇵 ❤️ 😀😀 \U0001fae8 ☺",
    'def f(x: int) -> str:\n    return f"{x!r:>10}"  # comment\n\n\tif (a && b) { c->d[0] += 1e-9; } /* \\n */',
    "for i in range(10):\r\n\tprint(i)\r\n\r\n        # eight spaces\r\n",
    " leading, trailing and   runs     of spaces \t\t tabs \n\n\n newlines   ",
    "https://user@example.com:8080/a/b?q=1&r=%20#frag C:\\Users\\x ../..//etc name@mail.org",
    "0 1 12 123 1234 12345 1,234,567.89 1e10 0x1F 3.14159 2024-02-29T12:34:56Z +49 (0)30 §5 €9.99 −7 ٣٤٥ ५",
    "<|im_start|> <s> </s> [MASK] <pad> <unk> {{ x }} <|x|> <0x0A> ▁▁ Ġ ## @@ \\u0041 \x07",
    "ALL CAPS camelCase snake_case kebab-case MiXeD x86_64 GPT4 don't I'LL we're naïve coöperate",
)
"""None of the texts is empty; some hold what other tokenizers use as markers."""
_AT_ONCE = 64


def around(tokens: Sequence[str]) -> Iterator[str]:
    """Texts with `tokens` glued to words, apart from words and next to each other, sixty-four of them in a text."""
    for start in range(0, len(tokens), _AT_ONCE):
        some = tokens[start : start + _AT_ONCE]
        yield "".join(f"word{token}word {token} " for token in some)
        yield "".join(some)
