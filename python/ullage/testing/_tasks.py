"""The kinds of work in a session. Each is a generator: a `yield` is a place where it may stop."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ullage.testing import _calls, _outputs
from ullage.testing._media import image_block, pdf_block
from ullage.testing._phrases import ANSWERS, CLOSINGS, INSTRUCTIONS, PLANS, REQUESTS
from ullage.testing._project import SourceFile
from ullage.testing._session import MadeCall, MadeSession

Task = Callable[[MadeSession], Iterator[None]]


def request(session: MadeSession, kind: str, **names: str) -> str:
    """The user's words for a kind of work, in one of the session's languages."""
    language = session.rng.pick(session.style.languages)
    known = REQUESTS[language].get(kind) or REQUESTS["en"][kind]
    text = session.rng.pick(known).format(**names)
    if names["fn"] in text:
        session.note("identifiers", names["fn"])
    if session.rng.chance(8) and not session.runner:
        instruction, session.runner = session.rng.pick(INSTRUCTIONS)
        session.note("instructions", instruction)
        text = f"{text} {instruction}"
    return text


def _target(session: MadeSession) -> tuple[SourceFile, dict[str, str]]:
    file = session.project.file(session.size())
    symbol = session.rng.pick(file.symbols)
    error = session.rng.pick(("TimeoutError", "off by one", "null region", "HTTP 502"))
    return file, {"fn": symbol, "file": file.path, "error": error, "new": session.project.symbol()}


def _look(session: MadeSession, file: SourceFile, names: dict[str, str]) -> None:
    """Find and read: at once, or one after the other."""
    search, other = _calls.grep(session, names["fn"]), session.project.file(session.size())
    reads = [_calls.read(session, file), _calls.read(session, other)]
    say = session.rng.pick(ANSWERS).format(**names)
    if session.rng.chance(session.style.parallel):
        session.act(search, *reads, say=say)
        return
    session.act(search, say=say)
    for call in reads:
        session.act(call)


def _fix(session: MadeSession) -> Iterator[None]:
    file, names = _target(session)
    session.user(request(session, "fix", **names))
    yield from _repair(session, file, names)


def _repair(session: MadeSession, file: SourceFile, names: dict[str, str]) -> Iterator[None]:
    """Look, see the test fail, change, see it pass."""
    _look(session, file, names)
    yield
    if session.rng.chance(30):
        session.act(_calls.missing(session))
        yield
    failing, error = _calls.tests(session, file, names["fn"], ok=False)
    session.act(failing, say=f"Running the tests of {names['fn']}.")
    yield
    change, what = _calls.edit(session, file, names["fn"])
    session.act(change)
    yield
    passing, _ = _calls.tests(session, file, names["fn"], ok=True)
    session.act(passing, _calls.git_diff(session, file, what))
    session.closing = session.rng.pick(CLOSINGS).format(**{**names, "error": error})


def _build(session: MadeSession) -> Iterator[None]:
    file, names = _target(session)
    session.user(request(session, "build", **names))
    session.act(_calls.glob(session), _calls.read(session, file))
    yield
    made = session.project.new_file(min(session.size(), 12_000), first=names["new"])
    session.act(_calls.write(session, made), say=f"I'll add {names['new']} in a file of its own.")
    yield
    yield from _repair(session, made, {**names, "fn": names["new"], "file": made.path})


def _explore(session: MadeSession) -> Iterator[None]:
    file, names = _target(session)
    session.user(request(session, "explore", **names))
    _look(session, file, names)
    yield
    if session.rng.chance(40):
        session.act(_calls.delegate(session, f"Find every caller of {names['fn']}"))
        yield
    cut = "\n".join(file.lines[:8])
    session.closing = (
        f"`{names['fn']}` lives in {file.path}:\n\n```\n{cut}\n```\n\nNothing was changed."
    )


def _logs(session: MadeSession) -> Iterator[None]:
    _, names = _target(session)
    session.user(request(session, "logs", **names))
    log = _outputs.service_log(session.rng, session.size())
    session.act(_calls.bash(session, "tail -n 4000 /var/log/billing.log", log))
    yield
    rows = _outputs.records(session.rng, session.size())
    url = f"https://staging.example.com/v1/invoices?tenant={session.rng.below(400)}"
    session.note("urls", url)
    session.act(_calls.bash(session, f"curl -s '{url}'", rows))
    session.closing = f"The failures of {names['fn']} begin with the connection resets in the log."


def _plan(session: MadeSession) -> Iterator[None]:
    file, names = _target(session)
    session.user(request(session, "plan", **names))
    steps = [step.format(**names) for step in session.rng.some(PLANS, 4)]
    session.act(_calls.todo(session, steps, 0))
    yield
    for done, _ in enumerate(_repair(session, file, names), start=1):
        if done < len(steps):
            session.act(_calls.todo(session, steps, done))
        yield


def _ask(session: MadeSession) -> Iterator[None]:
    file, names = _target(session)
    session.user(request(session, "ask", **names))
    session.act(_calls.read(session, file))
    yield
    options = ["cache the result for 60 seconds", "batch the calls", "leave it as it is"]
    choice, question = session.rng.pick(options), f"How should {names['fn']} become faster?"
    decision = f"{question} → {choice}"
    session.note("decisions", decision)
    answer = f"User has answered your questions: {decision}"
    session.act(MadeCall("AskUserQuestion", {"question": question, "options": options}, answer))
    yield
    yield from _repair(session, file, names)


def _research(session: MadeSession) -> Iterator[None]:
    _, names = _target(session)
    session.user(request(session, "research", **names))
    session.act(_calls.fetch(session, "Rate limits"), _calls.fetch(session, "Idempotency"))
    yield
    session.closing = (
        f"What applies to {names['fn']}: limits are per tenant, retries are idempotent."
    )


def _search(session: MadeSession) -> Iterator[None]:
    """The provider's own web search, whose blocks pair inside one response."""
    _, names = _target(session)
    session.user(request(session, "research", **names))
    name, title = f"srvtoolu_01{session.rng.token(22)}", "Rate limits"
    url = f"https://docs.example.com/{session.rng.hex(6)}"
    session.note("urls", url)
    hit = {"type": "web_search_result", "url": url, "title": title, "page_age": "3 days ago"}
    hit["encrypted_content"] = session.rng.noise(180).hex()
    use = {"type": "server_tool_use", "id": name, "name": "web_search", "input": {"query": title}}
    found = {"type": "web_search_tool_result", "tool_use_id": name, "content": [hit]}
    session.server([use, found, {"type": "text", "text": f"The limits are described at {url}."}])
    session.user("ok, and the retries?")
    session.act(_calls.fetch(session, "Retries"))
    yield
    session.closing = f"Retries of {names['fn']} repeat the key; nothing else is needed."


