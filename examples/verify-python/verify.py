#!/usr/bin/env python3
"""Verifies an export of a Daybook ledger with only the files of this directory and Python.

It shares no code with Daybook and was written from docs/integrity.md and docs/reference/proof-formats.md alone.
SHA-256 and JSON come from the standard library. The files beside this one are: ed25519.py, the signature routine (RFC
8032); notes.py, signed notes and checkpoints; signers.py, the statements about the signers; policy.py, the cosignatures of
witnesses; payload.py, the payloads of events; tree.py, the Merkle tree (RFC 6962).

It checks that the manifest covers every byte of every file, the tree every event and the signature the tree; that the
checkpoints and the statements about signers among the events agree with the tree; that events are in order and match
the selection; and that blobs have their hashes. "daybook verify --export" also checks the rules of the ledger (one end
per execution, attempts and entries without a gap, output hashes), and the form of payloads. The verdicts and the exit status are the same:
0 INTACT (INTACT PART: not everything that the checkpoint covers), 1 NOT INTACT, 2 a mistake in the command line,
6 WRONG KEY, 7 UNAUTHENTICATED, 8 INTACT UP TO n (the newest event is older than --max-age, fewer than --signers signers cover
it, or too few witnesses of --witness-policy cosigned the checkpoint), 9 FORKED, 10 ROLLED BACK.
"""

import argparse
import hashlib
import json
import re
import sys
from collections import namedtuple
from datetime import datetime, timedelta, timezone
from functools import cached_property
from pathlib import Path

sys.dont_write_bytecode = True  # the imports below leave no files here

from notes import Checkpoint, need, number, parse, parse_key, read_small, sha256, unbase64, unhash
from payload import check_payload, dump, parse_payload
from policy import Policy
from signers import Signers, Statement
from tree import Losses, Tree, root_of_proof

STATUS = {"INTACT": 0, "NOT INTACT": 1, "WRONG KEY": 6, "UNAUTHENTICATED": 7, "INTACT UP TO": 8, "FORKED": 9, "ROLLED BACK": 10}

class Usage(Exception):
    """The command line has a mistake."""

DATA_ERRORS = ValueError, OSError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError  # of malformed data
MAX_LINE = (512 << 10) * 4 // 3 + 12 * 65535  # an event in base64 and its headers

# --- The files of an export ---
def open_file(path):
    """Opens a file of an export. An export comes from others: a pipe or a device in it could have no end."""
    need(path.is_file(), f"{path.name} is missing, or is no regular file")
    return path.open("rb")

def lines_of(path):
    with open_file(path) as f:
        while line := f.readline(MAX_LINE):
            need(line.endswith(b"\n"), f"a line of {path.name} is longer than {MAX_LINE} bytes, or the last one has no end")
            yield line[:-1]

MANIFEST = {
    "format": str, "origin": str, "vkeys": list, "size": int, "root": str, "from": int, "to": int, "since": str, "until": str, "tenant": str,
    "execution": str, "session": str, "events": int, "blobs": bool, "signers": str, "files": list,
}

def read_manifest(directory):
    raw = read_small(open_file(directory / "manifest.json"), 256 << 20)
    m = parse(raw)
    need([*m] == [name for name in MANIFEST if name != "signers" or m.get(name)], "the members of the manifest are missing or out of order")
    need(all(type(m[name]) is MANIFEST[name] for name in m), "a member of the manifest has the wrong type")
    need(m["format"] == "daybook-export-v1", "the export has an unknown format")
    need(all([(name, type(f[name])) for name in f] == [("name", str), ("bytes", int), ("sha256", str)] for f in m["files"]), "the manifest has an invalid file entry")
    json.dumps(m, ensure_ascii=False).encode()  # fails if a text has half of a surrogate pair
    need(dump(m) + b"\n" == raw, "the manifest is not in its canonical form")
    need(0 < m["from"] <= m["to"] <= m["size"] < 2**63, "the manifest's range is empty or beyond its checkpoint")
    return m

