"""What the Responses endpoint refuses, in OpenAI's own sentences where they are known.

It is strict beyond the real one where that helps to find mistakes: arguments must be a JSON object, call ids must be
unique, and encrypted reasoning goes with `store: false`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from openai.types.shared_params import Reasoning

from tests.provider.dialect import TOOL_NAME
from tests.provider.images import check_images
from tests.provider.records import JSON, Refused
from tests.provider.responses.reading import items_of, parts_of
from tests.provider.settings import Settings
from tests.provider.thinking import SealBook

PARAMETERS = ResponseCreateParamsStreaming.__required_keys__ | ResponseCreateParamsStreaming.__optional_keys__
REASONING = Reasoning.__required_keys__ | Reasoning.__optional_keys__
ENCRYPTED = "reasoning.encrypted_content"
ITEM_TYPES = ("message", "function_call", "function_call_output", "reasoning")
ROLES = ("assistant", "system", "developer", "user")
MIN_OUTPUT = 16
MAX_ID = 64
"""The longest id of an item, and of a call."""


def check(body: JSON, headers: dict[str, str], settings: Settings, seals: SealBook) -> None:
    """Raises `Refused` for the first thing that is wrong with the request."""
    _check_parameters(body, settings)
    for at, tool in enumerate(body.get("tools", [])):
        _check_tool(f"tools[{at}]", tool)
    items = _input(body)
    for at, item in enumerate(items):
        _check_item(f"input[{at}]", item)
    check_images(body, settings, "responses")
    _check_ids(items)
    _check_pairs(items)
    _check_reasoning(body, items, seals)


def _check_parameters(body: JSON, settings: Settings) -> None:
    if not isinstance(body.get("model"), str) or not body["model"]:
        raise Refused("shape", "you must provide a model parameter")
    if unknown := sorted(body.keys() - PARAMETERS):
        raise Refused("shape", f"Unknown parameter: '{unknown[0]}'.", unknown[0], "unknown_parameter")
    reasoning = body.get("reasoning") or {}
    if unknown := sorted(reasoning.keys() - REASONING):
        name = f"reasoning.{unknown[0]}"
        raise Refused("shape", f"Unknown parameter: '{name}'.", name, "unknown_parameter")
    sent = {**body, **{f"reasoning.{name}": value for name, value in reasoning.items()}}
    for name in sorted(settings.refused_parameters & sent.keys()):
        message = f"Unsupported parameter: '{name}' is not supported with this model."
        raise Refused("parameter", message, name, "unsupported_parameter")
    _check_effort(body, reasoning.get("effort"), settings)
    _check_storage(body)
    limit = body.get("max_output_tokens")
    if limit is not None and limit < MIN_OUTPUT:
        message = (
            f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {MIN_OUTPUT}, but got"
            f" {limit} instead."
        )
        raise Refused("shape", message, "max_output_tokens", "integer_below_min_value")
    if len(body.get("prompt_cache_key") or "") > MAX_ID:
        raise Refused("shape", "Invalid 'prompt_cache_key': string too long.", "prompt_cache_key")


def _check_effort(body: JSON, effort: Any, settings: Settings) -> None:
    if effort is None or settings.efforts is None or effort in settings.efforts:
        return
    values = ", ".join(f"'{value}'" for value in sorted(settings.efforts))
    message = f"Unsupported value: '{effort}' is not supported with the '{body['model']}' model."
    raise Refused("parameter", f"{message} Supported values are: {values}.", "reasoning.effort", "unsupported_value")


def _check_storage(body: JSON) -> None:
    if ENCRYPTED in (body.get("include") or []) and body.get("store") is not False:
        raise Refused("shape", "Encrypted reasoning is for responses that are not stored: set 'store' to false.")
    if previous := body.get("previous_response_id"):
        message = f"Previous response with id '{previous}' not found."
        raise Refused("shape", message, "previous_response_id", "previous_response_not_found")


def _check_tool(where: str, tool: Any) -> None:
    if not isinstance(tool, dict) or tool.get("type") != "function":
        raise Refused("tools", f"Invalid value for '{where}.type'.", f"{where}.type", "invalid_value")
    if not isinstance(tool.get("name"), str) or not TOOL_NAME.fullmatch(tool["name"]):
        raise Refused("tools", f"Missing required parameter: '{where}.name'.", f"{where}.name")
    schema = tool.get("parameters")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        message = f"Invalid schema for function '{tool['name']}': schema must be a JSON Schema of 'type: \"object\"'."
        raise Refused("tools", message, f"{where}.parameters", "invalid_function_parameters")
    if tool.get("strict") is not False and set(schema.get("required", ())) != set(schema.get("properties", {})):
        message = (
            f"Invalid schema for function '{tool['name']}': In context=(), 'required' is required to be supplied and to"
            " be an array including every key in properties."
        )
        raise Refused("tools", message, f"{where}.parameters", "invalid_function_parameters")


def _input(body: JSON) -> list[JSON]:
    given = body.get("input")
    if not isinstance(given, str | list) or (isinstance(given, list) and not all(isinstance(i, dict) for i in given)):
        raise Refused("shape", "Missing required parameter: 'input'.", "input", "missing_required_parameter")
    if not given:
        raise Refused("empty", "Invalid 'input': empty array.", "input", "empty_array")
    return items_of(body)


def _check_item(where: str, item: JSON) -> None:
    match item.get("type"):
        case "message":
            _check_message(where, item)
        case "function_call":
            _check_id(f"{where}.call_id", item.get("call_id"))
            if not TOOL_NAME.fullmatch(str(item.get("name"))):
                raise Refused("tools", f"Invalid '{where}.name': string does not match pattern.", f"{where}.name")
            _check_arguments(f"{where}.arguments", item.get("arguments"))
        case "function_call_output":
            _check_id(f"{where}.call_id", item.get("call_id"))
            if not isinstance(item.get("output"), str | list):
                raise Refused("shape", f"Missing required parameter: '{where}.output'.", f"{where}.output")
        case "reasoning":
            if not str(item.get("id")).startswith("rs_") or not isinstance(item.get("summary"), list):
                raise Refused("thinking", f"Missing required parameter: '{where}.summary'.", f"{where}.summary")
        case other:
            values = ", ".join(f"'{value}'" for value in ITEM_TYPES)
            message = f"Invalid value: '{other}'. Supported values are: {values}."
            raise Refused("shape", message, f"{where}.type", "invalid_value")


def _check_message(where: str, item: JSON) -> None:
    role = item.get("role")
    if role not in ROLES:
        message = f"Invalid value: '{role}'. Supported values are: {', '.join(map(repr, ROLES))}."
        raise Refused("shape", message, f"{where}.role", "invalid_value")
    if "id" in item and not str(item["id"]).startswith("msg_"):
        message = f"Invalid '{where}.id': '{item['id']}'. Expected an ID that begins with 'msg'."
        raise Refused("ids", message, f"{where}.id", "invalid_value")
    if item.get("phase") not in (None, "commentary", "final_answer") or (role != "assistant" and "phase" in item):
        raise Refused("shape", f"Invalid value: '{item['phase']}'.", f"{where}.phase", "invalid_value")
    taken = ("output_text", "refusal") if role == "assistant" else ("input_text", "input_image", "input_file")
    parts = parts_of(item)
    if not parts:
        raise Refused("empty", f"Invalid '{where}.content': empty array.", f"{where}.content")
    for at, part in enumerate(parts):
        if part.get("type") not in taken:
            message = f"Invalid value: '{part.get('type')}'. Supported values are: {', '.join(map(repr, taken))}."
            raise Refused("shape", message, f"{where}.content[{at}]", "invalid_value")
        if part["type"] in ("input_text", "output_text") and not part.get("text"):
            raise Refused("empty", f"Invalid '{where}.content[{at}].text': empty string.", f"{where}.content[{at}]")
        if part["type"] == "input_image" and not str(part.get("image_url")).startswith(("data:image/", "https://")):
            message = (
                f"Invalid '{where}.content[{at}].image_url'. Expected a valid URL, but got a value with an invalid"
            )
            raise Refused("shape", f"{message} format.", f"{where}.content[{at}].image_url", "invalid_value")


def _check_id(where: str, value: Any) -> None:
    if not isinstance(value, str) or not value:
        raise Refused("ids", f"Missing required parameter: '{where}'.", where, "missing_required_parameter")
    if len(value) > MAX_ID:
        message = (
            f"Invalid '{where}': string too long. Expected a string with maximum length {MAX_ID},"
            f" but got a string with length {len(value)} instead."
        )
        raise Refused("ids", message, where, "string_above_max_length")


def _check_arguments(where: str, arguments: Any) -> None:
    try:
        sound = isinstance(json.loads(arguments), dict)
    except (TypeError, ValueError):
        sound = False
    if not sound:
        raise Refused("arguments", f"Invalid '{where}': expected a JSON object.", where, "invalid_value")


def _check_ids(items: Sequence[JSON]) -> None:
    """No item occurs twice."""
    ids = [str(item["id"]) for item in items if item.get("id")]
    for at, item_id in enumerate(ids):
        if item_id in ids[:at]:
            message = f"Duplicate item found with id {item_id}. Remove duplicate items from your input and try again."
            raise Refused("ids", message, "input")


def _check_pairs(items: Sequence[JSON]) -> None:
    """Each call has one output, behind it."""
    waiting: list[str] = []
    seen: set[str] = set()
    for item in items:
        call_id = str(item.get("call_id"))
        if item.get("type") == "function_call":
            if call_id in seen:
                raise Refused("ids", f"Duplicate function call found with call_id {call_id}.", "input")
            seen.add(call_id)
            waiting.append(call_id)
        elif item.get("type") == "function_call_output":
            if call_id not in waiting:
                message = f"No tool call found for function call output with call_id {call_id}."
                raise Refused("pairing", message, "input")
            waiting.remove(call_id)
    if waiting:
        raise Refused("pairing", f"No tool output found for function call {waiting[0]}.", "input")


def _check_reasoning(body: JSON, items: Sequence[JSON], seals: SealBook) -> None:
    """Reasoning comes back as it was issued, to the model that wrote it, in front of what it led to."""
    for item, following in zip(items, [*items[1:], {}], strict=True):
        if item.get("type") != "reasoning":
            continue
        if not item.get("encrypted_content"):
            message = (
                f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false. Try"
                " again with `store` set to true, or remove this item from your input."
            )
            raise Refused("thinking", message, status=404, param="input")
        _check_seal(str(body["model"]), item, seals)
        led_to = following.get("type") in ("function_call", "reasoning") or following.get("role") == "assistant"
        if not led_to:
            message = f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
            raise Refused("thinking", message, "input")


def _check_seal(model: str, item: JSON, seals: SealBook) -> None:
    known = seals.blocks.get(str(item["encrypted_content"]))
    said = "\n\n".join(str(part.get("text")) for part in item["summary"] if isinstance(part, dict))
    if known is None or known.model != model or known.response != item["id"] or known.text != said:
        message = (
            f"The encrypted content for item {item['id']} could not be verified. Reason: Encrypted content could not be"
            " decrypted or parsed."
        )
        raise Refused("thinking", message, None, "invalid_encrypted_content")