def _review(session: MadeSession) -> Iterator[None]:
    file, names = _target(session)
    text = {"type": "text", "text": request(session, "review", **names)}
    media = pdf_block(session.rng) if session.rng.chance(25) else image_block(session.rng)
    session.user([media, text])
    session.act(_calls.screenshot(session), _calls.read(session, file))
    yield
    yield from _repair(session, file, names)


def _chat(session: MadeSession) -> Iterator[None]:
    _, names = _target(session)
    session.user(request(session, "chat", **names))
    yield
    session.closing = _outputs.web_page(session.rng, names["fn"], min(session.size(), 3_000))


def more_work(session: MadeSession, rounds: int) -> Iterator[None]:
    """Look-ups after the task (`rounds` 0: without end), for a turn that is to be longer."""
    while rounds != 1:
        rounds -= 1
        file, names = _target(session)
        _look(session, file, names)
        yield
        if session.rng.chance(session.style.interrupts):
            _interrupted(session)
            yield
        log = _outputs.install_log(session.rng, session.runner or "npm", min(session.size(), 6_000))
        session.act(_calls.bash(session, "install", log), _calls.grep(session, names["fn"]))
        yield
        page = _outputs.service_log(session.rng, session.size())
        session.act(_calls.bash(session, f"tail -n 900 /var/log/{names['fn']}.log", page))
        yield


def _interrupted(session: MadeSession) -> None:
    """The user stops a call and says what to do instead."""
    words = "The user doesn't want to proceed with this tool use."
    call: MadeCall = MadeCall("Bash", {"command": "git push --force"}, words, failed=True)
    ids = session.call(call)
    session.answer(ids, [call], after="stop, never force-push. Go on without it.")
    session.note("instructions", "never force-push")


TASKS: dict[str, Task] = {
    "ask": _ask,
    "build": _build,
    "chat": _chat,
    "explore": _explore,
    "fix": _fix,
    "logs": _logs,
    "plan": _plan,
    "research": _research,
    "review": _review,
    "search": _search,
}