def check_files(directory, m, wanted):
    """Compares the files with the manifest. Returns the names of the blobs."""
    names = [f["name"] for f in m["files"]]
    blobs = names[len(wanted):]
    need(names[:len(wanted)] == wanted and blobs == sorted(set(blobs)), "the manifest does not list the files that an export has")
    for f in m["files"]:
        need(f["name"] in (*wanted, "blobs/heap-" + f["sha256"], "blobs/text-" + f["sha256"]), f"{f['name']!r:.80} is not a blob with its hash")
        digest, size = hashlib.sha256(), 0
        with open_file(directory / f["name"]) as file:
            while chunk := file.read(1 << 20):
                digest.update(chunk)
                size += len(chunk)
        need((size, digest.hexdigest()) == (f["bytes"], f["sha256"]), f"{f['name']} is not the file that the manifest lists")
    paths = [path for path in directory.rglob("*") if path != directory / "blobs" or path.is_symlink() or not path.is_dir()]
    there = {path.relative_to(directory).as_posix() for path in paths}
    need(there == {"manifest.json", *names}, "there are files that the manifest does not list")
    return set(blobs)

ATTRIBUTES = {name: "ce-" + name for name in (
    "specversion", "id", "source", "type", "subject", "time", "tenant", "traceparent", "recordversion")} | {"datacontenttype": "content-type"}
DELIVERY = {"Nats-" + name for name in (
    "Stream", "Subject", "Sequence", "Time-Stamp", "Last-Sequence", "Num-Pending", "UpTo-Sequence", "Msg-Size", "Stream-Source")}

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)

class Event:
    """A line of events.ndjson."""

    def __init__(self, line):
        need(line[-1:] == b"}", "a line is not an object")
        head, plain, self.data = line[:-1].partition(b',"data":')
        if plain:
            need(b"\r" not in self.data, "the data of a line holds a line end")
            self.json = parse_payload(self.data)
        else:
            head, coded, data = line[:-1].partition(b',"data_base64":"')
            need(coded and data[-1:] == b'"', "a line is not an event with data")
            self.data = unbase64(data[:-1].decode())
        members = parse(head + b"}")
        self.seq, self.subject, self.headers = number(members["sequence"]), members["natssubject"], members["natsheaders"]
        need(self.seq and re.fullmatch(r"[^ \t\r\n]+", self.subject), f"event {self.seq} has no position or subject")
        self.parse_headers()
        again = {name: self.header[header] for name, header in ATTRIBUTES.items() if header in self.header}
        again.update(sequence=members["sequence"], natssubject=self.subject, natsheaders=self.headers)
        need(dump(again)[:-1] == head, f"event {self.seq} is not in its canonical form, or contradicts itself")
        self.kind, self.tenant, self.time = (self.header.get(name, "") for name in ("ce-type", "ce-tenant", "ce-time"))

    @cached_property
    def json(self):
        return parse_payload(self.data)

    def parse_headers(self):
        pairs = re.findall("([^: \t\r\n]+): ([^\r\n]*)\n", self.headers)
        names = [name for name, _ in pairs]
        again = "".join(name + ": " + value.strip(" \t") + "\n" for name, value in pairs)
        need(again == self.headers and names == sorted(names) and not DELIVERY.intersection(names), f"the headers of event {self.seq} are malformed")
        self.header = dict(reversed(pairs))  # the first value of each
        self.version = self.header.get("ce-recordversion", "1")
        if "ce-recordversion" in self.header:
            need(self.version == "2", f"a record has version {self.version!r:.80}; a newer verifier is needed")
            covered = all(re.fullmatch("ce-[a-z0-9]+|content-type", name, re.ASCII) for name in names)
            need(covered and len(names) == len(self.header), f"event {self.seq} has a header twice, or one that its record does not cover")

    def record(self):
        """The data that the leaf is the hash of."""
        record = f"daybook-event-v{self.version}\n{self.seq}\n{self.subject}\n{self.headers}\n{sha256(self.data).hex()}\n".encode()
        need(len(record) < 64 << 10, f"the record of event {self.seq} is not shorter than 64 KiB")
        return record

