"""The Merkle tree of RFC 6962, and inclusion proofs."""

from notes import need, sha256

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

def root_of_proof(leaf, index, size, hashes):
    """The root that an inclusion proof leads to. Its last hash is that of the other subtree of the root."""
    if size == 1:
        need(not hashes, "a proof is too long")
        return leaf
    half = 1 << (size - 1).bit_length() - 1
    if index < half:
        return node_hash(root_of_proof(leaf, index, half, hashes[:-1]), hashes[-1])
    return node_hash(hashes[-1], root_of_proof(leaf, index - half, size - half, hashes[:-1]))
