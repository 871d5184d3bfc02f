"""Which roles (bos, eos, …) a run gives to which tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vocabsurgeon.checkpoint.special_tokens import ROLES
from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles
from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.tokens.requests import TokenRequest


def assigned_roles(files: TokenizerFiles, requests: Sequence[TokenRequest], roles: Mapping[str, str]) -> dict[str, str]:
    """Role → content, of `roles` and of the requests that name one.

    Raises `UsageError` where a role is unknown or named for two tokens, or its token has no id.
    """
    wanted = dict(roles)
    for request in requests:
        if request.role is not None and wanted.setdefault(request.role, request.content) != request.content:
            raise UsageError(
                f"is given to both {wanted[request.role]!r} and {request.content!r}", where=f"role {request.role}"
            )
    known = {request.content for request in requests} | files.token_to_id.keys()
    known -= {request.replaces for request in requests}
    for role, content in wanted.items():
        check_role(role)
        if content not in known:
            raise UsageError(f"{content!r} is no token", where=f"role {role}", hint=f"add it with --token {content!r}")
    return wanted


def dropped_roles(files: TokenizerFiles, requests: Sequence[TokenRequest], wanted: Mapping[str, str]) -> Iterator[str]:
    """What to say of each token that loses a role to one of `wanted` (role → content)."""
    successors = {request.replaces: request.content for request in requests}
    for role, content in wanted.items():
        held = files.roles.get(role)
        if held is None or content in (held, successors.get(held)):
            continue
        if held in successors:
            yield f"the role {role} of {held!r} goes to {content!r}, not to {successors[held]!r}, which takes its id"
        else:
            number = files.token_to_id.get(held)
            yield f"{held!r} drops the role {role}, which {content!r} takes" + (
                "" if number is None else f"; it keeps its id {number}"
            )


def check_role(role: str) -> str:
    """`role` if there is such a role. Raises `UsageError`."""
    if role not in ROLES:
        raise UsageError("is no role", where=f"role {role!r}", hint=f"roles are {', '.join(ROLES)}")
    return role