ABOUT = {"daybook.heap.tagged.v1": ["execution_id"], "daybook.session.entry_recorded.v1": ["execution_id"], "daybook.heap.migrated.v1": ["last_execution_id", "run_id"]}  # the executions of events with another subject

class Selection:
    """The selection in the manifest, which all events must match."""

    def __init__(self, m):
        self.m, self.since, self.until, self.timed = m, "", "", bool(m["since"] or m["until"])
        self.filtered = self.timed or any(m[name] for name in ("tenant", "execution", "session"))

    def has(self, e):
        if self.timed:  # all times have the same form
            self.since, self.until = min(self.since or e.time, e.time), max(self.until, e.time)
        of_ledger, of_tenant = e.tenant == "@ledger", self.m["tenant"] in ("", e.tenant)
        if not self.m["execution"] and not self.m["session"]:
            return of_ledger or of_tenant
        return of_tenant and not of_ledger and self.has_execution(e, self.m["session"])

    def has_execution(self, e, session):
        about = [e.json[name] for name in ABOUT.get(e.kind, ()) if e.json.get(name)]
        if e.kind not in ABOUT and not e.kind.startswith("daybook.webhook."):
            about = re.findall(r"\A[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z", e.header.get("ce-subject", ""))
        if not session or self.m["execution"] and self.m["execution"] not in about:
            return self.m["execution"] in about
        if e.kind in ("daybook.session.entry_recorded.v1", "daybook.execution.requested.v1"):
            return session in (e.json.get("session"), (e.json.get("turn") or {}).get("session_id"))
        if e.kind.startswith(("daybook.session.", "daybook.acp.")) and e.kind != "daybook.session.shredded.v1":
            return session in (e.json.get("session_id"), e.json.get("session"))
        return bool(about)  # an execution whose request was checked, or is before the range

ENDS = {f"daybook.execution.{how}.v1": ("result", "error") for how in ("completed", "failed", "timed_out", "cancelled")}
TEXTS = ENDS | {"daybook.host.called.v1": ["arguments"], "daybook.host.returned.v1": ["result"], "daybook.execution.requested.v1": ("source", "globals", "files"), "daybook.execution.modules_loaded.v1": ["bundle"]}

def track_blobs(e, named):
    """Adds the blobs that an event names, each as a tenant and a file. Removes those that it says are lost or collected."""
    if e.kind in TEXTS or e.kind == "daybook.execution.started.v1":
        plain = (e.json.get("content") or {}).get("plain") or {}
        for text in [plain.get(member) for member in TEXTS[e.kind]] if e.kind in TEXTS else [e.json.get("callable"), *({"blob": m["module"]} for m in e.json.get("wasm_modules") or ())]:
            if text and text.get("blob"):
                named.add((e.tenant, "blobs/text-" + text["blob"]["sha256"]))
        if e.kind in ENDS and e.json.get("heap"):
            named.add((e.tenant, "blobs/heap-" + e.json["heap"]["sha256"]))
    elif e.kind == "daybook.module.admitted.v1":
        named.update((e.tenant, "blobs/text-" + p["tarball"]["sha256"]) for p in e.json["packages"])
    elif e.kind == "daybook.ledger.volume_removed.v1" and (e.json.get("kept") or {}).get("sha256"):
        named.add(("@ledger", "blobs/text-" + e.json["kept"]["sha256"]))
    elif e.kind == "daybook.heap.migrated.v1" and e.json.get("new_heap"):
        named.add((e.tenant, "blobs/heap-" + e.json["new_heap"]))
    elif e.kind == "daybook.heap.collected.v1":
        named.discard((e.tenant, "blobs/heap-" + e.json["heap"]))
    elif e.kind in ("daybook.blobs.lost.v1", "daybook.ledger.volume_opened.v1"):  # the latter listed those of all tenants in earlier versions
        lost = e.json.get("blobs") or e.json.get("lost_blobs") or []
        named.difference_update((b.get("tenant", e.tenant), f"blobs/{b['kind']}-{b['sha256']}") for b in lost)

