package events

import (
	"bytes"
	"compress/flate"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
)

// SealAlgorithm is how content is encrypted: AES-256 in Galois/Counter Mode, with
// a nonce of 12 random bytes.
const SealAlgorithm = "AES-256-GCM"

// Keys finds keys by their id. A key has 32 bytes.
type Keys interface {
	// SealKey returns a key, and false for one that is not known here, or was
	// destroyed.
	SealKey(id string) ([]byte, bool)
}

// sealable is content of any kind, in the payload it belongs to.
type sealable interface {
	sealed() *Sealed
	encode() ([]byte, error)
	decode(plain []byte) error
	replace(s *Sealed)
	hide()
}

// holder is a payload with content that can be encrypted.
type holder interface {
	sealable() sealable
	// prepared returns a copy whose content can be replaced without a trace in the
	// original, and the blobs that the content names.
	prepared() (copied Data, blobs []string)
}

func (c *Content[T]) sealed() *Sealed         { return c.Sealed }
func (c *Content[T]) encode() ([]byte, error) { return json.Marshal(c.Plain) }
func (c *Content[T]) replace(s *Sealed)       { c.Plain, c.Sealed = nil, s }

func (c *Content[T]) decode(plain []byte) error {
	c.Plain = new(T)
	return json.Unmarshal(plain, c.Plain)
}

func (c *Content[T]) hide() {
	if c.Sealed != nil {
		c.Plain = nil
	}
}

// MarshalJSON writes what is readable, if it is, and else what is encrypted.
func (c Content[T]) MarshalJSON() ([]byte, error) {
	type wire Content[T]
	if c.Plain != nil {
		c.Sealed = nil
	}
	return json.Marshal(wire(c))
}

// binding is what encrypted content is bound to: it cannot be decrypted as that
// of another event, tenant, execution or type.
func binding(e *Event, keyID string) []byte {
	return fmt.Appendf(nil, "daybook-sealed-v1\ntenant %s\nabout %s\ntype %s\nevent %s\nmember content\nkey %s\n", e.Tenant, e.About(), e.Type, e.ID, keyID)
}

func gcm(key []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Seal returns the event with its content encrypted under a key, and the
// original unchanged. An event without content, or whose content is encrypted
// already, is returned as it is.
func Seal(e Event, keyID string, keys Keys) (Event, error) {
	h, ok := e.Data.(holder)
	if !ok {
		return e, nil
	}
	if s := h.sealable().sealed(); s != nil && s.KeyID == keyID {
		Conceal(&e)
		return e, nil
	}
	key, ok := keys.SealKey(keyID)
	if !ok {
		return e, fmt.Errorf("encrypt %s under key %s: %w", e.Type, keyID, ErrShredded)
	}
	aead, err := gcm(key)
	if err != nil {
		return e, fmt.Errorf("encrypt %s: %w", e.Type, err)
	}
	data, blobs := h.prepared()
	content := data.(holder).sealable()
	plain, err := content.encode()
	if err != nil {
		return e, fmt.Errorf("encrypt %s: %w", e.Type, err)
	}
	sealed := &Sealed{KeyID: keyID, Algorithm: SealAlgorithm, Nonce: make([]byte, aead.NonceSize()), Blobs: blobs}
	if sealed.Packed = len(plain) > packBytes; sealed.Packed {
		if plain, err = deflate(plain); err != nil {
			return e, fmt.Errorf("encrypt %s: %w", e.Type, err)
		}
	}
	_, _ = rand.Read(sealed.Nonce) // never fails: it crashes the program instead
	sealed.Ciphertext = aead.Seal(nil, sealed.Nonce, plain, binding(&e, keyID))
	content.replace(sealed)
	e.Data = data
	return e, nil
}

// Open decrypts the event's content in place, if it is encrypted and the key is
// there, and keeps the encrypted form beside it. Without the key nothing
// happens. Content that is not what was encrypted is ErrDamaged.
func Open(e *Event, keys Keys) error {
	h, ok := e.Data.(holder)
	if !ok {
		return nil
	}
	content := h.sealable()
	s := content.sealed()
	if s == nil {
		return nil
	}
	key, ok := keys.SealKey(s.KeyID)
	if !ok {
		return nil
	}
	if s.Algorithm != SealAlgorithm {
		return fmt.Errorf("decrypt event %d: its content is encrypted by %q, which this version cannot read", e.Seq, s.Algorithm)
	}
	aead, err := gcm(key)
	if err != nil {
		return fmt.Errorf("decrypt event %d: %w", e.Seq, err)
	}
	if len(s.Nonce) != aead.NonceSize() {
		return fmt.Errorf("decrypt event %d: %w: its nonce has %d bytes", e.Seq, ErrDamaged, len(s.Nonce))
	}
	plain, err := aead.Open(nil, s.Nonce, s.Ciphertext, binding(e, s.KeyID))
	if err != nil {
		return fmt.Errorf("decrypt event %d: %w: its content is not what was encrypted", e.Seq, ErrDamaged)
	}
	if s.Packed {
		if plain, err = inflate(plain); err != nil {
			return fmt.Errorf("decrypt event %d: %w: %w", e.Seq, ErrDamaged, err)
		}
	}
	if err := content.decode(plain); err != nil {
		return fmt.Errorf("decrypt event %d: %w: %w", e.Seq, ErrDamaged, err)
	}
	return nil
}

// packBytes is the length from which content is compressed before it is
// encrypted: in base64 it takes a third more room, and an event has a limit.
const packBytes = 128 << 10

// maxUnpacked bounds content after decompression.
const maxUnpacked = 4 << 20

func deflate(plain []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

func inflate(packed []byte) ([]byte, error) {
	plain, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(packed)), maxUnpacked+1))
	if err == nil && len(plain) > maxUnpacked {
		err = fmt.Errorf("it has more than %d bytes", maxUnpacked)
	}
	return plain, err
}

