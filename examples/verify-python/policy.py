"""Witnesses: their cosignatures of a checkpoint (C2SP tlog-cosignature), and how many of them must have cosigned (C2SP tlog-policy)."""

import re
from datetime import datetime, timezone

import ed25519
from notes import Key, need, parse_key, read_small, split_key
from signers import Signers

LATEST = 253402300799  # the end of the year 9999
AHEAD = 600  # how many seconds the time of a cosignature may be in the future

class Policy:
    """Which witnesses must have cosigned a checkpoint."""

    def __init__(self, path):
        text = read_small(path.open("rb"), 1 << 20).decode(errors="surrogateescape")
        need(not re.search("[\x00-\x08\x0b-\x1f\x7f]", text), "the policy has a control character")
        self.logs, self.witnesses, self.groups, self.quorum = [], {}, {}, ""
        self.publics, self.members = set(), set()  # the public keys, each with its role, and the names that are in a group
        need("PRIVATE+KEY+" not in text, "the policy has a signing key, which must stay secret: give its verification key")
        for line in text.split("\n"):
            fields = [field for field in re.split("[ \t]+", line) if field]
            if fields and not fields[0].startswith("#"):
                self.add_line(*fields)
        need(self.quorum, "the policy has no quorum")

    def add_line(self, kind, *rest):
        if kind == "log" and len(rest) in (1, 2):  # the last of them is a URL
            self.logs.append(parse_key(rest[0]))
            self.add_public(kind, self.logs[-1].public)
        elif kind == "witness" and len(rest) in (2, 3):
            self.add_witness(*rest[:2])
        elif kind == "group" and len(rest) >= 3:
            self.add_group(rest[0], rest[1], rest[2:])
        elif kind == "quorum" and len(rest) == 1:
            need(not self.quorum, "the policy has two quorums")
            self.quorum = rest[0]
            need(self.quorum == "none" or self.is_defined(self.quorum), f"no line before defines {self.quorum!r:.80}")
        else:
            need(False, f"{kind!r:.80} does not start a line of a policy, or has too few or too many words after it")

    def add_witness(self, name, text):
        self.check_name(name)
        key_name, key_id, raw = split_key(text)
        need((raw[:1], len(raw)) in ((b"\4", 33), (b"\6", 1313)), f"{text!r:.80} is not the key of a witness")
        self.add_public("witness", raw[1:])
        # A cosignature of an ML-DSA-44 key (type 6) cannot be verified here. It counts as missing.
        self.witnesses[name] = Key(key_name, key_id, raw[1:], text) if raw[0] == 4 else None

    def add_public(self, role, public):
        need((role, public) not in self.publics, f"two keys of the role {role} have the same public key")
        self.publics.add((role, public))

    def add_group(self, name, threshold, members):
        need(all(map(self.is_defined, members)), f"no line before defines a member of {name!r:.80}")
        need(len(set(members)) == len(members) and not self.members.intersection(members), f"a member of {name!r:.80} is one of a group already")
        self.check_name(name)
        self.members.update(members)
        needed = {"all": str(len(members)), "any": "1"}.get(threshold, threshold)
        need(re.fullmatch("[1-9][0-9]{0,5}", needed, re.ASCII) and int(needed) <= len(members), f"{threshold!r:.80} is not all, any, or a number of members")
        self.groups[name] = int(needed), members

    def is_defined(self, name):
        return name in self.witnesses or name in self.groups

    def check_name(self, name):
        need(name != "none" and not self.is_defined(name), f"the name {name!r:.80} is taken")

    def check(self, c, statements):
        """Checks a checkpoint. Returns the latest time at which enough witnesses knew no larger one, or None if the policy requires
        no witness. A wrong signature of any key of the policy is an error. Cosignatures of the future do not count. Keys that the
        logs introduce in the statements about the signers are logs too."""
        logs = Signers("", self.logs)
        for s in statements:
            logs.add(s)
        need(logs.signed(c) or not self.logs, "no log of the policy signed the checkpoint")
        latest = datetime.now(timezone.utc).timestamp() + AHEAD
        times = {name: newest_cosignature(c, key) if key else 0 for name, key in self.witnesses.items()}
        if self.quorum == "none":
            return None
        times = {name: at if at <= latest else 0 for name, at in times.items()}
        who = ", ".join(name for name in times if times[name]) or "none"
        for name, (needed, members) in self.groups.items():  # their members are defined before
            times[name] = sorted((times[m] for m in members), reverse=True)[needed - 1]
        need(times[self.quorum], f"too few witnesses cosigned the checkpoint: {who} did")
        return datetime.fromtimestamp(times[self.quorum], timezone.utc)

def newest_cosignature(c, key):
    """The newest time at which a witness cosigned a checkpoint, in seconds since 1970, or 0."""
    newest = 0
    for signature in c.signatures_of(key):
        at = int.from_bytes(signature[:8], "big")
        message = f"cosignature/v1\ntime {at}\n{c.text}".encode()
        right = len(signature) == 72 and 0 < at <= LATEST and ed25519.verify(key.public, message, signature[8:])
        need(right, f"a cosignature of the witness {key.name} is wrong")
        newest = max(newest, at)
    return newest