# --- Verification ---
def note_of(e):
    """The statement about the signers or the checkpoint that an event records, or None. A volume may be sealed without one."""
    if e.kind == "daybook.ledger.signers_changed.v1":
        s, ended = Statement(e.json["note"].encode()), e.json.get("ended") or {}
        same = dump([e.json[name] for name in ("origin", "number", "action", "key")]) == dump([s.origin, s.number, s.action, s.key.text])
        need(same and ended.get("origin", "") == s.predecessor, f"event {e.seq} differs from the statement in it")
        s.reason = ended.get("reason", "")
        return s
    data = {"daybook.ledger.checkpointed.v1": e.json, "daybook.ledger.volume_sealed.v1": e.json.get("closing")}.get(e.kind)
    if data is None:
        return None
    c = Checkpoint(data["note"].encode())
    same = dump([data[name] for name in ("origin", "size", "root_hash")]) == dump([c.origin, c.size, c.lines[2]])
    need(same, f"event {e.seq} differs from its checkpoint")
    need(c.size < e.seq, f"the checkpoint in event {e.seq} covers more events than there were")
    return c

class Verifier:
    """Verifies the export in a directory with the given keys."""

    def __init__(self, directory, given):
        m = self.m = read_manifest(directory)
        self.directory, self.selection, self.c = directory, Selection(m), Checkpoint(read_small(open_file(directory / "checkpoint"), 64 << 10))
        listed = [parse_key(key) for key in m["vkeys"]]
        need(all((key.name, key.text) == (m["origin"], text) for key, text in zip(listed, m["vkeys"])), "a key in the manifest is of another ledger, or not in its only form")
        self.given = self.signers = Signers(m.get("signers", ""), given)
        need(not self.signers.list or self.signers.list[-1].origin == self.c.origin, "the list of signers does not end with the origin of the checkpoint")
        self.is_trusted = bool(self.signers.signed(self.c))
        if not self.is_trusted:  # verify the rest with the keys of the export
            self.signers = Signers(m.get("signers", ""), listed)
            need(self.signers.signed(self.c), "the checkpoint is signed by none of the keys of the export")
        need([self.c.origin, self.c.size, self.c.root] == [m["origin"], m["size"], unhash(m["root"])], "the manifest does not match the checkpoint")
        self.proven = self.selection.filtered or (m["from"], m["to"]) != (1, m["size"])
        self.last, self.count, self.newest, self.named = m["from"] - 1, 0, "", set()
        self.losses, self.notes, self.removed, self.ends = Losses(), {}, set(), {}
        # What contradicts the events, by the number of events that it covers; the size of the largest checkpoint of the export that
        # holds; and whether one holds that only other keys signed, such as retired ones.
        self.contradictions, self.signed, self.foreign = {}, 0, False
        # The largest checkpoint of each key that holds, the time of the newest event that checkpoints of a size cover, and the last event
        # that is no checkpoint.
        self.sizes, self.times, self.last_other = {}, {}, 0

    def look_ahead(self):
        """Finds what events say about those before them. The newest event that names lost positions names all of them."""
        for line in lines_of(self.directory / "events.ndjson"):
            e = Event(line) if b'"type":"daybook.ledger.' in line else None
            if e and e.kind == "daybook.ledger.volume_opened.v1" and e.json["reason"] == "damage":
                self.losses.add(e)
            elif e and e.kind == "daybook.ledger.volume_removed.v1":
                need(e.json["last"] < e.seq, f"event {e.seq} records that positions were removed which come later")
                self.removed.add(e.json["last"])
            elif e and note_of(e):
                self.notes[e.seq] = note_of(e)
        self.lost = self.losses.checked()

    def check_events(self, kept):
        """Checks all events and computes the tree hashes that notes are compared with."""
        sizes = {note.size for note in [self.c, *kept, *self.notes.values()]}
        self.tree, sizes = Tree(sizes), sorted(sizes, reverse=True)
        self.unhashed = (1 << 24) + (self.directory / "events.ndjson").stat().st_size  # how many more hashes of lost positions may be computed
        proofs = lines_of(self.directory / "proofs.ndjson") if self.proven else iter(())
        for line in lines_of(self.directory / "events.ndjson"):
            e = Event(line)
            need(self.last < e.seq <= self.m["to"], f"event {self.last} is followed by {e.seq}")
            known = e.kind and e.tenant and TIME.fullmatch(e.time) and time_of(e.time) and e.header.get("ce-id")
            need(known and e.header.get("ce-specversion") == "1.0", f"event {e.seq} lacks an attribute, or is of another version of CloudEvents")
            check_payload(e)
            need(self.selection.has(e), f"event {e.seq} does not match the selection")
            self.take_lost(e)
            while sizes and sizes[-1] < e.seq:
                self.times[sizes.pop()] = self.newest
            leaf = sha256(b"\0" + e.record())
            if self.proven:
                self.check_proof(e.seq, leaf, next(proofs, b""))
            else:
                self.tree.add(leaf)
            self.last, self.count, self.newest = e.seq, self.count + 1, e.time
            track_blobs(e, self.named)
            if e.kind != "daybook.ledger.checkpointed.v1":
                self.last_other = e.seq
        need(next(proofs, None) is None, "there are more proofs than events")
        need([self.count, self.last] == [self.m["events"], self.m["to"]], "the manifest has another number of events, or another last one")
        for name, time in ("since", self.selection.since), ("until", self.selection.until):
            need(self.m[name] in ("", time), f"the manifest's {name} is not the time of an event")
        need(self.proven or self.tree.size == self.c.size, "the events are not those that the checkpoint covers")

    def take_lost(self, e):
        """Checks that the positions before an event are lost, if the export has all of its range, and adds them to the tree."""
        first = self.last + 1
        for r in (self.losses.before(first, e.seq) if self.count else self.lost) if first < e.seq and not self.selection.filtered else ():
            if r.first <= first <= r.last:
                first = r.last + 1
                if not self.proven:
                    self.unhashed -= 0 if r.hashes else r.last - r.first + 1
                    need(self.unhashed >= 0, f"event {r.named_at} names more lost positions without their hashes than can be verified")
                    r.add_to(self.tree)
        need(first >= e.seq or self.selection.filtered and (self.count or e.seq == self.m["from"]), f"event {self.last} is followed by {e.seq}")

    def check_proof(self, seq, leaf, line):
        p = parse(line)
        is_valid = [*p] == ["sequence", "hashes"] and p["sequence"] == str(seq) and type(p["hashes"]) is list
        need(is_valid and dump(p) == line, f"the proof of event {seq} is malformed")
        root = root_of_proof(leaf, seq - 1, self.c.size, [unhash(h) for h in p["hashes"]])
        need(root == self.c.root, f"event {seq} is not in the signed tree")

    def check_notes(self):
        """Checks the statements and the checkpoints among the events, in their order, and then the checkpoint of the export."""
        started, first = 0, next((seq for seq, s in self.notes.items() if isinstance(s, Statement) and s.action == "start"), 0)
        for seq, note in self.notes.items():
            known = not self.proven and not any(r.hides(note.size) for r in self.lost)
            if isinstance(note, Checkpoint) and not self.proven:
                self.check_recorded(note, known, first)
            elif isinstance(note, Statement) and not (note.number == 0 and note.action == "start" and (  # another server started too; a part may begin later
                    started or self.proven and any(s.text != note.text for s in self.signers.list[:1]))):
                self.signers.record(note)
                started = started or (seq if note.action == "start" else 0)
                if note.predecessor:
                    self.ends[note.origin] = {"position": seq, "reason": note.reason}
                need(not note.predecessor or note.size < seq, f"the origin {note.origin} confirms more events than there were")
                same = not known or not note.predecessor or self.tree.roots[note.size] == note.root
                need(same, f"event {seq} starts the origin {note.origin} with another tree hash than that of the events")
                unknown = not self.proven and any(not r.hashes and r.hides(note.size) for r in self.lost)
                ended = not unknown or any(s.number > note.number and s.predecessor and s.size < note.size for s in self.signers.list)
                need(ended or not note.predecessor, f"the origin {note.origin} starts after lost events whose hashes are unknown; it had to end, and it did not")
        if not self.proven:
            self.signers.check_listed(self.c, self.lost)
        self.check_recorded(self.c, True, first)

    def check_recorded(self, c, known, started):
        signed = self.signers.signed(c)
        if self.signers.supersedes(c) and (signed or self.signers.named(c)):
            return
        if known and (self.c.root if self.proven else self.tree.roots[c.size]) != c.root:
            need(signed, f"a recorded checkpoint of {c.size} events contradicts them, and none of the keys signed it")
            self.contradictions[c.size] = "the checkpoint of the export" if c is self.c else f"a recorded checkpoint of {c.size} events"
        elif known:
            self.holds(c, signed)
            self.signed = max(self.signed, c.size if signed else 0)
            self.foreign = self.foreign or not signed
        for r in self.lost if signed and not known else ():
            need(r.hashes or not r.hides(c.size) or not started or r.named_at < started, f"a checkpoint of {c.size} events cannot be compared, "
                 "because events were lost and their hashes too; the origin had to end, and it did not")

    def holds(self, c, keys):
        """Notes that a checkpoint that some keys signed agrees with the tree."""
        for key in keys:
            self.sizes[key] = max(self.sizes.get(key, 0), c.size)

    def check_usable(self, kept, smallest=0):
        """Refuses kept checkpoints of other ledgers, and those of fewer events than a size."""
        origins = {self.m["origin"]}.union(*((s.origin, s.predecessor) for s in self.signers.list))
        for c in kept:
            if c.origin not in origins or c.size < smallest:
                raise Usage(f"the kept checkpoint of {c.size} events of {c.origin} cannot be compared with this export of {self.m['origin']}")

    def compare_kept(self, kept):
        """Compares kept checkpoints with tree hashes. Returns the largest size of those beyond the export, or 0."""
        kept = [c for c in kept if not self.signers.supersedes(c)]
        for c in kept:
            need(c.size > self.c.size or not any(r.hides(c.size) for r in self.lost), f"events of the kept checkpoint of {c.size} are lost")
            if c.size <= self.c.size and (self.c.root if self.proven else self.tree.roots[c.size]) != c.root:
                self.contradictions[c.size] = f"the kept checkpoint of {c.size} events"
            elif c.size <= self.c.size:
                self.holds(c, self.signers.signed(c))
        return max((c.size for c in kept if c.size > self.c.size), default=0)

    def covered(self, required):
        """The number of events that as many signers cover as are required, and the time of the newest one that each has signed. If only
        checkpoints follow, they count as covered: to sign them, each signer would have to record another one."""
        size = self.signers.covered(self.c.origin, required, self.sizes)
        newest = self.times.get(size, self.newest) if size else ""
        return self.c.size if size and self.last_other <= size else size, newest

