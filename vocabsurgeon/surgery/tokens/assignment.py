"""`assign`: requested tokens → ids, pieces and roles, decided on the source's tokenizer. Nothing is written here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles, unmeasured
from vocabsurgeon.checkpoint.vocabulary_files import FAST
from vocabsurgeon.errors import TokenizerError
from vocabsurgeon.surgery.tokens.in_model import tokens_in_model
from vocabsurgeon.surgery.tokens.loaded import LoadedTokenizer
from vocabsurgeon.surgery.tokens.refusal import TokenRefusal
from vocabsurgeon.surgery.tokens.regression import Baseline, baseline
from vocabsurgeon.surgery.tokens.requests import TokenRequest, distinct_requests
from vocabsurgeon.surgery.tokens.roles import assigned_roles, dropped_roles
from vocabsurgeon.surgery.tokens.slow import RootedFolder, converted
from vocabsurgeon.surgery.tokens.status import Decision, decide


@dataclass(frozen=True)
class AssignedToken:
    """A requested token and what became of it.

    `status`: `added` (a new id), `replaced` (the id of another token), `promoted` (an ordinary vocabulary entry that
    becomes an added token) or `exists` (nothing to do). `pieces`: the source's ids of its text, unknown ones dropped,
    repeats kept; empty where no row is written. `piece_tokens`: the same as strings.
    """

    content: str
    id: int
    status: str
    pieces: tuple[int, ...]
    piece_tokens: tuple[str, ...]
    request: TokenRequest
    notes: tuple[str, ...] = ()

    @property
    def is_new(self) -> bool:
        """Whether its row is to be written."""
        return self.status in ("added", "replaced")


@dataclass(frozen=True)
class Assignment:
    """The tokens with their ids, and the roles (`eos`, …) to give.

    `files`: the source's tokenizer, converted where it had no tokenizer.json; None where nothing was asked and there is
    none. `in_model`: the contents that must also enter the model's vocabulary to get their ids. `baseline`: what the
    source's tokenizer does to old text.
    """

    files: TokenizerFiles | None
    tokens: tuple[AssignedToken, ...] = ()
    roles: Mapping[str, str] = field(default_factory=dict)
    in_model: tuple[str, ...] = ()
    baseline: Baseline | None = None
    notes: tuple[str, ...] = ()
    pieces_by_id: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def role_ids(self) -> Mapping[str, int]:
        """Role → id of the token it is given."""
        known = {token.content: token.id for token in self.tokens}
        held = self.files.token_to_id if self.files else {}
        return {role: known.get(content, held.get(content, -1)) for role, content in self.roles.items()}

    def pieces_of(self, number: int) -> tuple[int, ...]:
        """The pieces of the text of an old added token outside the model's vocabulary; empty for any other id."""
        return self.pieces_by_id.get(number, ())


def assign(
    folder: RootedFolder,
    files: TokenizerFiles | None,
    requests: Sequence[TokenRequest],
    *,
    roles: Mapping[str, str] | None = None,
    promote: bool = False,
) -> Assignment | TokenRefusal:
    """An id for each request: the next ones behind the highest id of the tokenizer, in order; holes are never filled.

    Requests that are the same count once. The source's tokenizer is loaded once, for the pieces and for the baseline of
    the proof. Raises `UsageError` where a token or a role makes no sense, `TokenizerError` where the files are missing,
    damaged or contradict each other.
    """
    requests = distinct_requests(requests)
    if not requests and not roles:
        return Assignment(files)
    ready = _ready(folder, files)
    if isinstance(ready, TokenRefusal):
        return ready
    loaded = LoadedTokenizer(ready.documents[FAST].raw)
    wanted = assigned_roles(ready, requests, roles or {})
    decisions = decide(ready, loaded, requests, wanted, promote=promote)
    if isinstance(decisions, TokenRefusal):
        return decisions
    in_model = _nameless(ready, decisions) or tokens_in_model(ready, decisions)
    if isinstance(in_model, TokenRefusal):
        return in_model
    tokens = tuple(_assigned(decision, loaded, ready.unknown_id) for decision in decisions)
    notes = ("the tokenizer had no tokenizer.json; one was made from its files",) if files is not ready else ()
    notes = (*notes, *dropped_roles(ready, requests, wanted))
    return Assignment(ready, tokens, wanted, in_model, baseline(ready, loaded), notes, _texts_of_added(ready, loaded))


def _ready(folder: RootedFolder, files: TokenizerFiles | None) -> TokenizerFiles | TokenRefusal:
    """The files with a tokenizer.json and ids that can be trusted."""
    if files is None:
        if reason := unmeasured(folder):
            hint = "save it once as tokenizer.json (AutoTokenizer.from_pretrained(...).save_pretrained(...))"
            raise TokenizerError(f"the ids are not known: {reason}", hint=hint)
        hint = "copy the tokenizer's files into the checkpoint's folder"
        raise TokenizerError("the checkpoint has no tokenizer that can be read", hint=hint)
    ready = converted(folder, files) if files.slow_only else files
    if isinstance(ready, TokenRefusal):
        return ready
    if ready.faults:
        raise TokenizerError(ready.faults[0], hint="repair the tokenizer first")
    return ready


def _nameless(files: TokenizerFiles, decisions: Sequence[Decision]) -> TokenRefusal | None:
    """Readers give a special token without an id the next free one, which a new token would take."""
    added = {decision.request.content for decision in decisions if decision.status == "added"}
    for content in files.specials.contents if added else ():
        if content not in files.token_to_id and content not in added:
            reason = f"{content!r} is named as a special token but has no id: readers give it the one a new token takes"
            return TokenRefusal(reason, content, hint=f"add it in the same run (--token {content!r})")
    return None


def _assigned(decision: Decision, loaded: LoadedTokenizer, unknown: int | None) -> AssignedToken:
    request = decision.request
    if decision.status not in ("added", "replaced"):
        return AssignedToken(request.content, decision.id, decision.status, (), (), request, decision.notes)
    found = loaded.ids(request.describe if request.describe is not None else request.content)
    pieces = tuple(number for number in found if number != unknown)
    names = tuple(loaded.token(number) or "" for number in pieces)
    notes = decision.notes if pieces else (*decision.notes, "no known piece in its text")
    return AssignedToken(request.content, decision.id, decision.status, pieces, names, request, notes)


def _texts_of_added(files: TokenizerFiles, loaded: LoadedTokenizer) -> dict[int, tuple[int, ...]]:
    outside = [token for token in files.added if token.content not in files.vocabulary]
    unknown = files.unknown_id
    return {
        token.id: tuple(piece for piece in loaded.ids_as_text(token.content) if piece not in (unknown, token.id))
        for token in outside[-_MOST_TEXTS:]
    }


_MOST_TEXTS = 4096
