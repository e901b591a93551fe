"""What comes into a manager is taken whole or refused at once: forms, tools, arguments (IN-1)."""

from __future__ import annotations

import json
from typing import Any

import pytest

import ullage
from tests.oracle.checker import check
from ullage import ContextManager, InvalidMessage, InvalidPolicy, compact, estimate_tokens
from ullage.recall import RECALL_TOOL

SCHEMA = {"type": "object", "properties": {"max_lines": {"type": "integer"}}}
FUNCTION = {"name": "read", "description": "Reads a file.", "parameters": SCHEMA}
TOOLS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"name": "read", "description": "Reads a file.", "input_schema": SCHEMA},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        {"type": "mcp_toolset", "mcp_server_name": "files"},
        {"type": "tool_search_tool_bm25", "name": "tool_search_tool_bm25"},
    ],
    "openai_chat": [
        {"type": "function", "function": FUNCTION},
        {"type": "function", "function": {"name": "now"}},
        {"type": "custom", "custom": {"name": "sql", "format": {"type": "text"}}},
        {"type": "browser_search"},
    ],
    "openai_responses": [
        {"type": "function", **FUNCTION, "strict": None},
        {"type": "web_search"},
        {"type": "web_search_preview_2025_03_11", "search_context_size": "low"},
        {"type": "mcp", "server_label": "files", "server_url": "https://mcp.example.com"},
        {"type": "custom", "name": "sql", "format": {"type": "text"}},
        {"type": "local_shell"},
    ],
    "gemini": [
        {"functionDeclarations": [FUNCTION, {"name": "now"}]},
        {"googleSearch": {}},
        {"codeExecution": {}},
    ],
    "bedrock": [
        {
            "toolSpec": {
                "name": "read",
                "description": "Reads a file.",
                "inputSchema": {"json": SCHEMA},
            }
        },
        {"cachePoint": {"type": "default"}},
        {"systemTool": {"name": "nova_grounding"}},
    ],
    "mistral": [{"type": "function", "function": FUNCTION}],
}
MODELS = {
    "anthropic": "claude-opus-4-5",
    "openai_chat": "gpt-5.4",
    "openai_responses": "gpt-5.4",
    "gemini": "gemini-2.5-pro",
    "bedrock": "anthropic.claude-opus-4-5-20251101-v1:0",
    "mistral": "mistral-large-latest",
}
HELLO = {"role": "user", "content": "hello"}


def sent_tools(manager: ContextManager) -> Any:
    manager.add(HELLO)
    body = manager.prepare().body
    assert manager.prepare().losses == ()
    return body["toolConfig"]["tools"] if "toolConfig" in body else body["tools"]


@pytest.mark.parametrize("provider", TOOLS)
def test_tools_in_the_providers_own_form_go_through_as_they_are(provider):
    manager = ContextManager(model=MODELS[provider], provider=provider, tools=TOOLS[provider])
    assert sent_tools(manager) == TOOLS[provider]
    assert "read" in manager.machine.tools


@pytest.mark.parametrize("provider", [each for each in TOOLS if each != "anthropic"])
def test_tools_that_show_their_form_decide_it(provider):
    if provider == "mistral":
        pytest.skip("its form of tools is OpenAI's")
    manager = ContextManager(model="claude-opus-4-5", tools=TOOLS[provider])
    manager.add(HELLO)
    assert manager.prepare().provider == provider


@pytest.mark.parametrize("provider", TOOLS)
def test_a_tool_in_anthropics_form_goes_to_every_provider(provider):
    own = RECALL_TOOL.definition()
    manager = ContextManager(
        model=MODELS[provider], provider=provider, tools=[*TOOLS[provider], own]
    )
    assert '"recall"' in json.dumps(sent_tools(manager))


@pytest.mark.parametrize("tools", TOOLS)
@pytest.mark.parametrize("provider", TOOLS)
def test_a_tool_that_cannot_be_sent_is_an_error_when_the_manager_is_made(provider, tools):
    chats = ("openai_chat", "mistral")
    for at, tool in enumerate(TOOLS[tools]):
        if provider == tools or "input_schema" in tool or {provider, tools} <= set(chats):
            continue
        # Servers that speak Chat Completions have typed tools of their own, as Responses has.
        typed = isinstance(tool.get("type"), str) and not isinstance(tool.get(tool["type"]), dict)
        shared = tools.startswith("openai") and provider in (*chats, "openai_responses")
        if shared and typed and tool["type"] not in ("function", "custom"):
            continue
        with pytest.raises(InvalidPolicy, match=r"tools\[1\]") as refused:
            ContextManager(model=MODELS[provider], provider=provider, tools=[_OWN, tool])
        assert f"cannot be sent to {provider}" in str(refused.value), at
        assert "provider=" in refused.value.hint


