"""Signed notes (C2SP signed-note), their keys, and checkpoints (C2SP tlog-checkpoint).

It also has what all modules share: checks, JSON, hashes, base64, numbers and files.
"""

import base64
import hashlib
import json
import re
import sys
from collections import namedtuple

import ed25519

def need(condition, what):
    """Every check of data calls it. All errors of data are a ValueError, or one of the errors in verify.verdict."""
    if not condition:
        raise ValueError(what)

sys.setrecursionlimit(11_000)  # a payload may have 10,000 levels

def parse(raw, **options):
    """Parses JSON. A number with so many digits that Python may refuse it stays a text: no member that is read has such a number."""
    return json.loads(raw.decode(), parse_int=lambda digits: int(digits) if len(digits) < 100 else digits,
                      parse_constant=lambda name: need(False, f"{name} is not JSON"), **options)

def read_small(file, most):
    """Reads and closes an open file, which may be a pipe or a device without an end."""
    with file:
        raw = file.read(most + 1)
    need(len(raw) <= most, f"{file.name} is longer than {most} bytes")
    return raw

def sha256(data):
    return hashlib.sha256(data).digest()

def unbase64(text):
    raw = base64.b64decode(text, validate=True)
    need(base64.b64encode(raw).decode() == text, f"{text:.80} is not in canonical base64")
    return raw

def unhash(text):
    raw = unbase64(text)
    need(len(raw) == 32, f"{text:.80} is not a hash")
    return raw

def number(text):
    need(re.fullmatch(r"0|[1-9][0-9]{0,18}", text, re.ASCII) and int(text) < 2**63, f"{text!r:.80} is not a number")
    return int(text)

Key = namedtuple("Key", "name id public text")

def split_key(text):
    """Returns the name, the id and the bytes of a key name+id+base64. The first byte is the type."""
    name, key_id, raw = text.split("+", 2)
    need(re.fullmatch(r"\S+", name), f"the key {text!r:.80} has no name")
    raw = unbase64(raw)
    need(sha256(name.encode() + b"\n" + raw)[:4].hex() == key_id.lower(), f"the id in the key {text!r:.80} does not match the key")
    return name, bytes.fromhex(key_id), raw

def parse_key(text):
    """Parses a verification key (golang.org/x/mod/sumdb/note). The text of the result has the canonical form."""
    name, key_id, raw = split_key(text)
    need(len(raw) == 33 and raw[0] == 1, f"{text!r:.80} is not an Ed25519 key")
    return Key(name, key_id, raw[1:], f"{name}+{key_id.hex()}+{base64.b64encode(raw).decode()}")

class Note:
    """A signed note (C2SP signed-note)."""

    def __init__(self, raw):
        need(len(raw) <= 64 << 10, "a signed note is longer than 64 KiB")
        text, found, signatures = raw.decode().rpartition("\n\n")
        need(found and signatures.endswith("\n"), "a signed note is not a text and signatures")
        need(not re.search("[\x00-\x09\x0b-\x1f]", text + signatures), "a signed note has control characters")
        self.text, self.lines, self.signatures, self.bytes = text + "\n", text.split("\n"), [], len(raw)
        for line in signatures[:-1].split("\n"):
            parts = re.fullmatch("\u2014 ([^+\\s]+) ([A-Za-z0-9+/]+=*)", line)
            need(parts and len(unbase64(parts[2])) >= 5, "a line of a signed note is not a signature")
            self.signatures.append((parts[1], unbase64(parts[2])))
        need(len(self.signatures) <= 100, "a signed note has more than 100 signatures")

    def signatures_of(self, key):
        return [raw[4:] for name, raw in self.signatures if key[:2] == (name, raw[:4])]

    def signed_by(self, keys):
        """Returns the keys that signed, in the order of the signatures. A wrong signature of one of them is an error."""
        by = {}
        for name, raw in self.signatures:
            named = [key for key in keys if key[:2] == (name, raw[:4])]
            right = [key for key in named if ed25519.verify(key.public, self.text.encode(), raw[4:])]
            need(right or not named, f"a signature of the key {name}+{raw[:4].hex()} is wrong")
            by.update(dict.fromkeys(right))
        return [*by]

class Checkpoint(Note):
    """A signed tree hash (C2SP tlog-checkpoint). Lines after the third mean nothing."""

    def __init__(self, raw):
        super().__init__(raw)
        need(len(self.lines) >= 3 and all(self.lines), "a checkpoint does not have three lines, or has an empty one")
        self.origin, self.size, self.root = self.lines[0], number(self.lines[1]), unhash(self.lines[2])
        need(self.size < 2**62, "a checkpoint covers too many events")
