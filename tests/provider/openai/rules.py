"""What the Chat Completions endpoint refuses.

The sentences are OpenAI's where it refuses the thing itself. Where only some servers behind this format do (vLLM,
llama.cpp, Mistral: order of roles, arguments that are not JSON), or where it is this fake that is strict (repeated ids,
empty messages), the sentence is theirs or in their style.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from tests.provider.dialect import TOOL_NAME
from tests.provider.images import check_images
from tests.provider.openai.insistence import check_insistence
from tests.provider.openai.reading import SYSTEM_ROLES, calls_of, function_of, text_of
from tests.provider.records import JSON, Refused, Rule
from tests.provider.settings import Settings
from tests.provider.thinking import SealBook

ROLES = ("system", "assistant", "user", "function", "tool", "developer")
PART_TYPES = ("text", "image_url", "input_audio", "refusal", "audio", "file")
MAX_CALL_ID = 40
"""OpenAI's limit on the length of a tool call's id."""


def check(body: JSON, headers: dict[str, str], settings: Settings, seals: SealBook) -> None:
    """Raises `Refused` for the first thing that is wrong with the request."""
    _check_endpoint(body, settings)
    _check_parameters(body, settings)
    _check_tools(body.get("tools"))
    messages = _messages(body)
    for at, message in enumerate(messages):
        _check_message(f"messages[{at}]", message)
    check_images(body, settings, "openai")
    _check_pairs(messages)
    _check_order(messages)
    check_insistence(str(body["model"]), messages, settings.insists, seals)


def _check_endpoint(body: JSON, settings: Settings) -> None:
    """Models that are for the Responses endpoint, wholly or as far as tools go."""
    model = str(body.get("model"))
    if model in settings.responses_only:
        message = (
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Did you mean to use"
            " v1/completions?"
        )
        raise Refused("parameter", message, status=404, param="model")
    if model in settings.tools_on_responses and body.get("tools") and body.get("reasoning_effort") != "none":
        message = (
            f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. To use"
            " function tools, use /v1/responses or set reasoning_effort to 'none'."
        )
        raise Refused("parameter", message, "reasoning_effort")


def _check_parameters(body: JSON, settings: Settings) -> None:
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refused("shape", "you must provide a model parameter")
    if "max_tokens" in body and "max_completion_tokens" in body:
        message = "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported."
        raise Refused("shape", message, "max_tokens", "invalid_parameter_combination")
    for name in sorted(settings.refused_parameters & body.keys()):
        raise _unsupported(name, body[name])
    effort = body.get("reasoning_effort")
    if effort is not None and settings.efforts is not None and effort not in settings.efforts:
        raise _unsupported_effort(effort, settings.efforts)
    if not isinstance(body.get("stream_options", {}), dict | None):
        raise Refused("shape", "Invalid type for 'stream_options': expected an object.", "stream_options")
    if body.get("stream_options") is not None and not body.get("stream"):
        message = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        raise Refused("shape", message, "stream_options")


def _unsupported_effort(effort: object, accepted: Collection[str]) -> Refused:
    """As OpenAI words it, which lists what the model takes."""
    values = ", ".join(f"'{value}'" for value in sorted(accepted))
    message = (
        f"Unsupported value: 'reasoning_effort' does not support '{effort}' with this model. Supported values are:"
        f" {values}."
    )
    return Refused("parameter", message, "reasoning_effort", "unsupported_value")


def _unsupported(name: str, value: object) -> Refused:
    if name == "temperature":
        message = (
            f"Unsupported value: 'temperature' does not support {value} with this model."
            " Only the default (1) value is supported."
        )
        return Refused("parameter", message, name, "unsupported_value")
    instead = " Use 'max_completion_tokens' instead." if name == "max_tokens" else ""
    message = f"Unsupported parameter: '{name}' is not supported with this model.{instead}"
    return Refused("parameter", message, name, "unsupported_parameter")


def _empty_array(rule: Rule, where: str) -> Refused:
    message = (
        f"Invalid '{where}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    )
    return Refused(rule, message, where, "empty_array")


def _check_tools(tools: Any) -> None:
    if tools is None:
        return
    if not isinstance(tools, list):
        raise Refused("tools", "Invalid type for 'tools': expected an array of objects.", "tools", "invalid_type")
    if not tools:
        raise _empty_array("tools", "tools")
    for at, tool in enumerate(tools):
        _check_tool(f"tools[{at}]", tool)
    twice = [name for name, n in Counter(function_of(tool).get("name") for tool in tools).items() if n > 1]
    if twice:
        raise Refused("tools", f"Invalid 'tools': the function name '{twice[0]}' is not unique.", "tools")


def _check_tool(where: str, tool: Any) -> None:
    if not isinstance(tool, dict) or tool.get("type") != "function" or not function_of(tool):
        raise Refused("tools", f"Missing required parameter: '{where}.function'.", where, "missing_required_parameter")
    function = function_of(tool)
    _check_name("tools", f"{where}.function.name", function.get("name"))
    schema = function.get("parameters")
    kind = schema.get("type") if isinstance(schema, dict) else None
    if kind != "object":
        message = (
            f"Invalid schema for function '{function['name']}': schema must be a JSON Schema of 'type: \"object\"',"
            f" got 'type: \"{kind}\"'."
        )
        raise Refused("tools", message, f"{where}.function.parameters", "invalid_function_parameters")


def _check_name(rule: Rule, where: str, name: Any) -> None:
    if isinstance(name, str) and len(name) > 64:
        message = (
            f"Invalid '{where}': string too long. Expected a string with maximum length 64,"
            f" but got a string with length {len(name)} instead."
        )
        raise Refused(rule, message, where, "string_above_max_length")
    if not isinstance(name, str) or not TOOL_NAME.fullmatch(name):
        message = (
            f"Invalid '{where}': string does not match pattern."
            " Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        )
        raise Refused(rule, message, where, "invalid_value")


def _messages(body: JSON) -> list[JSON]:
    messages = body.get("messages")
    if messages is None:
        raise Refused("shape", "Missing required parameter: 'messages'.", "messages", "missing_required_parameter")
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        message = "Invalid type for 'messages': expected an array of objects."
        raise Refused("shape", message, "messages", "invalid_type")
    if not messages:
        raise _empty_array("empty", "messages")
    return messages


def _check_message(where: str, message: JSON) -> None:
    role = message.get("role")
    if role not in ROLES:
        sentence = (
            f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool',"
            " and 'developer'."
        )
        raise Refused("shape", sentence, f"{where}.role", "invalid_value")
    _check_calls(f"{where}.tool_calls", message)
    _check_content(f"{where}.content", message)


def _check_content(where: str, message: JSON) -> None:
    content = message.get("content")
    if content is None:
        if not message.get("tool_calls"):
            raise Refused("empty", "Invalid value for 'content': expected a string, got null.", where)
        return
    if isinstance(content, list):
        _check_parts(where, content)
        if message["role"] != "user" and any(part["type"] == "image_url" for part in content):
            what = f"but this message with role '{message['role']}' contains an image URL"
            sentence = f"Image URLs are only allowed for messages with role 'user', {what}."
            raise Refused("image", f"Invalid '{where}'. {sentence}", where, "invalid_value")
    elif not isinstance(content, str):
        raise Refused("shape", f"Invalid type for '{where}': expected a string or an array.", where, "invalid_type")
    elif not content and message["role"] != "tool" and not message.get("tool_calls"):
        raise Refused("empty", f"Invalid '{where}': the message must have non-empty content.", where)


def _check_parts(where: str, parts: Sequence[Any]) -> None:
    if not parts:
        raise _empty_array("empty", where)
    for at, part in enumerate(parts):
        if not isinstance(part, dict) or "type" not in part:
            message = f"Missing required parameter: '{where}[{at}].type'."
            raise Refused("shape", message, f"{where}[{at}].type", "missing_required_parameter")
        if part["type"] not in PART_TYPES:
            message = f"Invalid value: '{part['type']}'. Supported values are: {', '.join(map(repr, PART_TYPES))}."
            raise Refused("shape", message, f"{where}[{at}].type", "invalid_value")
        if part["type"] == "text" and not part.get("text"):
            raise Refused("empty", f"Invalid '{where}[{at}].text': empty string.", f"{where}[{at}].text")


def _check_calls(where: str, message: JSON) -> None:
    if "tool_calls" not in message:
        return
    calls = message["tool_calls"]
    if message["role"] != "assistant" or not isinstance(calls, list):
        raise Refused("shape", f"Invalid '{where}': only an assistant message has a list of calls.", where)
    if not calls:
        raise _empty_array("empty", where)
    for at, call in enumerate(calls):
        _check_call(f"{where}[{at}]", call)


def _check_call(where: str, call: Any) -> None:
    if not isinstance(call, dict) or call.get("type") != "function" or not function_of(call):
        raise Refused("shape", f"Missing required parameter: '{where}.function'.", where, "missing_required_parameter")
    call_id = call.get("id")
    if not isinstance(call_id, str) or not call_id:
        raise Refused("ids", f"Missing required parameter: '{where}.id'.", f"{where}.id", "missing_required_parameter")
    if len(call_id) > MAX_CALL_ID:
        message = (
            f"Invalid '{where}.id': string too long. Expected a string with maximum length {MAX_CALL_ID},"
            f" but got a string with length {len(call_id)} instead."
        )
        raise Refused("ids", message, f"{where}.id", "string_above_max_length")
    _check_name("tools", f"{where}.function.name", function_of(call).get("name"))
    _check_arguments(f"{where}.function.arguments", function_of(call).get("arguments"))


def _check_arguments(where: str, arguments: Any) -> None:
    try:
        parsed = json.loads(arguments)
    except (TypeError, ValueError) as exc:
        raise Refused("arguments", f"Invalid '{where}': not valid JSON: {exc}", where, "invalid_value") from exc
    if not isinstance(parsed, dict):
        raise Refused("arguments", f"Invalid '{where}': expected a JSON object.", where, "invalid_value")


def _check_pairs(messages: Sequence[JSON]) -> None:
    """Each batch of calls is followed by exactly one result for each, and no id is used twice."""
    open_ids: list[str] = []
    batch: set[str] = set()
    used: set[str] = set()
    for at, message in enumerate(messages):
        if message["role"] == "tool":
            _take_result(f"messages[{at}]", message, open_ids, batch)
            continue
        _check_none_open(at, open_ids)
        open_ids = [call["id"] for call in calls_of(message)]
        batch = set(open_ids)
        if len(batch) < len(open_ids) or batch & used:
            raise Refused("ids", f"Invalid 'messages[{at}].tool_calls': call ids must be unique.", f"messages[{at}]")
        used |= batch
    _check_none_open(len(messages), open_ids)


def _take_result(where: str, message: JSON, open_ids: list[str], batch: set[str]) -> None:
    call_id = message.get("tool_call_id")
    if not isinstance(call_id, str):
        param = f"{where}.tool_call_id"
        raise Refused("pairing", f"Missing required parameter: '{param}'.", param, "missing_required_parameter")
    if not batch:
        sentence = (
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
        )
        raise Refused("pairing", sentence, f"{where}.role")
    if call_id not in batch:
        sentence = f"Invalid parameter: 'tool_call_id' of '{call_id}' not found in 'tool_calls' of previous message."
        raise Refused("pairing", sentence, f"{where}.tool_call_id")
    if call_id not in open_ids:
        sentence = f"Invalid parameter: Duplicate value for 'tool_call_id' of '{call_id}' in messages with role 'tool'."
        raise Refused("ids", sentence, f"{where}.tool_call_id")
    open_ids.remove(call_id)


def _check_none_open(at: int, open_ids: Sequence[str]) -> None:
    if not open_ids:
        return
    message = (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        f" The following tool_call_ids did not have response messages: {', '.join(open_ids)}"
    )
    raise Refused("pairing", message, f"messages.[{at}].role")


def _check_order(messages: Sequence[JSON]) -> None:
    roles = [message["role"] for message in messages]
    spoken = [role for role in roles if role not in SYSTEM_ROLES]
    if any(role in SYSTEM_ROLES for role in roles[len(roles) - len(spoken) :]):
        raise Refused("order", "System message must be at the beginning.")
    if not spoken:
        raise Refused("order", "No user query found in messages.")
    if spoken[0] != "user":
        raise Refused("order", f"Expected first role User after the system prompt but got {spoken[0]}")
    if spoken[-1] == "assistant" and not text_of(messages[-1]).strip():
        raise Refused("empty", "The final assistant message must contain non-whitespace text.")
    if spoken[-1] == "assistant":
        message = "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
        raise Refused("order", message, code="3230")
