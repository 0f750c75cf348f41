#!/usr/bin/env python3
"""Verifies an export of a Daybook ledger with only this file and Python.

    verify.py [--key KEY]... [--checkpoint FILE]... [--max-age 24h] [--json] DIR

It shares no code with Daybook and was written from docs/integrity.md alone: SHA-256
and JSON come from the standard library, Ed25519 (RFC 8032) and the Merkle tree
(RFC 6962) are below. Without --key it trusts the keys in the export, which only
proves that nothing was changed by accident: UNAUTHENTICATED. --checkpoint is a file of a
checkpoint that you kept; the export must extend its tree.

It checks that the manifest covers every byte of every file, the tree every event and
the signature the tree; that events are in order and match the selection; and that
blobs have their hashes. "daybook verify --export" also checks the rules of the ledger
(one end per execution, attempts and entries without a gap, output hashes).

The verdicts and the exit status are those of "daybook verify": 0 INTACT, 1 NOT INTACT,
6 WRONG KEY, 7 UNAUTHENTICATED, 8 INTACT UP TO n (the newest event is older than --max-age),
9 FORKED, 10 ROLLED BACK; 2 is a mistake in the command line.
"""

import base64
import hashlib
import json
import os
import re
import sys
from datetime import datetime, timedelta, timezone

STATUS = {"INTACT": 0, "NOT INTACT": 1, "WRONG KEY": 6, "UNAUTHENTICATED": 7, "INTACT UP TO": 8, "FORKED": 9, "ROLLED BACK": 10}


class Bad(Exception):
    """A check has failed."""


class Usage(Exception):
    """The command line has a mistake."""


def need(condition, what):
    if not condition:
        raise Bad(what)


