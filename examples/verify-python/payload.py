"""JSON: its canonical form, and the payloads of events."""

import json
import re

from notes import need, parse

FREE = "tags", "custom", "args"  # members whose values clients choose

class Odd(dict):
    """An object that has a member twice, or one with another name than events have."""

def members(pairs):
    found = dict(pairs)
    odd = len(found) < len(pairs) or not all(re.fullmatch("[a-z0-9_]+", name, re.ASCII) for name in found)
    return Odd(found) if odd else found

def dump(value):
    """The canonical form of JSON that the export itself writes."""
    return json.dumps(value, separators=(",", ":")).encode()

def parse_payload(raw):
    """Parses a payload. One of an event of Daybook (see check_payload) has no object that readers could understand differently."""
    return parse(raw, object_pairs_hook=members)

def check_payload(event):
    left = [event.json] if event.kind.startswith("daybook.") else []
    while left:
        value = left.pop()
        need(type(value) is not Odd, "an object of a payload has a member twice, or one with another name than events have")
        if type(value) is dict:
            left += [value[name] for name in value if name not in FREE]
        elif type(value) is list:
            left += value
