package proof

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Types of keys (C2SP signed-note). They are the first byte of a decoded key.
const (
	typeEd25519  = 0x01 // signatures of the text
	typeEd25519C = 0x04 // cosignatures, with a time
	typeMLDSA44C = 0x06 // cosignatures, with a time; this package cannot verify them
)

// mldsa44PublicBytes is the length of a public ML-DSA-44 key.
const mldsa44PublicBytes = 1312

// latestSeconds is the latest time of a cosignature, in the year 9999. Package time cannot compare all
// later times.
const latestSeconds = 253402300799

// WitnessKey is the public key of a witness.
type WitnessKey struct {
	// Name and ID identify the key in signatures.
	Name   string
	ID     uint32
	kind   byte
	public []byte
}

// ParseWitnessKey parses a verification key of a witness, in the form name+hash+base64. It accepts
// Ed25519 keys for cosignatures (type 4) and ML-DSA-44 keys (type 6).
func ParseWitnessKey(vkey string) (WitnessKey, error) {
	if err := refuseSigningKey(vkey); err != nil {
		return WitnessKey{}, err
	}
	name, rest, _ := strings.Cut(vkey, "+")
	id, encoded, _ := strings.Cut(rest, "+")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(raw) == 0 || len(id) != 8 || !validKeyName(name) {
		return WitnessKey{}, fmt.Errorf("%w: %.200q: a key has the form name+hash+base64", ErrBadKey, vkey)
	}
	k := WitnessKey{Name: name, ID: keyID(name, raw), kind: raw[0], public: raw[1:]}
	if number, err := strconv.ParseUint(id, 16, 32); err != nil || uint32(number) != k.ID {
		return WitnessKey{}, fmt.Errorf("%w: %.200q: the hash does not match name and key; copy it again", ErrBadKey, vkey)
	}
	if want := map[byte]int{typeEd25519C: ed25519.PublicKeySize, typeMLDSA44C: mldsa44PublicBytes}[k.kind]; want == 0 || want != len(k.public) {
		return WitnessKey{}, fmt.Errorf("%w: %.200q: it is not the key of a witness, which has type 4 (Ed25519) or 6 (ML-DSA-44)", ErrBadKey, vkey)
	}
	return k, nil
}

// String returns the key in the form that ParseWitnessKey parses.
func (k WitnessKey) String() string {
	return fmt.Sprintf("%s+%08x+%s", k.Name, k.ID, base64.StdEncoding.EncodeToString(append([]byte{k.kind}, k.public...)))
}

// Verifiable reports whether this package can verify signatures of the key. It cannot for ML-DSA-44.
func (k WitnessKey) Verifiable() bool { return k.kind == typeEd25519C }

// errBadCosignature is wrapped by errors about a cosignature that does not belong to the checkpoint.
var errBadCosignature = errors.New("the cosignature is wrong")

// Cosigned returns the newest time at which the witness cosigned a checkpoint, and reports whether it
// did. It verifies every cosignature of this key in the note; a wrong one is an error that wraps
// errBadCosignature. Cosignatures of keys that are not Verifiable count as absent.
func (k WitnessKey) Cosigned(n Note) (newest time.Time, ok bool, err error) {
	for _, s := range n.Signatures {
		if s.Name != k.Name || s.ID != k.ID || !k.Verifiable() {
			continue
		}
		at, err := k.verify(n.Text, s.Raw)
		if err != nil {
			return time.Time{}, false, err
		}
		if !ok || at.After(newest) {
			newest, ok = at, true
		}
	}
	return newest, ok, nil
}

// verify verifies a cosignature and returns its time.
func (k WitnessKey) verify(text string, raw []byte) (time.Time, error) {
	wrong := fmt.Errorf("%w: witness %s", errBadCosignature, k.Name)
	if len(raw) != 8+ed25519.SignatureSize {
		return time.Time{}, wrong
	}
	seconds := binary.BigEndian.Uint64(raw)
	if seconds == 0 || seconds > latestSeconds || !ed25519.Verify(k.public, cosigned(text, seconds), raw[8:]) {
		return time.Time{}, wrong
	}
	return time.Unix(int64(seconds), 0).UTC(), nil
}

// cosigned returns the message that a cosignature signs (C2SP tlog-cosignature).
func cosigned(text string, seconds uint64) []byte {
	return fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text)
}

// keyID returns the ID of a key. key starts with its type.
func keyID(name string, key []byte) uint32 {
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	return binary.BigEndian.Uint32(sum[:])
}

// WitnessSigner is the private key of a witness. It makes cosignatures (C2SP tlog-cosignature, Ed25519).
type WitnessSigner struct {
	key     WitnessKey
	private ed25519.PrivateKey
}

// NewWitnessSigner returns the signer with a name and a seed of 32 random bytes. The same seed MUST NOT be
// used under two names: the signed message does not contain the name.
func NewWitnessSigner(name string, seed []byte) (*WitnessSigner, error) {
	if !validKeyName(name) {
		return nil, badName(name)
	}
	if len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("the seed of a key has %d bytes, not %d", len(seed), ed25519.SeedSize)
	}
	private := ed25519.NewKeyFromSeed(seed)
	public := []byte(private.Public().(ed25519.PublicKey))
	return &WitnessSigner{WitnessKey{Name: name, ID: keyID(name, append([]byte{typeEd25519C}, public...)), kind: typeEd25519C, public: public}, private}, nil
}

// ParseWitnessSigner parses what Encode returns.
func ParseWitnessSigner(text string) (*WitnessSigner, error) {
	malformed := errors.New("it is not the private key of a witness: PRIVATE+KEY+name+hash+base64")
	parts := strings.SplitN(text, "+", 5)
	if len(parts) != 5 || parts[0] != "PRIVATE" || parts[1] != "KEY" {
		return nil, malformed
	}
	raw, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(raw) == 0 || raw[0] != typeEd25519C {
		return nil, malformed
	}
	s, err := NewWitnessSigner(parts[2], raw[1:])
	if err != nil {
		return nil, err
	}
	if s.Encode() != text {
		return nil, malformed
	}
	return s, nil
}

// Encode returns the private key as text. It is secret.
func (s *WitnessSigner) Encode() string {
	return fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", s.key.Name, s.key.ID, base64.StdEncoding.EncodeToString(append([]byte{typeEd25519C}, s.private.Seed()...)))
}

// Key returns the public key.
func (s *WitnessSigner) Key() WitnessKey { return s.key }

// Cosign signs the text of a checkpoint. It is a statement that at the given time, which is cut to
// seconds, the checkpoint was the largest one that the witness had seen of its origin, and consistent with
// all before. The caller MUST have made sure of that, durably.
func (s *WitnessSigner) Cosign(text string, at time.Time) (Signature, error) {
	if _, err := parseText(text, nil); err != nil {
		return Signature{}, err
	}
	if at.Unix() <= 0 {
		return Signature{}, errors.New("a cosignature needs a time after 1970")
	}
	seconds := uint64(at.Unix())
	raw := append(binary.BigEndian.AppendUint64(nil, seconds), ed25519.Sign(s.private, cosigned(text, seconds))...)
	return Signature{Name: s.key.Name, ID: s.key.ID, Raw: raw}, nil
}