// SealedHash stands for the hash of content that is encrypted, so that nobody
// can try out what the content was once the key is gone. It looks like a hash.
func SealedHash(keyID, hash string, keys Keys) (string, error) {
	key, ok := keys.SealKey(keyID)
	if !ok {
		return "", fmt.Errorf("hide a hash under key %s: %w", keyID, ErrShredded)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("daybook-sealed-hash-v1\n" + hash))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// Conceal takes away what Open has added, in a copy of the payload: for those
// who are to see what is on record.
func Conceal(e *Event) {
	if h, ok := e.Data.(holder); ok && h.sealable().sealed() != nil {
		data, _ := h.prepared()
		data.(holder).sealable().hide()
		e.Data = data
	}
}

// SealedUnder is the id of the key that a payload's content is encrypted under,
// or empty.
func SealedUnder(d Data) string {
	if h, ok := d.(holder); ok {
		if s := h.sealable().sealed(); s != nil {
			return s.KeyID
		}
	}
	return ""
}

// SealText encrypts a text that is stored apart from its event. The answer holds
// all that OpenText needs but the key.
func SealText(tenant, keyID string, text []byte, keys Keys) ([]byte, error) {
	key, ok := keys.SealKey(keyID)
	if !ok {
		return nil, fmt.Errorf("encrypt a blob under key %s: %w", keyID, ErrShredded)
	}
	aead, err := gcm(key)
	if err != nil {
		return nil, fmt.Errorf("encrypt a blob: %w", err)
	}
	nonce := make([]byte, aead.NonceSize(), aead.NonceSize()+len(text)+aead.Overhead())
	_, _ = rand.Read(nonce)
	return aead.Seal(nonce, nonce, text, textBinding(tenant, keyID)), nil
}

// OpenText decrypts a blob: ErrShredded when the key is not there, ErrDamaged
// when it is not what was encrypted.
func OpenText(tenant, keyID string, sealed []byte, keys Keys) ([]byte, error) {
	key, ok := keys.SealKey(keyID)
	if !ok {
		return nil, fmt.Errorf("decrypt a blob under key %s: %w", keyID, ErrShredded)
	}
	aead, err := gcm(key)
	if err != nil {
		return nil, fmt.Errorf("decrypt a blob: %w", err)
	}
	if len(sealed) < aead.NonceSize() {
		return nil, fmt.Errorf("decrypt a blob: %w: it has %d bytes", ErrDamaged, len(sealed))
	}
	text, err := aead.Open(nil, sealed[:aead.NonceSize()], sealed[aead.NonceSize():], textBinding(tenant, keyID))
	if err != nil {
		return nil, fmt.Errorf("decrypt a blob: %w: it is not what was encrypted", ErrDamaged)
	}
	return text, nil
}

func textBinding(tenant, keyID string) []byte {
	return fmt.Appendf(nil, "daybook-sealed-blob-v1\ntenant %s\nkey %s\n", tenant, keyID)
}

// blobsOf lists the blobs of texts, sorted.
func blobsOf(bodies ...*Body) []string {
	named := map[string]bool{}
	for _, b := range bodies {
		if b != nil && b.Blob != nil {
			named[b.Blob.SHA256] = true
		}
	}
	return slices.Sorted(maps.Keys(named))
}

func (d *ExecutionRequested) sealable() sealable { return &d.Content }
func (d *ExecutionRequested) prepared() (Data, []string) {
	copied := *d
	if d.Content.Plain == nil {
		return &copied, nil
	}
	return &copied, blobsOf(&d.Content.Plain.Source, d.Content.Plain.Globals)
}

func (d *ExecutionOutput) sealable() sealable { return &d.Content }
func (d *ExecutionOutput) prepared() (Data, []string) {
	copied := *d
	if d.Content.Plain != nil {
		copied.Hidden = measure(d.Content.Plain.Lines)
	}
	return &copied, nil
}

func (d *HeapTagged) sealable() sealable { return &d.Content }
func (d *HeapTagged) prepared() (Data, []string) {
	copied := *d
	return &copied, nil
}

func (d *Ending) sealable() sealable { return &d.Content }
func (d *Ending) blobs() []string {
	if d.Content.Plain == nil {
		return nil
	}
	return blobsOf(d.Content.Plain.Result, d.Content.Plain.Error)
}

func (d *ExecutionCompleted) prepared() (Data, []string) { c := *d; return &c, d.blobs() }
func (d *ExecutionFailed) prepared() (Data, []string)    { c := *d; return &c, d.blobs() }
func (d *ExecutionTimedOut) prepared() (Data, []string)  { c := *d; return &c, d.blobs() }
func (d *ExecutionCancelled) prepared() (Data, []string) { c := *d; return &c, d.blobs() }

func (d *HostCalled) sealable() sealable { return &d.Content }
func (d *HostCalled) prepared() (Data, []string) {
	copied := *d
	if d.Content.Plain == nil {
		return &copied, nil
	}
	return &copied, blobsOf(d.Content.Plain.Arguments)
}

func (d *HostReturned) sealable() sealable { return &d.Content }
func (d *HostReturned) prepared() (Data, []string) {
	copied := *d
	if d.Content.Plain == nil {
		return &copied, nil
	}
	return &copied, blobsOf(d.Content.Plain.Result)
}

// measure is what encrypted output still tells: how far it reaches.
func measure(lines []Line) *OutputExtent {
	x := &OutputExtent{}
	for _, l := range lines {
		x.Bytes += l.Bytes()
		if x.Open = l.Continued; !x.Open {
			x.Lines++
		}
	}
	return x
}