Options = namedtuple("Options", "keys kept max_age signers policy")

def judge(v, options, report):
    """Returns the verdict on sound events that a trusted key signed, and the reason for INTACT UP TO."""
    up_to, at, reasons = v.signed, time_of(v.newest), []
    if options.signers > 1:
        count = len(v.signers.sources(v.c.origin))
        if count < options.signers:
            trusted = ", ".join(key.text for key in v.signers.trusted if key.name == v.c.origin)
            raise Usage(f"{options.signers} signers are required, and the trusted keys are those of {count}: {trusted}; give a key of each signer")
        covered, newest = v.covered(options.signers)
        up_to, at, report["quorum"] = min(up_to, covered), time_of(newest), {"required": options.signers, "size": covered}
        reasons += [f"fewer than {options.signers} signers cover more events"] if covered < v.last else []
    if options.policy:
        report["cosigned"] = {"size": 0}
        try:
            cosigned = options.policy.check(v.c, v.signers.list)
            report["cosigned"] = {"size": v.c.size, **({"time": f"{cosigned:%Y-%m-%dT%H:%M:%SZ}"} if cosigned else {})}
        except ValueError as e:
            up_to, cosigned, report["cosigned"]["reason"] = 0, None, str(e)
            reasons.append(str(e))
        at = at if options.policy.quorum == "none" else cosigned
    if options.max_age and not (at and timedelta(minutes=-10) <= datetime.now(timezone.utc) - at <= options.max_age):
        reasons.append("the newest event or cosignature that counts is older than --max-age, or of the future")
    elif up_to >= v.last:
        return "INTACT", ""
    return "INTACT UP TO", f"{up_to}: {'; '.join(reasons) or 'a successor gave up what the checkpoint says'}: "