_OWN = {"name": "own", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    "tools", [5, "read", {"name": "read", "input_schema": SCHEMA}, ["read"], [print], [FUNCTION]]
)
@pytest.mark.parametrize("provider", TOOLS)
def test_what_is_no_tool_at_all_is_refused(provider, tools):
    with pytest.raises(InvalidPolicy, match="tools"):
        ContextManager(model=MODELS[provider], provider=provider, tools=tools)


def test_objects_of_googles_sdk_are_tools():
    types = pytest.importorskip("google.genai").types
    schema = types.Schema(
        type="OBJECT",
        properties={
            "max_lines": types.Schema(type="INTEGER", any_of=[types.Schema(type="STRING")])
        },
    )
    declared = types.FunctionDeclaration(name="read", description="Reads.", parameters=schema)
    tools = [
        types.Tool(function_declarations=[declared]),
        types.Tool(google_search=types.GoogleSearch()),
    ]
    for given in (tools, [tool.model_dump() for tool in tools]):
        manager = ContextManager(model="gemini-2.5-pro", tools=given, system="Be brief.")
        sent = sent_tools(manager)
        assert list(sent[0]["functionDeclarations"][0]["parameters"]["properties"]) == ["max_lines"]
        assert [types.Tool.model_validate(tool) for tool in sent] == tools
        assert manager.machine.tools == {"read", "googleSearch"}


def test_declarations_next_to_another_tool_in_one_object_are_both_sent():
    tool = {"functionDeclarations": [FUNCTION], "googleSearch": {}}
    manager = ContextManager(model="gemini-2.5-pro", provider="gemini", tools=[tool])
    assert sent_tools(manager) == [{"functionDeclarations": [FUNCTION]}, {"googleSearch": {}}]


def test_without_tools_no_list_of_tools_is_sent():
    for provider in MODELS:
        manager = ContextManager(model=MODELS[provider], provider=provider)
        manager.add(HELLO)
        assert not {"tools", "toolConfig"} & set(manager.prepare().body)


def test_converse_gets_its_stand_ins_with_the_first_call_and_with_each_new_one():
    manager = ContextManager(model=MODELS["bedrock"], provider="bedrock")
    manager.add(HELLO)
    manager.prepare()
    for at, name in enumerate(("read", "write", "read")):
        call = {"toolUseId": f"t{at}", "name": name, "input": {}}
        manager.observe({"role": "assistant", "content": [{"toolUse": call}]})
        result = {"toolUseId": f"t{at}", "content": [{"text": "ok"}]}
        manager.add({"role": "user", "content": [{"toolResult": result}]})
        tools = manager.prepare().body["toolConfig"]["tools"]
        assert {each["toolSpec"]["name"] for each in tools} == {"read", "write"} if at else {"read"}


# ---- the form of the messages -----------------------------------------------------------------

CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
TALKS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "row 1"}]},
    ],
    "openai_chat": [
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": "row 1"},
    ],
    "openai_responses": [
        {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "row 1"},
    ],
    "gemini": [
        {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"output": "row 1"}}}]},
    ],
    "bedrock": [
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t1", "name": "read", "input": {}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "t1", "content": [{"text": "row 1"}]}}]},
    ],
}  # fmt: skip
SIGNED = ', "thoughtSignature": "skip_thought_signature_validator"'
"""What Gemini 3 wants with a call that another model made."""

LISTS = {"gemini": "contents", "openai_responses": "input"}


@pytest.mark.parametrize("whole_list", [False, True], ids=["add", "view"])
@pytest.mark.parametrize("model", ["gpt-5.4", "claude-opus-4-5", "gemini-2.5-pro", "my-model"])
@pytest.mark.parametrize("form", TALKS)
@pytest.mark.filterwarnings("ignore::ullage.counting.models.UnknownModelWarning")
def test_without_a_provider_the_first_messages_say_the_form(form, model, whole_list):
    manager = ContextManager(model=model, system="Be brief.")
    talk = [HELLO, *TALKS[form]]
    if form in ("gemini", "bedrock"):
        key = "parts" if form == "gemini" else "content"
        talk[0] = {"role": "user", key: [{"text": "hello"}]}
    if whole_list:
        view = json.dumps(manager.view(talk).messages)
        assert view.replace(SIGNED, "") == json.dumps(talk)
    else:
        manager.add(talk[0])
        manager.prepare()
        manager.observe(talk[1])
        manager.add(talk[2])
    request = manager.prepare()
    assert request.provider == form
    assert request.messages is request.body[LISTS.get(form, "messages")]
    text = json.dumps(request.messages)
    assert "read" in text
    assert "row 1" in text
    assert "left out" not in text
    assert "interrupted" not in text
    found = check(form, {"model": model, "max_tokens": 10, **request.body}, window=0)
    assert [each for each in found if each.severity == "error"] == []


