"""Statements about the signers of a ledger, and the keys that are trusted by them."""

from notes import Note, need, number, parse_key, sha256, unhash

ROOT_PREFIX = "daybook-root/"  # begins the names of root keys, and of no origin

class Statement(Note):
    """A signed entry of the list of signers. Each has the hash of the one before it."""

    def __init__(self, raw):
        super().__init__(raw)
        need(self.lines[0] == "daybook-signers-v1" and len(self.lines) in (6, 8), "a statement about the signers has an unknown form")
        self.origin, self.number, self.previous = self.lines[1], number(self.lines[2]), unhash(self.lines[3])
        self.action, _, key = self.lines[4].partition(" ")
        self.key, self.size, self.predecessor = parse_key(key), number(self.lines[5]), ""
        need(self.action in ("start", "introduce", "retire", "root"), f"the action {self.action!r:.80} of a statement is unknown")
        need(self.key.text == key, "the key in a statement does not have the canonical form")
        named = self.key.name.startswith(ROOT_PREFIX) if self.action == "root" else self.key.name == self.origin
        need(self.origin and not self.origin.startswith(ROOT_PREFIX) and named, "a statement has a key with another name")
        if len(self.lines) == 8:
            self.predecessor, self.root = self.lines[6], unhash(self.lines[7])
            need(self.action == "start" and self.predecessor not in ("", self.origin), "a statement contradicts itself")

class Signers:
    """The list of statements of a ledger, and the keys that are trusted by it: those given, and those that they introduce."""

    def __init__(self, text, given):
        self.list, self.signers, self.roots = [], set(), set()  # the keys that may make statements about the current origin
        self.bytes = 0  # of the list as text
        self.given, self.trusted, self.retired = given, [*given], {}
        # The key that each trusted key follows from. Keys of one source count as one signer: who has stolen the source could have made
        # them up. Root keys that trusted keys added are here, and not in trusted: they sign no checkpoints.
        self.source = {key: key for key in given}
        parts = text.split("\n\n")  # each statement has an empty line before its signatures and after them
        need(parts.pop() == "" and len(parts) % 2 == 0, "the list of signers is cut off")
        for signed, signatures in zip(parts[::2], parts[1::2]):
            self.add(Statement(f"{signed}\n\n{signatures}\n".encode()))
        self.listed, self.recorded = len(self.list), set()  # how many were in the text, and the texts of those in events

    def add(self, s):
        if s.number < len(self.list) and self.list[s.number].text == s.text:
            return
        last = self.list[-1] if self.list else None
        previous = sha256(last.text.encode()) if last else bytes(32)
        need((s.number, s.previous) == (len(self.list), previous), f"statement {s.number} does not continue the list of signers")
        if s.action == "start":
            is_next = not last or s.predecessor == last.origin and all(s.origin != other.origin for other in self.list)
            self.signers, self.roots = {s.key}, set()
        else:
            is_next = last and s.origin == last.origin and (s.action != "retire" or s.key in self.signers)
        need(is_next, f"statement {s.number} about the signers contradicts those before it")
        self.bytes += s.bytes + 1
        need(self.bytes <= 4 << 20, "the list of signers is longer than 4 MiB")
        by = s.signed_by(self.signers | self.roots)
        need(by, f"no signer or root key of the origin signed statement {s.number} about the signers")
        self.list.append(s)
        self.trust(s, [key for key in by if key in self.source and key not in self.retired])
        if s.action == "retire":
            self.signers.discard(s.key)
        elif s.action == "introduce":
            self.signers.add(s.key)
        elif s.action == "root":
            self.roots.add(s.key)

    def trust(self, s, by):
        """Follows a statement that some trusted keys signed, where they may."""
        if s.action == "retire":  # a trusted key may have introduced the key since the retirement before
            self.retired[s.key] = min(s.size, self.retired.get(s.key, s.size))
        elif by and s.action == "root":
            self.source.setdefault(s.key, self.source[by[0]])
        elif by and s.action == "introduce":
            source = self.source[by[0]]
            if any(key in self.given for key in by if key.name.startswith(ROOT_PREFIX)):
                source = s.key
            elif s.key not in self.retired:  # a retired key may be a stolen one: it follows from the key that introduces it again
                source = self.source.get(s.key, source)
            self.trusted += [s.key] if s.key not in self.trusted else []
            self.retired.pop(s.key, None)
            self.source[s.key] = source

    def record(self, s):
        """Adds a statement of an event."""
        self.add(s)
        self.recorded.add(s.text)

    def check_listed(self, c, lost):
        """Checks that a complete export listed the statements that its checkpoint needs. If no events are lost, the events have all of them,
        except those that were recorded after the checkpoint: a retirement at a smaller size, and those before it."""
        ends = [i + 1 for i, s in enumerate(self.list) if s.origin == c.origin and (s.action == "start" or s.size < c.size)] or [0]
        need(self.listed == (0 if ends[-1] == 1 and not self.list[0].predecessor else ends[-1]), "the manifest does not list the statements about the signers that the events have")
        missing = [s.number for s in self.list[:self.listed] if s.text not in self.recorded]
        is_later = missing == [*range(self.listed - len(missing), self.listed)] and (not missing or self.list[self.listed - 1].action == "retire")
        need(is_later or lost, "the manifest lists statements about the signers that the events do not have")

    def signed(self, c):
        """The trusted keys that signed a checkpoint and were not retired before. A wrong signature is an error."""
        return c.signed_by([key for key in self.trusted if key.name == c.origin and not key.name.startswith(ROOT_PREFIX)
                            and c.size <= self.retired.get(key, c.size)])

    def named(self, c):
        """Whether one of the keys that the list names signed a checkpoint, trusted or not."""
        keys = {key for key in self.given + [s.key for s in self.list if s.action in ("start", "introduce")] if key.name == c.origin}
        try:
            return bool(c.signed_by(keys))
        except ValueError:
            return False

    def sources(self, origin):
        """The signers of an origin: the sources of the trusted keys, retired or not."""
        return {self.source[key] for key in self.trusted if key.name == origin}

    def covered(self, origin, required, sizes):
        """The number of events that as many signers cover as are required. sizes has the largest checkpoint of each key that holds."""
        by_source = {}
        for key in self.trusted:
            if key.name == origin and key not in self.retired:
                by_source[self.source[key]] = max(by_source.get(self.source[key], 0), sizes.get(key, 0))
        return sorted(by_source.values(), reverse=True)[required - 1] if len(by_source) >= required else 0

    def supersedes(self, c):
        """Whether a trusted successor of an ended origin, or a later one, gave up what a checkpoint says."""
        ends = [i for i, s in enumerate(self.list) if s.predecessor == c.origin]
        return any(s.predecessor and s.size < c.size and s.key in self.trusted for s in self.list[ends[0]:]) if ends else False
