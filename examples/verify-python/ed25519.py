"""Verifies signatures of Ed25519 (RFC 8032, section 5.1)."""

import hashlib

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P

def point_decode(raw):  # extended coordinates: x = X/Z, y = Y/Z, x*y = T/Z
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y % 2**255 % P
    x2 = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(x2, (P + 3) // 8, P)
    if (x * x - x2) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - x2) % P:
        raise ValueError("a key is not a point of the curve")
    x = x if x & 1 == sign else -x % P
    return x, y, 1, x * y % P

def point_add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P

BASE = point_decode((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))

def verify(public, message, signature):
    """Whether a signature of 64 bytes is that of a message under a public key of 32 bytes."""
    s = int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or s >= L:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    try:
        x, y, z, t = point_decode(public)
    except ValueError:  # nothing verifies under such a key
        return False
    minus = -x % P, y, z, -t % P
    terms = None, BASE, minus, point_add(BASE, minus)
    r = 0, 1, 1, 0
    for bit in reversed(range(L.bit_length())):  # r = s * BASE - h * public
        r = point_add(r, r)
        which = (s >> bit & 1) + 2 * (h >> bit & 1)
        r = point_add(r, terms[which]) if which else r
    inverse = pow(r[2], P - 2, P)
    return (r[1] * inverse % P | (r[0] * inverse % P & 1) << 255).to_bytes(32, "little") == signature[:32]