# --- Ed25519 (RFC 8032, section 5.1) -----------------------------------------

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
SQRT_M1 = pow(2, (P - 1) // 4, P)


def recover_x(y, sign):
    if y >= P:
        return None
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    if x2 == 0:
        return None if sign else 0
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * SQRT_M1 % P
    if (x * x - x2) % P:
        return None
    return P - x if (x & 1) != sign else x


def point_add(p, q):  # extended coordinates: x = X/Z, y = Y/Z, x*y = T/Z
    a = (p[1] - p[0]) * (q[1] - q[0]) % P
    b = (p[1] + p[0]) * (q[1] + q[0]) % P
    c = 2 * p[3] * q[3] * D % P
    d = 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return (e * f % P, g * h % P, f * g % P, e * h % P)


def point_mul(s, p):
    q = (0, 1, 1, 0)
    while s:
        if s & 1:
            q = point_add(q, p)
        p = point_add(p, p)
        s >>= 1
    return q


def point_equal(p, q):
    return (p[0] * q[2] - q[0] * p[2]) % P == 0 and (p[1] * q[2] - q[1] * p[2]) % P == 0


def point_decode(raw):
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y & ((1 << 255) - 1)
    x = recover_x(y, sign)
    return None if x is None else (x, y, 1, x * y % P)


BASE_Y = 4 * pow(5, P - 2, P) % P
BASE_X = recover_x(BASE_Y, 0)
BASE = (BASE_X, BASE_Y, 1, BASE_X * BASE_Y % P)


def ed25519_verify(public, message, signature):
    if len(public) != 32 or len(signature) != 64:
        return False
    a, r = point_decode(public), point_decode(signature[:32])
    s = int.from_bytes(signature[32:], "little")
    if a is None or r is None or s >= L:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    return point_equal(point_mul(s, BASE), point_add(r, point_mul(h, a)))


# --- The Merkle tree (RFC 6962) ----------------------------------------------


def sha256(data):
    return hashlib.sha256(data).digest()


def leaf_hash(record):
    return sha256(b"\x00" + record)


def node_hash(left, right):
    return sha256(b"\x01" + left + right)


class Tree:
    """The tree hash of a growing list of leaves: one hash per binary digit of its size."""

    def __init__(self):
        self.size, self.parts = 0, []
        self.kept, self.compared = {}, []  # roots to compare, by size; (size, whether they are equal)

    def compare(self):
        for root in self.kept.pop(self.size, []):
            self.compared.append((self.size, root == self.root()))

    def add(self, leaf):
        size = self.size
        while size & 1:
            leaf = node_hash(self.parts.pop(), leaf)
            size >>= 1
        self.parts.append(leaf)
        self.size += 1
        self.compare()

    def add_full(self, subtree, leaves):
        """Adds a subtree with a known hash; leaves is its size, a power of two."""
        need(self.size % leaves == 0, "a subtree starts at a position that is not aligned")
        size, self.size = self.size // leaves, self.size + leaves
        while size & 1:
            subtree = node_hash(self.parts.pop(), subtree)
            size >>= 1
        self.parts.append(subtree)
        self.compare()

    def root(self):
        if not self.parts:
            return sha256(b"")
        root = self.parts[-1]
        for part in reversed(self.parts[:-1]):
            root = node_hash(part, root)
        return root


def root_of_proof(leaf, index, size, hashes):
    """The root that an inclusion proof leads to (RFC 9162, section 2.1.3.2)."""
    need(index < size, "the leaf is not in a tree of that size")
    fn, sn, r = index, size - 1, leaf
    for h in hashes:
        need(sn, "the proof is too long")
        if fn & 1 or fn == sn:
            r = node_hash(h, r)
            while fn and not fn & 1:
                fn, sn = fn >> 1, sn >> 1
        else:
            r = node_hash(r, h)
        fn, sn = fn >> 1, sn >> 1
    need(sn == 0, "the proof is too short")
    return r


# --- The files of an export --------------------------------------------------


def unbase64(text, what):
    need(isinstance(text, str), what + " is not text")
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:
        raise Bad(what + " is not base64") from None
    need(base64.b64encode(raw).decode() == text, what + " is not in its canonical form")
    return raw


def unhash(text, what):
    raw = unbase64(text, what)
    need(len(raw) == 32, what + " is not a hash")
    return raw


def once(pairs):
    """Builds an object and refuses duplicate members."""
    members = dict(pairs)
    need(len(members) == len(pairs), "an object has a duplicate member")
    return members


def parse(raw, what):
    try:
        return json.loads(raw.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError):
        raise Bad(what + " is not JSON") from None


def dump(value):
    """The canonical form of JSON that the export itself writes."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()


MANIFEST = {
    "format": str, "origin": str, "vkeys": list, "size": int, "root": str, "from": int, "to": int, "since": str,
    "until": str, "tenant": str, "execution": str, "session": str, "events": int, "blobs": bool, "files": list,
}


def read(directory, name):
    try:
        with open(os.path.join(directory, name), "rb") as f:
            return f.read()
    except OSError as e:
        raise Bad(f"{name} cannot be read: {e.strerror}") from None


def read_manifest(directory):
    raw = read(directory, "manifest.json")
    m = parse(raw, "the manifest")
    need(isinstance(m, dict) and list(m) == list(MANIFEST), "the members of the manifest are missing or out of order")
    for name, kind in MANIFEST.items():
        need(type(m[name]) is kind, f"the manifest's {name} has the wrong type")
    need(m["format"] == "daybook-export-v1", "the export has an unknown format")
    for f in m["files"]:
        need(isinstance(f, dict) and list(f) == ["name", "bytes", "sha256"], "the manifest has an invalid file entry")
        need(type(f["name"]) is str and type(f["bytes"]) is int and type(f["sha256"]) is str, "the manifest has an invalid file entry")
    need(dump(m) + b"\n" == raw, "the manifest is not in its canonical form")
    for name in ("size", "from", "to", "events"):
        need(0 < m[name] < 2**63, f"the manifest's {name} is out of range")
    need(m["from"] <= m["to"] <= m["size"], "the manifest's range is empty or beyond its checkpoint")
    for name in ("since", "until"):
        need(m[name] == "" or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", m[name]), f"the manifest's {name} is not a time")
    need(not m["since"] or not m["until"] or m["since"] <= m["until"], "the manifest's since is after its until")
    return m


def parse_key(text):
    """The name, number and public key in name+hash+base64 (golang.org/x/mod/sumdb/note)."""
    parts = text.split("+", 2)
    need(len(parts) == 3, f"{text!r} is not a verification key")
    raw = unbase64(parts[2], "a key")
    need(len(raw) == 33 and raw[0] == 1, "a key is not an Ed25519 key")
    number = sha256(parts[0].encode() + b"\n" + raw)[:4]
    need(number.hex() == parts[1], "the number of a key does not match the key")
    return parts[0], number, raw[1:]


def open_checkpoint(raw, keys):
    """Checks the signed note (C2SP signed-note, tlog-checkpoint). Returns its lines, and whether one of the keys signed it."""
    try:
        text, signature = raw.decode("utf-8").split("\n\n")
    except ValueError:
        raise Bad("the checkpoint is not a text and a signature") from None
    lines = text.split("\n")
    need(len(lines) == 3, "the checkpoint does not have three lines")
    prefix = "\u2014 " + lines[0] + " "
    need(signature.startswith(prefix) and signature.endswith("\n"), "the checkpoint is not signed by the ledger it names")
    sig = unbase64(signature[len(prefix):-1], "the signature")
    need(re.fullmatch(r"0|[1-9][0-9]{0,18}", lines[1], re.ASCII), "the size of the checkpoint is not a number")
    lines[1:] = int(lines[1]), unhash(lines[2], "the tree hash")
    for name, number, public in keys:
        if name == lines[0] and sig[:4] == number:
            need(ed25519_verify(public, (text + "\n").encode(), sig[4:]), "the signature of the checkpoint is wrong")
            return lines, True
    return lines, False


def check_files(directory, m, complete):
    wanted = ["checkpoint", "events.ndjson"] + ([] if complete else ["proofs.ndjson"])
    names = [f["name"] for f in m["files"]]
    blobs = names[len(wanted):]
    need(names[:len(wanted)] == wanted, "the manifest does not list the files that an export has")
    need(all(re.fullmatch(r"blobs/(heap|text)-[0-9a-f]{64}", b) for b in blobs), "the manifest lists a file that an export does not have")
    need(blobs == sorted(set(blobs)), "the manifest lists blobs twice or out of order")
    for f in m["files"]:
        digest, size = hashlib.sha256(), 0
        try:
            with open(os.path.join(directory, f["name"]), "rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
                    size += len(chunk)
        except OSError as e:
            raise Bad(f"{f['name']} cannot be read: {e.strerror}") from None
        need((size, digest.hexdigest()) == (f["bytes"], f["sha256"]), f"{f['name']} is not the file that the manifest lists")
    there = set()
    for folder, folders, files in os.walk(directory):
        rel = os.path.relpath(folder, directory)
        need(rel in (".", "blobs"), f"the directory {rel} is not part of an export")
        there |= {f if rel == "." else rel + "/" + f for f in files}
    need(there == set(names) | {"manifest.json"}, "there are files that the manifest does not list")
    return blobs


def lines_of(directory, name):
    """Yields the lines of a file, each of which has an end."""
    with open(os.path.join(directory, name), "rb") as f:
        for line in f:
            need(line.endswith(b"\n"), f"the last line of {name} has no end")
            yield line[:-1]


ATTRIBUTES = [  # CloudEvents attributes, and the headers they repeat
    ("specversion", "ce-specversion"), ("id", "ce-id"), ("source", "ce-source"), ("type", "ce-type"), ("subject", "ce-subject"),
    ("time", "ce-time"), ("tenant", "ce-tenant"), ("traceparent", "ce-traceparent"), ("recordversion", "ce-recordversion"),
    ("datacontenttype", "content-type"),
]
DELIVERY = {
    "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp", "Nats-Last-Sequence", "Nats-Num-Pending",
    "Nats-UpTo-Sequence", "Nats-Msg-Size", "Nats-Stream-Source",
}


class Event:
    """A line of events.ndjson."""

    def __init__(self, line):
        plain, coded = line.find(b',"data":'), line.find(b',"data_base64":')
        need(line[:1] == b"{" and line[-1:] == b"}" and (plain >= 0 or coded >= 0), "a line is not an event with data")
        if plain >= 0:
            head, self.data = line[:plain], line[plain + len(b',"data":'):-1]
            need(b"\r" not in self.data, "the data of a line holds a line end")
            parse(self.data, "the data of a line")
        else:
            head, text = line[:coded], line[coded + len(b',"data_base64":'):-1]
            need(len(text) >= 2 and text[:1] == b'"' == text[-1:] and b'"' not in text[1:-1], "the data of a line is not text")
            self.data = unbase64(text[1:-1].decode("ascii", "replace"), "the data of a line")
        members = parse(head + b"}", "a line")
        need(isinstance(members, dict) and all(isinstance(v, str) for v in members.values()), "a member of a line is not text")
        for name in ("sequence", "natssubject", "natsheaders"):
            need(name in members, f"a line has no {name}")
        self.subject, self.headers = members["natssubject"], members["natsheaders"]
        need(re.fullmatch(r"[1-9][0-9]{0,18}", members["sequence"], re.ASCII), "a position is not a number")
        self.seq = int(members["sequence"])
        need(self.subject and not re.search(r"[ \t\r\n]", self.subject), "a subject holds a blank")
        self.header = self.parse_headers()
        again = {}
        for name, header in ATTRIBUTES:
            if header in self.header:
                again[name] = self.header[header][0]
        again.update(sequence=members["sequence"], natssubject=self.subject, natsheaders=self.headers)
        need(dump(again)[:-1] == head, f"event {self.seq} is not in its canonical form, or contradicts itself")

    def parse_headers(self):
        header, names = {}, []
        need(self.headers == "" or self.headers.endswith("\n"), "the last header has no end")
        for text in self.headers.split("\n")[:-1]:
            name, sep, value = text.partition(": ")
            need(sep and name and not re.search(r"[: \t\r\n]", name) and name not in DELIVERY, f"{text!r} is not a stored header")
            need("\r" not in value and value == value.strip(" \t"), f"{text!r} is not a stored header")
            header.setdefault(name, []).append(value)
            names.append(name.encode())
        need(names == sorted(names), "headers are not in order")
        versions = header.get("ce-recordversion", ["1"])
        need(len(versions) == 1, "an event is malformed: it has several record versions")
        self.version = versions[0]
        need(self.version == "2" or "ce-recordversion" not in header, f"a record has version {self.version!r}; a newer verifier is needed")
        if self.version == "2":
            need(len(names) == len(set(names)), "an event is malformed: it has a header twice")
            for name in header:
                need(re.fullmatch(r"ce-[a-z0-9]+|content-type", name, re.ASCII), f"{name!r} is not a covered header")
        return header

    def attribute(self, name):
        return self.header.get(name, [""])[0]

    def record(self):
        """The data that the leaf is the hash of."""
        text = f"daybook-event-v{self.version}\n{self.seq}\n{self.subject}\n{self.headers}\n"
        return text.encode() + hashlib.sha256(self.data).hexdigest().encode() + b"\n"


class Selection:
    """Checks that events match the selection in the manifest."""

    def __init__(self, m):
        self.m, self.sessions = m, {}

    def has(self, e):
        m, time, tenant = self.m, e.attribute("ce-time"), e.attribute("ce-tenant")
        if not m["from"] <= e.seq <= m["to"]:
            return False
        if m["since"] or m["until"]:
            at = self.instant(time)
            if m["since"] and at < self.instant(m["since"]) or m["until"] and at > self.instant(m["until"]):
                return False
        kind = e.attribute("ce-type")
        if tenant == "@ledger":
            return not m["execution"] and not m["session"]
        if m["tenant"] and tenant != m["tenant"]:
            return False
        if not m["execution"] and not m["session"]:
            return True
        data = parse(e.data, "the data of an event")
        about = e.attribute("ce-subject")
        if kind in ("daybook.heap.tagged.v1", "daybook.session.entry_recorded.v1"):
            about = data.get("execution_id", "")
        elif kind.startswith("daybook.webhook.") or not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", about):
            about = ""
        if m["execution"] and about != m["execution"]:
            return False
        if not m["session"]:
            return True
        if kind == "daybook.session.entry_recorded.v1":
            return data.get("session") == m["session"]
        if kind.startswith(("daybook.session.", "daybook.acp.")) and kind != "daybook.session.shredded.v1":
            return m["session"] in (data.get("session_id"), data.get("session"))
        if kind == "daybook.execution.requested.v1":
            turn = data.get("turn") or {}
            self.sessions[tenant, about] = (data.get("session", ""), turn.get("session_id", ""))
        # A request before the range is not in the export.
        return about != "" and m["session"] in self.sessions.get((tenant, about), (m["session"],))

    @staticmethod
    def instant(text):
        try:
            return datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError:
            raise Bad(f"{text!r} is not a time") from None


TERMINAL = {"daybook.execution." + s + ".v1" for s in ("completed", "failed", "timed_out", "cancelled")}

# The members of "content" that hold a text, which may be stored in a blob.
TEXTS = {
    "daybook.execution.requested.v1": ("source", "globals"),
    "daybook.host.called.v1": ("arguments",),
    "daybook.host.returned.v1": ("result",),
    **{kind: ("result", "error") for kind in TERMINAL},
}


def blobs_named(e):
    """The blobs that an event names, each as a tenant and a file."""
    kind, tenant = e.attribute("ce-type"), e.attribute("ce-tenant")
    if kind not in TEXTS and kind not in ("daybook.execution.started.v1", "daybook.ledger.volume_removed.v1"):
        return
    data = parse(e.data, "the data of an event")
    need(isinstance(data, dict), "the data of an event is not an object")
    plain = (data.get("content") or {}).get("plain") or {}
    texts = [plain.get(member) for member in TEXTS.get(kind, ())]
    if kind == "daybook.execution.started.v1":
        texts = [data.get("callable")]
    for text in texts:
        blob = (text or {}).get("blob")
        if blob:
            yield tenant, "blobs/text-" + blob["sha256"]
    if kind in TERMINAL and data.get("heap"):
        yield tenant, "blobs/heap-" + data["heap"]["sha256"]
    if kind == "daybook.ledger.volume_removed.v1" and data["kept"].get("sha256"):
        yield "@ledger", "blobs/text-" + data["kept"]["sha256"]


def hole_leaf(seq):
    """The leaf of a position without an event, which the opening of a volume names."""
    return leaf_hash(f"daybook-hole-v1\n{seq}\n".encode())


def losses(e):
    """The ranges and blobs that the opening of a volume names as lost; None for other events."""
    if e.attribute("ce-type") != "daybook.ledger.volume_opened.v1":
        return None
    data = parse(e.data, "the data of an event")
    if not isinstance(data, dict) or data.get("reason") != "damage" or data.get("first") != e.seq:
        return None
    ranges, last = data.get("lost") or ([dict(data["hole"], named_at=e.seq)] if data.get("hole") else []), 0
    for r in ranges:
        need(last < r["from"] <= r["to"] < r["named_at"] <= e.seq, "an event names lost positions that cannot be lost")
        last = r["to"]
    # Earlier versions listed the blobs of all tenants here.
    return ranges, {(b["tenant"], f"blobs/{b['kind']}-{b['sha256']}") for b in data.get("lost_blobs") or []}


def add_lost(tree, r):
    """Adds the leaves of lost events: their recorded hashes, or the leaves of holes."""
    need(tree.size + 1 == r["from"], "the lost range does not start at the first missing event")
    hashes = [unhash(h, "the hash of a lost event") for h in r.get("hashes") or []]
    at = r["from"]
    while at <= r["to"]:
        if not r.get("hashes"):
            tree.add(hole_leaf(at))
            at += 1
            continue
        need(hashes, "there are too few hashes of lost events")
        if at % 256 == 1 and at + 255 <= r["to"]:
            tree.add_full(hashes.pop(0), 256)
            at += 256
        else:
            tree.add(hashes.pop(0))
            at += 1
    need(not hashes, "there are too many hashes of lost events")


def find_lost(directory):
    """The lost ranges. The newest event that names lost positions names all of them."""
    ranges = []
    for line in lines_of(directory, "events.ndjson"):
        if b'"type":"daybook.ledger.volume_opened.v1"' in line:
            ranges = (losses(Event(line)) or (ranges, None))[0]
    return ranges


def verify(directory, keys, kept, max_age):
    """Returns the verdict and what was verified. keys are parsed; kept are the sizes and roots of kept checkpoints."""
    m = read_manifest(directory)
    listed = [parse_key(key) for key in m["vkeys"]]
    need(all(name == m["origin"] for name, _, _ in listed), "the manifest lists a key of another ledger")
    note = read(directory, "checkpoint")
    lines, trusted = open_checkpoint(note, keys)
    need(trusted or open_checkpoint(note, listed)[1], "the checkpoint is signed by none of the keys of the export")
    need([lines[0], lines[1], base64.b64encode(lines[2]).decode()] == [m["origin"], m["size"], m["root"]], "the manifest does not match the checkpoint")
    root, kept = lines[2], kept if trusted else []
    whole = not any(m[name] for name in ("since", "until", "tenant", "execution", "session"))
    complete = whole and m["from"] == 1 and m["to"] == m["size"]
    blobs = set(check_files(directory, m, complete))

    tree, selection, last, count, named, times, newest = Tree(), Selection(m), m["from"] - 1, 0, set(), [], None
    lost = find_lost(directory)
    for size, hash in kept:
        need(not any(not r.get("hashes") and r["from"] <= size < r["named_at"] for r in lost), "events of a kept checkpoint are lost")
        if complete:
            tree.kept.setdefault(size, []).append(hash)
        elif size == m["size"]:
            tree.compared.append((size, hash == root))
        elif size < m["size"]:
            raise Usage(f"the kept checkpoint of {size} events cannot be compared with a partial export")

    def missing_as_named(first, end):
        for r in lost:
            if first >= end:
                break
            if r["from"] <= first <= r["to"]:
                first = r["to"] + 1
        return first >= end

    proofs = None if complete else lines_of(directory, "proofs.ndjson")
    for line in lines_of(directory, "events.ndjson"):
        e = Event(line)
        need(e.seq > last and (not whole or e.seq == last + 1 or missing_as_named(last + 1, e.seq)), f"event {last} is followed by {e.seq}")
        need(count or e.seq == m["from"] or whole and missing_as_named(m["from"], e.seq), "the first event is not the one in the manifest")
        need(selection.has(e), f"event {e.seq} does not match the selection")
        if m["since"] or m["until"]:
            at = Selection.instant(e.attribute("ce-time"))
            times = [min(times + [at]), max(times + [at])]
        newest = e.attribute("ce-time") or newest
        leaf = leaf_hash(e.record())
        if complete:
            for r in lost:
                if last < r["from"] < e.seq:
                    add_lost(tree, r)
            tree.add(leaf)
        else:
            raw = next(proofs, None)
            need(raw is not None, f"event {e.seq} has no proof")
            p = parse(raw, "a proof")
            need(isinstance(p, dict) and list(p) == ["sequence", "hashes"] and isinstance(p["hashes"], list), "a proof has the wrong form")
            need(dump(p) == raw and p["sequence"] == str(e.seq), f"the proof of event {e.seq} is for another event")
            hashes = [unhash(h, "a hash of a proof") for h in p["hashes"]]
            need(root_of_proof(leaf, e.seq - 1, m["size"], hashes) == root, f"event {e.seq} is not in the signed tree")
        tenant, gone = e.attribute("ce-tenant"), losses(e)
        named.update(blob for blob in blobs_named(e) if not m["tenant"] or blob[0] != "@ledger")
        if gone:
            named -= gone[1]
        if e.attribute("ce-type") == "daybook.blobs.lost.v1":
            named -= {(tenant, f"blobs/{b['kind']}-{b['sha256']}") for b in parse(e.data, "the data of an event")["blobs"]}
        if e.attribute("ce-type") == "daybook.heap.collected.v1":
            named.discard((tenant, "blobs/heap-" + parse(e.data, "the data of an event")["heap"]))
        last, count = e.seq, count + 1
    if complete:
        need(tree.size == m["size"] and tree.root() == root, "the tree hash of the events is not the signed one")
    else:
        need(next(proofs, None) is None, "there are more proofs than events")
    need(count == m["events"], "the number of events is not the one in the manifest")
    need(last == m["to"], "the last event is not the one in the manifest")
    for name, i in (("since", 0), ("until", 1)):
        need(not m[name] or times[i] == Selection.instant(m[name]), "the manifest's times are not those of the events")
    need(blobs == ({name for _, name in named} if m["blobs"] else set()), "the blobs are not the ones that the events name")
    for name in blobs:
        listed_hash = next(f["sha256"] for f in m["files"] if f["name"] == name)
        need(name.endswith(listed_hash), f"{name} has another hash")
    need(not any(size < m["size"] for size in tree.kept), "a kept checkpoint ends within lost events")
    text = f"{count} events ({'complete' if complete else 'a part'}) of {m['origin']}, under the checkpoint of {m['size']}"
    for size, same in tree.compared:
        if not same:
            return "FORKED", f"the kept checkpoint of {size} events contradicts the signed tree of {m['size']}"
    for size, _ in kept:
        if size > m["size"]:
            return "ROLLED BACK", f"the kept checkpoint covers {size} events, the export ends at {m['size']}"
    if not trusted:
        return ("WRONG KEY" if keys else "UNAUTHENTICATED"), text
    if max_age and (not newest or datetime.now(timezone.utc) - Selection.instant(newest) > max_age):
        return "INTACT UP TO", f"{m['size']} " + text
    return "INTACT", text


def verdict(directory, *options):
    try:
        return verify(directory, *options)
    except (Bad, KeyError, TypeError, AttributeError, UnicodeError) as e:
        return "NOT INTACT", str(e)


def duration(text):
    parts = re.fullmatch(r"(?:([0-9]+)h)?(?:([0-9]+)m)?(?:([0-9]+)s)?", text)
    if not text or not parts:
        raise Usage(f"--max-age {text}: write a time such as 24h or 90m")
    return timedelta(**{unit: int(n or 0) for unit, n in zip(("hours", "minutes", "seconds"), parts.groups())})


def kept_checkpoint(path, keys):
    try:
        with open(path, "rb") as f:
            lines, trusted = open_checkpoint(f.read(), keys)
    except (OSError, Bad) as e:
        raise Usage(f"--checkpoint {path}: {e}") from None
    if not trusted:
        raise Usage(f"--checkpoint {path}: give the key that signed it, with --key")
    return lines[1], lines[2]


def main(args):
    given, as_json = {"--key": [], "--checkpoint": [], "--max-age": []}, False
    try:
        while args and (args[0] in given and len(args) > 1 or args[0] == "--json"):
            as_json = as_json or args[0] == "--json"
            given.get(args[0], []).extend(args[1:2])
            args = args[1 if args[0] == "--json" else 2:]
        try:
            keys = [parse_key(key) for key in given["--key"]]
        except Bad as e:
            raise Usage(f"--key: {e}") from None
        options = keys, [kept_checkpoint(path, keys) for path in given["--checkpoint"]], duration(given["--max-age"][-1]) if given["--max-age"] else None
        if args == ["--batch"]:  # a directory a line, a verdict a line: for tests
            for line in sys.stdin:
                print(*verdict(line.rstrip("\n"), *options), flush=True)
            return 0
        if len(args) != 1 or args[0].startswith("-"):
            raise Usage(__doc__.strip().split("\n\n")[1].strip())
        word, text = verdict(args[0], *options)
    except Usage as e:
        print(e, file=sys.stderr)
        return 2
    if as_json:
        print(json.dumps({"ok": word == "INTACT", "verdict": word.lower().replace(" ", "_"), "message": text}))
    else:
        print(word, text)
    return STATUS[word]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
