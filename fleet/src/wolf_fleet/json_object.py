"""The type of decoded JSON objects."""

from typing import Any

JsonObject = dict[str, Any]  # text, numbers, lists and objects by name
