"""What is to become of each requested token: added, replaced, promoted, there already, or refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles
from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.tokens.loaded import LoadedTokenizer
from vocabsurgeon.surgery.tokens.refusal import TokenRefusal
from vocabsurgeon.surgery.tokens.requests import TokenRequest

_EXAMPLES = 5


@dataclass(frozen=True)
class Decision:
    """A request with its id and its status (see `AssignedToken`)."""

    request: TokenRequest
    id: int
    status: str
    notes: tuple[str, ...] = ()


def decide(
    files: TokenizerFiles,
    loaded: LoadedTokenizer,
    requests: Sequence[TokenRequest],
    roles: Mapping[str, str],
    *,
    promote: bool,
) -> tuple[Decision, ...] | TokenRefusal:
    """A decision for each request, and one for each role that goes to an ordinary vocabulary entry.

    Raises `UsageError` where a token to replace is missing, a replacement is known already, two tokens that are matched
    in normalized text become one there, or two differ by white space alone.
    """
    _check_normalized(files, loaded, requests)
    _check_spaces(files, requests)
    contents = [token.content for token in files.added] + [request.content for request in requests]
    decisions: list[Decision] = []
    upcoming = files.max_id + 1
    for request in (*requests, *_implied(files, requests, roles)):
        status = _status(files, loaded, request, promote)
        if isinstance(status, TokenRefusal):
            return status
        number = upcoming if status == "added" else files.token_to_id[request.replaces or request.content]
        upcoming += status == "added"
        notes = (*_taken_roles(files, request, roles), *_notes(files, loaded, request, status, contents))
        decisions.append(Decision(request, number, status, notes))
    return tuple(decisions)


def _implied(
    files: TokenizerFiles, requests: Sequence[TokenRequest], roles: Mapping[str, str]
) -> Iterator[TokenRequest]:
    """Readers make a token with a role an added token, so an ordinary entry that gets one has to be promoted."""
    settled = {request.content for request in requests} | {token.content for token in files.added}
    for content in dict.fromkeys(roles.values()):
        if content not in settled and content not in files.specials.contents:
            yield TokenRequest(content)


def _status(files: TokenizerFiles, loaded: LoadedTokenizer, request: TokenRequest, promote: bool) -> str | TokenRefusal:
    if request.replaces is not None:
        return _replaced(files, loaded, request.content, request.replaces)
    if any(token.content == request.content for token in files.added):
        return "exists"
    if request.content in files.specials.contents and request.content in files.vocabulary:
        return "exists"  # transformers makes it an added token on loading
    if request.content not in files.vocabulary:
        return "added"
    return "promoted" if promote else _ordinary(files, request.content)


def _replaced(files: TokenizerFiles, loaded: LoadedTokenizer, new: str, old: str) -> str | TokenRefusal:
    number = files.token_to_id.get(old)
    if number is None:
        raise UsageError("cannot be replaced: the tokenizer has no such token", where=f"token {old!r}")
    if new in files.token_to_id:
        raise UsageError("cannot replace another token: it has an id already", where=f"token {new!r}")
    is_added = any(token.content == old for token in files.added)
    if not is_added and number in loaded.ids(old):
        return TokenRefusal(
            f"{old!r} is an ordinary vocabulary entry that text uses; to replace it would give old text other ids",
            old,
            hint="replace a reserved token, or add the new one with --token",
        )
    return "replaced"


def _ordinary(files: TokenizerFiles, content: str) -> TokenRefusal:
    inside = (token for token in files.vocabulary if content in token and token != content)
    words = sorted(inside, key=len)[:_EXAMPLES]
    evidence: tuple[str, ...] = (f"id {files.vocabulary[content]} is {content!r} in the model's vocabulary",)
    if words:
        evidence += (f"words that hold it, such as {', '.join(map(repr, words))}, would be split anew",)
    return TokenRefusal(
        f"{content!r} is an ordinary vocabulary entry: as an added token it would be cut out of other words",
        content,
        evidence,
        "give --promote if that is wanted, or another spelling",
    )


def _check_normalized(files: TokenizerFiles, loaded: LoadedTokenizer, requests: Sequence[TokenRequest]) -> None:
    held = {loaded.normalized(token.content): token.content for token in files.added if token.normalized}
    for request in requests:
        if not request.normalized:
            continue
        text = loaded.normalized(request.content)
        if not text.strip():
            raise UsageError("is empty once it is normalized", where=f"token {request.content!r}")
        other = held.setdefault(text, request.content)
        if other not in (request.content, request.replaces):
            raise UsageError(f"is the same as {other!r} once it is normalized", where=f"token {request.content!r}")


def _taken_roles(files: TokenizerFiles, request: TokenRequest, roles: Mapping[str, str]) -> Iterator[str]:
    """A token that replaces another takes over its roles, but for those that the run gives elsewhere."""
    for role, holder in files.roles.items():
        if holder == request.replaces and roles.get(role, request.content) == request.content:
            yield f"takes over the role {role} of {holder!r}, which is gone"


def _check_spaces(files: TokenizerFiles, requests: Sequence[TokenRequest]) -> None:
    """`' <a>'` and `'<a>'` in one tokenizer: the first is found in every text that holds the second behind a space."""
    known = {token.content for token in files.added}
    held = {content.strip(): content for content in known}
    for request in (request for request in requests if request.content not in known):
        other = held.setdefault(request.content.strip(), request.content)
        if other not in (request.content, request.replaces):
            raise UsageError(
                f"differs from the added token {other!r} by white space alone: text would hold the other one",
                where=f"token {request.content!r}",
                hint="add one of them, with lstrip or rstrip where white space belongs to it",
            )


def _notes(
    files: TokenizerFiles, loaded: LoadedTokenizer, request: TokenRequest, status: str, contents: Sequence[str]
) -> Iterator[str]:
    content = request.content
    if status == "exists":
        held = next((token for token in files.added if token.content == content), None)
        if held is not None and held.special != request.special:
            yield f"exists as {'a special' if held.special else 'an ordinary added'} token and stays one"
        return
    for other in dict.fromkeys(contents):
        if other not in (content, request.replaces) and (other in content or content in other):
            yield f"overlaps with the added token {other!r}: which one is found depends on the text"
    if not request.normalized and loaded.decoded([content]).strip() != content.strip():
        yield f"the tokenizer's decoder turns it into {loaded.decoded([content])!r}"