@pytest.mark.parametrize("journal", [False, True])
@pytest.mark.parametrize("form", TALKS)
@pytest.mark.parametrize("provider", TALKS)
def test_messages_in_another_form_are_an_error_that_names_the_provider(
    provider, form, journal, tmp_path
):
    if form in (provider, "anthropic"):
        return  # the internal view is Anthropic's form: every manager reads it
    log = tmp_path / "log.jsonl" if journal else None
    manager = ContextManager(model=MODELS[provider], provider=provider, log=log)
    manager.add(HELLO)
    before = json.dumps(manager.prepare().body)
    for give in (manager.add, manager.observe, lambda item: manager.view([HELLO, item])):
        with pytest.raises(InvalidMessage, match=f"in the form of {form}") as refused:
            give(TALKS[form][0])
        assert f"provider='{form}'" in refused.value.hint
    assert json.dumps(manager.prepare().body) == before
    assert len(manager.history) == 1
    manager.close()


@pytest.mark.parametrize("provider", TALKS)
def test_every_manager_reads_the_internal_view_and_loses_nothing(provider):
    manager = ContextManager(model=MODELS[provider], provider=provider)
    for message in (HELLO, *TALKS["anthropic"]):
        manager.add(message)
    request = manager.prepare()
    text = json.dumps(request.body)
    assert request.losses == ()
    assert "read" in text
    assert "row 1" in text


def test_once_the_form_is_known_another_one_is_an_error():
    manager = ContextManager(model="gpt-5.4")
    for message in (HELLO, *TALKS["openai_chat"]):
        manager.add(message)
    with pytest.raises(InvalidMessage, match="in the form of gemini"):
        manager.add(TALKS["gemini"][0])
    assert manager.fork().prepare().provider == "openai_chat"
    saved = manager.save(history=True)
    assert ContextManager.restore(saved).prepare().body == manager.prepare().body


def test_plain_messages_with_calls_show_the_form_too():
    manager = ContextManager(model="claude-opus-4-5")
    for message in (HELLO, *TALKS["anthropic"]):
        manager.add(message)
        manager.prepare()
    with pytest.raises(InvalidMessage, match="in the form of openai_chat"):
        manager.add(TALKS["openai_chat"][0])
    assert manager.prepare().provider == "anthropic"


@pytest.mark.parametrize(
    ("model", "form"),
    [
        ("claude-opus-4-5", "anthropic"),
        ("gpt-5.4", "openai_chat"),
        ("gemini-2.5-pro", "gemini"),
        ("models/gemini-2.5-pro", "gemini"),
        ("mistral-large-latest", "mistral"),
        ("anthropic/claude-opus-4-5", "openai_chat"),
        ("openrouter/google/gemini-2.5-pro", "openai_chat"),
        ("us.anthropic.claude-opus-4-5-20251101-v1:0", "anthropic"),
    ],
)
def test_until_a_message_shows_the_form_it_is_the_models_usual_one(model, form):
    manager = ContextManager(model=model, system="Be brief.")
    manager.add(HELLO)
    assert manager.prepare().provider == form


def test_litellms_names_need_no_provider():
    manager = ContextManager(model="anthropic/claude-opus-4-5", system="Be brief.")
    manager.add(HELLO)
    assert manager.prepare().messages[0] == {"role": "system", "content": "Be brief."}
    usage = {"prompt_tokens": 900, "completion_tokens": 5}
    answer = {"id": "c1", "choices": [{"message": TALKS["openai_chat"][0]}], "usage": usage}
    manager.observe(answer)
    manager.add(TALKS["openai_chat"][1])
    assert manager.prepare().messages[2:] == TALKS["openai_chat"]


def test_a_log_keeps_the_form_that_the_messages_showed(tmp_path):
    path = tmp_path / "log.jsonl"
    with ContextManager(model="gpt-5.4", log=path) as manager:
        for message in (HELLO, *TALKS["openai_responses"]):
            manager.add(message)
        body = manager.prepare().body
    with ContextManager.resume(path) as resumed:
        assert resumed.prepare().body == body


