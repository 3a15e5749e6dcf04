"""`settings.md`: every environment variable, from the fields of the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo

from app.settings import ModelSettings, PriceSettings, ProviderSettings, Settings
from docs.generate.markdown import table

HEAD = """\
# Settings

Read from the environment and from a `.env` file in the working directory; the environment wins. An empty value counts
as unset. A start warns of a name that begins with `PALIMPSEST_` and is not known. Written by `make docs` from
`app/settings.py`; change the sentences there.
"""


def variable(name: str, field: FieldInfo) -> str:
    """The environment variable that a field of `Settings` is read from."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return str(alias.choices[0])
    return alias if isinstance(alias, str) else f"{Settings.model_config['env_prefix']}{name.upper()}"


def bounds(schema: Mapping[str, Any]) -> str:
    """A number's limits in words, with a leading space; empty where it has none."""
    low, above, high = (schema.get(key) for key in ("minimum", "exclusiveMinimum", "maximum"))
    if low is not None and high is not None:
        return f" {low} to {high}"
    if low is not None:
        return f" ≥ {low}"
    return f" > {above}" if above is not None else ""


def kind(schema: Mapping[str, Any]) -> str:
    """What may be written as a value, from the field's JSON Schema."""
    if "anyOf" in schema:
        return " or ".join(kind(option) for option in schema["anyOf"] if option.get("type") != "null")
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("format") in ("path", "password"):
        return {"path": "path", "password": "secret"}[schema["format"]]
    if schema.get("type") == "array":
        return "list, comma-separated"
    names = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false"}
    return names.get(schema.get("type", ""), "JSON object") + bounds(schema)


def default(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    return "" if value is None or value in ([], {}) else f"`{value}`"


def meaning(field: FieldInfo) -> str:
    """The field's sentence, with other fields named as the variables that the reader sets."""
    text = field.description or ""
    for name, other in Settings.model_fields.items():
        text = text.replace(f"`{name}`", f"`{variable(name, other)}`")
    return text


def settings_rows() -> Iterator[list[str]]:
    properties = Settings.model_json_schema(by_alias=False)["properties"]
    for name, field in Settings.model_fields.items():
        schema = properties[name]
        yield [f"`{variable(name, field)}`", kind(schema), default(schema), meaning(field)]


def object_section(model: type[BaseModel], title: str) -> str:
    """The fields of an object that a JSON setting holds."""
    schema = model.model_json_schema()
    required = schema.get("required", [])
    rows = [
        [f"`{name}`", "[prices](#prices)" if name == "prices" else kind(field), "yes" if name in required else ""]
        for name, field in schema["properties"].items()
    ]
    return f"\n## {title}\n\n{' '.join((model.__doc__ or '').split())}\n\n{table(('Field', 'Type', 'Required'), rows)}"


def settings_page() -> str:
    return (
        HEAD
        + "\n"
        + table(("Variable", "Type", "Default", "Meaning"), settings_rows())
        + object_section(ProviderSettings, "An entry of `PALIMPSEST_PROVIDERS`")
        + object_section(ModelSettings, "An entry of `PALIMPSEST_MODELS`")
        + object_section(PriceSettings, "Prices")
    )
