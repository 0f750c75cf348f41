"""The Merkle tree of RFC 6962, its leaves for lost positions, and inclusion proofs."""

from notes import need, sha256, unhash

def node_hash(left, right):
    return sha256(b"\x01" + left + right)

class Tree:
    """The tree hash of a growing list of leaves: one hash per binary digit of its size. It keeps the roots of some sizes."""

    def __init__(self, sizes):
        self.size, self.parts, self.sizes, self.roots = 0, [], sizes, {0: sha256(b"")}

    def add(self, subtree, leaves=1):
        """Adds a leaf, or a subtree of leaves, whose number is a power of two that divides the size."""
        size, self.size = self.size // leaves, self.size + leaves
        while size & 1:
            subtree = node_hash(self.parts.pop(), subtree)
            size >>= 1
        self.parts.append(subtree)
        if self.size in self.sizes:
            root = self.parts[-1]
            for part in reversed(self.parts[:-1]):
                root = node_hash(part, root)
            self.roots[self.size] = root

class Lost:
    """A range of positions that an event records as lost. The hashes of its events are recorded, or not known."""

    def __init__(self, r, seq):
        self.first, self.last, self.named_at, self.hashes = r["from"], r["to"], r["named_at"], r.get("hashes") or []
        need(all(type(n) is int for n in (self.first, self.last, self.named_at)), f"event {seq} names lost positions that are no numbers")
        need(0 < self.first <= self.last < self.named_at <= seq, f"event {seq} names lost positions that cannot be lost")

        # Where the range has all 256 leaves of a full tile, they have one hash together.
        tiles = max(self.last // 256 - (self.first + 254) // 256, 0)
        need(len(self.hashes) in (0, self.last - self.first + 1 - 255 * tiles), f"event {seq} has another number of hashes than of lost positions")
        self.hashes = [unhash(text) for text in self.hashes]

    def add_to(self, tree):
        """Adds the leaves: those of holes, or the recorded ones, where 256 leaves of a full tile have one hash."""
        at, hashes = self.first, iter(self.hashes)
        while at <= self.last:
            leaves = 256 if self.hashes and at % 256 == 1 and at + 255 <= self.last else 1
            tree.add(next(hashes) if self.hashes else sha256(f"\0daybook-hole-v1\n{at}\n".encode()), leaves)
            at += leaves

    def hides(self, size):
        """Whether the tree of a size is not known, because leaves are not known, or only the hash of the tile around it."""
        tile = size - size % 256
        return size > tile >= self.first - 1 and tile + 256 <= self.last if self.hashes else self.first <= size < self.named_at

class Losses:
    """The lost positions that the openings of volumes because of damage name."""

    def __init__(self):
        # Those of the newest opening that names any, and of the newest opening. One of an earlier version names only the positions before it.
        self.list, self.named, self.names_all, self.holes = [], [], False, {}

    def add(self, e):
        """Reads the next opening. One that is not of its own position names nothing."""
        hole, self.names_all, is_own = e.json.get("hole"), bool(e.json.get("lost")), e.json["first"] == e.seq
        ranges = e.json.get("lost") or ([{**hole, "named_at": e.seq}] if hole else [])
        self.named = [Lost(r, e.seq) for r in ranges] if is_own else []
        need(all(a.last < b.first for a, b in zip(self.named, self.named[1:])), "lost positions are out of order")
        self.list = self.named or self.list
        if is_own and hole:
            self.holes[e.seq] = hole["from"], hole["to"]

    def checked(self):
        """The ranges that the newest opening names."""
        need(self.named or not self.list, "the newest event that names lost positions does not name those of an earlier one")
        return self.list

    def before(self, first, seq):
        """The ranges that can have the missing positions from the first one up to an event."""
        if self.named and not self.names_all and self.holes.get(seq) == (first, seq - 1):
            return [Lost({"from": first, "to": seq - 1, "named_at": seq}, seq)]
        return self.list

def root_of_proof(leaf, index, size, hashes):
    """The root that an inclusion proof leads to. Its last hash is that of the other subtree of the root."""
    if size == 1:
        need(not hashes, "a proof is too long")
        return leaf
    half = 1 << (size - 1).bit_length() - 1
    if index < half:
        return node_hash(root_of_proof(leaf, index, half, hashes[:-1]), hashes[-1])
    return node_hash(hashes[-1], root_of_proof(leaf, index - half, size - half, hashes[:-1]))