def time_of(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None

def check_kept(directory, options):
    """Refuses kept checkpoints that no trusted key signed: a given one, or one that follows from it by the list of the export."""
    try:
        signers = Signers(read_manifest(directory).get("signers", ""), options.keys)
    except DATA_ERRORS:  # Verifier reports it
        signers = Signers("", options.keys)
    try:
        need(all(map(signers.signed, options.kept)), "no key that you gave signed the kept checkpoint, or only one that was retired at fewer events")
    except ValueError as e:
        raise Usage(f"{e}; give the key that signed the kept checkpoint with --key") from e

def verify(directory, options):
    """Returns the verdict, the report in words, and further members of it."""
    if not any((directory / name).exists() for name in ("manifest.json", "manifest.partial", "checkpoint", "events.ndjson", "proofs.ndjson")):
        raise Usage(f"there is no export in {directory}")
    check_kept(directory, options)
    v = Verifier(directory, options.keys)
    v.check_usable(options.kept)
    blobs = check_files(directory, v.m, ["checkpoint", "events.ndjson"] + ["proofs.ndjson"] * v.proven)
    v.look_ahead()
    v.check_usable(options.kept, v.c.size if v.proven else 0)
    v.check_events(options.kept)
    named = {name for tenant, name in v.named if tenant != "@ledger" or not v.m["tenant"]}
    need(blobs == (named if v.m["blobs"] else set()), "the blobs are not the ones that the events name")
    v.check_notes()
    beyond, m = v.compare_kept(options.kept), v.m
    origins = [{"ended": s.predecessor, "size": s.size, "origin": s.origin, "key": s.key.text, "trusted": s.key in v.given.trusted,
                **v.ends.get(s.origin, {})} for s in v.signers.list if s.predecessor]
    report = {"complete": not v.proven or not v.selection.filtered and m["to"] == m["size"] and m["from"] - 1 in v.removed, "origins": origins}
    text = f"{v.count} events of {m['origin']}, under the checkpoint of {m['size']}"
    if not report["complete"]:
        only = "".join(f", only {name} {m[name]!r}" for name in ("tenant", "execution", "session", "since", "until") if m[name])
        text += f": positions {m['from']} to {m['to']}{only}"
    if v.contradictions:
        size = min(v.contradictions)  # no checkpoint of a trusted key confirms the events beyond v.signed: they may have been changed
        word = "FORKED" if v.is_trusted and size <= v.signed else "NOT INTACT"
        text = f"{v.contradictions[size]} contradicts the tree over the events"
    elif beyond:
        word, text = "ROLLED BACK", f"the export is older than a checkpoint that you keep, of {beyond} events; ask for a newer one"
    elif not v.is_trusted or v.foreign and not v.signed:
        word = "WRONG KEY" if options.keys else "NOT INTACT" if v.foreign and not v.signed else "UNAUTHENTICATED"
    else:
        word, reason = judge(v, options, report)
        text = reason + text
    return word, [text, *map(words_of_end, origins)], report

def words_of_end(o):
    reason = f", as event {o['position']} says: {o['reason']}" if "reason" in o else ""
    unknown = "" if o["trusted"] else ", which you did not give: if the operator announced it, give it with --key too"
    return f"{o['ended']} ended after {o['size']} events{reason}; {o['origin']} continues, with the key {o['key']}{unknown}"

def verdict(directory, options):
    try:
        return verify(Path(directory), options)
    except DATA_ERRORS as e:
        return "NOT INTACT", [str(e) if isinstance(e, (ValueError, OSError)) else f"the data is malformed: {e!r}"], {"complete": False, "origins": []}

def visible(text):
    """Escapes line breaks and other characters that are not visible."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)

def seconds(text):
    """Parses 24h, 1h30m or 0."""
    parts = re.fullmatch(r"0|(?:([0-9.]+)h)?(?:([0-9.]+)m)?(?:([0-9.]+)s)?", text)
    need(text and parts, f"{text!r} is not a duration")
    return sum(float(n or 0) * unit for n, unit in zip(parts.groups(), (3600, 60, 1)))

def parse_keys(text):
    if "PRIVATE+KEY+" in text: raise argparse.ArgumentTypeError("this is a signing key, which must stay secret: give its verification key")
    return [parse_key(line.strip()) for line in text.split("\n") if line.strip()]

def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--key", action="extend", default=[], type=parse_keys, help="key to trust, or several on lines; may be repeated. Default: those in the export")
    parser.add_argument("--checkpoint", action="append", default=[], type=Path, help="file of a checkpoint that you kept; the export must extend its tree")
    parser.add_argument("--signers", type=int, default=1, help="number of signers that must cover the events. Keys of which one introduced the other count as one")
    parser.add_argument("--witness-policy", type=Path, help="file with the witnesses that must have cosigned the checkpoint. Without --key, the keys of its logs are trusted")
    parser.add_argument("--max-age", type=seconds, default=0, help="maximum age of the newest event, or with --witness-policy of the cosignatures, such as 24h")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--batch", action="store_true", help="verify the directories named on the lines of the standard input")
    parser.add_argument("dir", nargs="?", default="")
    args = parser.parse_args()
    sys.stdout.reconfigure(errors="backslashreplace")  # for what the terminal cannot show
    try:
        need(args.signers > 0, "--signers must be at least 1")
        policy = args.witness_policy and Policy(args.witness_policy)
        keys = args.key or (policy.logs if policy else [])
        options = Options(keys, [Checkpoint(read_small(path.open("rb"), 1 << 20)) for path in args.checkpoint], timedelta(seconds=args.max_age), args.signers, policy)
        for directory in (line.rstrip("\n") for line in sys.stdin) if args.batch else [args.dir]:
            word, lines, report = verdict(directory, options)
            if args.json:
                print(json.dumps({"ok": word == "INTACT", "verdict": word.lower().replace(" ", "_"), "message": lines[0], **report}), flush=True)
            else:
                print("INTACT PART" if word == "INTACT" and not report["complete"] else word, "\n  ".join(map(visible, lines[:1 if args.batch else None])), flush=True)
    except (Usage, ValueError, OSError, OverflowError) as e:
        parser.error(str(e))
    return 0 if args.batch else STATUS[word]

if __name__ == "__main__":
    sys.exit(main())
