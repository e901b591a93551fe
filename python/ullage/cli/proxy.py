"""`ullage proxy`: a local gateway for clients that cannot be changed."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from ullage.cli.output import Output
from ullage.exceptions import MissingExtra
from ullage.policy import Policy
from ullage.proxy.proxy_settings import ProxySettings, is_loopback
from ullage.stores import FolderStore


def proxy_command(
    *,
    upstream: str = "",
    host: str = "127.0.0.1",
    port: int = 8787,
    ca_file: Path | None = None,
    compaction: Literal["pass", "extractive", "repair"] = "extractive",
    levels: Annotated[bool, Parameter(negative="--no-levels")] = True,
    policy: Path | None = None,
    state: Path | None = None,
    keep_text: bool = False,
    keep_days: float = 30.0,
    record: Path | None = None,
    forget: bool = False,
    allow_origin: tuple[str, ...] = (),
) -> int:
    """Relay Anthropic's and OpenAI's APIs on this machine until interrupted.

    Args:
        upstream: base URL of the provider; default: Anthropic's or OpenAI's own
        host: address to listen on; anything but loopback lets other machines in
        port: port to listen on; 0: a free one
        ca_file: certificates to verify the upstream with (PEM)
        compaction: who answers when the client compacts: the provider (pass), code without a model (extractive), or the
            provider completed by code (repair)
        levels: make room in requests; without it they pass unchanged
        policy: thresholds of the levels (TOML)
        state: folder for state that survives a restart; default: ~/.ullage/proxy
        keep_text: also keep the levels' decisions there, with excerpts and summaries of conversations in plain text
        keep_days: days after which a conversation's state is removed; 0: never
        record: folder for records of what is sent, with the conversations, for ullage-check
        forget: remove the state of all conversations, and exit
        allow_origin: a site whose pages may send requests from a browser; may be repeated
    """
    out = Output(as_json=False)
    folder = state or Path.home() / ".ullage" / "proxy"
    if forget:
        from ullage.proxy.fitter import forget_all

        count = forget_all(FolderStore(folder))
        out.line(f"{count:,} conversation{'' if count == 1 else 's'} removed from {folder}")
        return 0
    try:
        from ullage.proxy.gateway import serve
    except ModuleNotFoundError as exc:
        raise MissingExtra(exc.name or "uvicorn", "proxy") from exc
    settings = ProxySettings(
        upstream=upstream,
        host=host,
        port=port,
        ca_file=ca_file,
        compaction=compaction,
        hand_over=True,
        levels=levels,
        policy=None if policy is None else Policy.load(policy),
        store=FolderStore(folder),
        keep_text=keep_text,
        state_days=keep_days,
        record=record,
        page_token="" if is_loopback(host) else secrets.token_urlsafe(24),
        allowed_origins=allow_origin,
    )
    with contextlib.suppress(KeyboardInterrupt):  # the usual end
        serve(settings, lambda url: _greet(out, url, settings.page_token))
    return 0


def _greet(out: Output, url: str, token: str) -> None:
    """In one write: whoever waits for the first line may stop the program at once."""
    lines = [
        f"listening on {url}; stop with Ctrl-C",
        f"  Claude Code   ANTHROPIC_BASE_URL={url} claude",
        f"  OpenAI SDKs   OPENAI_BASE_URL={url}/v1",
        f"  what it does  {url}/ullage{f'?token={token}' if token else ''}",
    ]
    if token:
        lines.append(
            "note: other machines can use this gateway, and with the token read what was said in it"
        )
    out.line("\n".join(lines))