# ---- arguments and messages of a wrong type ---------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("model", None, "claude-opus-4-5"),
        ("model", 5, "claude-opus-4-5"),
        ("table", "nope.toml", "ModelTable.load"),
        ("store", "offloaded", "FileStore"),
        ("settings", {"reactive_only": True}, "WindowSettings"),
        ("system", 5, ""),
        ("clock", 5, ""),
        ("redact", "secrets", ""),
        ("listeners", print, ""),
        ("listeners", ["print"], ""),
        ("hooks", "pre_compact", ""),
        ("context_management", "clear", ""),
        ("template", 5, ""),
        ("session_id", 5, ""),
        ("cwd", 5, ""),
        ("source", 5, ""),
        ("provider", 5, ""),
        ("policy", 5, ""),
        ("summarizer", 5, ""),
        ("keep", "much", ""),
        ("thinking", "enabled", ""),
        ("context_window", "32k", ""),
        ("max_output_tokens", "32k", ""),
        ("levels", 5, ""),
        ("memory", 5, ""),
        ("providers", 5, ""),
        ("log", 5, ""),
    ],
)
def test_an_argument_of_a_wrong_type_is_named(name, value, hint):
    with pytest.raises(InvalidPolicy) as refused:
        ContextManager(**{"model": "claude-opus-4-5", name: value})
    assert name in str(refused.value)
    assert hint in refused.value.hint


@pytest.mark.parametrize("provider", [None, *TALKS])
@pytest.mark.parametrize("message", [{"role": "user"}, {"role": "user", "contents": "hello"}])
def test_a_message_without_content_is_refused(provider, message):
    manager = ContextManager(model="claude-opus-4-5", provider=provider)
    with pytest.raises(InvalidMessage, match="content: is missing"):
        manager.add(message)
    assert len(manager.history) == 0


@pytest.mark.parametrize("given", [None, 5, "hello", {"role": "user", "content": "hi"}, [5]])
@pytest.mark.parametrize("function", [compact, estimate_tokens, ullage.keep_window])
def test_what_is_no_list_of_messages_is_refused(function, given):
    with pytest.raises(InvalidMessage, match="must be"):
        function(given)


@pytest.mark.parametrize("wrong", [5, None, "hello", ["a"]], ids=repr)
@pytest.mark.parametrize("provider", ["anthropic", "openai_responses"])
def test_a_list_with_something_that_is_no_message_is_refused(provider, wrong):
    manager = ContextManager(model="claude-opus-4-5", provider=provider)
    with pytest.raises(InvalidMessage, match="must be a mapping"):
        manager.view([HELLO, wrong])


def test_a_list_of_a_converse_manager_may_end_in_the_internal_view():
    manager = ContextManager(model="claude-opus-4-5", provider="bedrock")
    assert manager.view([HELLO]).messages == [{"role": "user", "content": [{"text": "hello"}]}]


def test_a_message_that_holds_itself_is_refused():
    message: dict[str, Any] = {"role": "user", "content": "hi"}
    message["extra"] = {"message": message}
    with pytest.raises(InvalidMessage, match="nested too deeply"):
        ContextManager(model="gpt-5", provider="openai_chat").add(message)


@pytest.mark.parametrize("calls", [3, 2.5, "x", ["x"]], ids=repr)
def test_calls_that_are_no_list_cost_no_request(calls):
    manager = ContextManager(model="gpt-5", provider="openai_chat")
    manager.add({"role": "user", "content": "hi", "tool_calls": calls})
    assert check("openai_chat", {"model": "gpt-5", **manager.prepare().body}) == []


def test_a_number_that_a_cache_key_cannot_hold_costs_no_request():
    manager = ContextManager(model="gpt-5", provider="openai_chat")
    manager.add({"role": "user", "content": "word " * 5000, "extra": 1 << 64})
    assert "prompt_cache_key" in manager.prepare().body


def test_a_typo_in_a_models_name_is_shown():
    with pytest.warns(UserWarning, match="did you mean 'claude-opus-4-5'"):
        compact([HELLO], model="claud-opus-4-5")


def test_a_star_import_brings_the_public_names():
    names: dict[str, object] = {}
    exec("from ullage import *", names)
    assert {"ContextManager", "compact", "UllageError"} <= set(names)
    assert set(ullage.__all__) == {name for name in names if not name.startswith("__")}
