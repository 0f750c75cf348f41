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

// SealAlgorithm is the cipher for content: AES-256 in Galois/Counter Mode with a random
// nonce of 12 bytes.
const SealAlgorithm = "AES-256-GCM"

// Keys finds content keys by their id. A key has 32 bytes.
type Keys interface {
	// ContentKey returns a key, or false if it is unknown or was destroyed.
	ContentKey(id string) ([]byte, bool)
}

// sealable is the content of a payload, of any type.
type sealable interface {
	sealed() *EncryptedContent
	encode() ([]byte, error)
	decode(plain []byte) error
	replace(s *EncryptedContent)
	hide()
}

// encryptable is a payload with content that can be encrypted.
type encryptable interface {
	sealable() sealable
	// prepared returns a copy whose content can be replaced without changing the
	// original, and the hashes of the blobs that the content references.
	prepared() (copied Data, blobs []string)
}

func (c *Content[T]) sealed() *EncryptedContent   { return c.Sealed }
func (c *Content[T]) encode() ([]byte, error)     { return json.Marshal(c.Plain) }
func (c *Content[T]) replace(s *EncryptedContent) { c.Plain, c.Sealed = nil, s }

func (c *Content[T]) decode(plain []byte) error {
	c.Plain = new(T)
	return json.Unmarshal(plain, c.Plain)
}

func (c *Content[T]) hide() {
	if c.Sealed != nil {
		c.Plain = nil
	}
}

// MarshalJSON implements json.Marshaler. It writes the plain content if there is any,
// and otherwise the encrypted content.
func (c Content[T]) MarshalJSON() ([]byte, error) {
	type wire Content[T]
	if c.Plain != nil {
		c.Sealed = nil
	}
	return json.Marshal(wire(c))
}

// binding returns the additional data of an encryption. It binds encrypted content to
// its event: the content cannot be decrypted as that of another event, tenant, type or
// execution.
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

// Encrypt returns a copy of the event with its content encrypted under a key. An event
// without content is returned as it is, and one whose content is encrypted under the key
// already is returned without the plain content. The error is ErrShredded if the key is
// not available.
func Encrypt(e Event, keyID string, keys Keys) (Event, error) {
	h, ok := e.Data.(encryptable)
	if !ok {
		return e, nil
	}
	if s := h.sealable().sealed(); s != nil && s.KeyID == keyID {
		StripPlaintext(&e)
		return e, nil
	}
	key, ok := keys.ContentKey(keyID)
	if !ok {
		return e, fmt.Errorf("encrypt %s under key %s: %w", e.Type, keyID, ErrShredded)
	}
	aead, err := gcm(key)
	if err != nil {
		return e, fmt.Errorf("encrypt %s: %w", e.Type, err)
	}
	data, blobs := h.prepared()
	content := data.(encryptable).sealable()
	plain, err := content.encode()
	if err != nil {
		return e, fmt.Errorf("encrypt %s: %w", e.Type, err)
	}
	sealed := &EncryptedContent{KeyID: keyID, Algorithm: SealAlgorithm, Nonce: make([]byte, aead.NonceSize()), Blobs: blobs}
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

// Decrypt decrypts the content of the event in place and keeps the encrypted form beside
// it. It does nothing if the content is not encrypted or the key is not available. The
// error is ErrDamaged if the content fails authentication.
func Decrypt(e *Event, keys Keys) error {
	h, ok := e.Data.(encryptable)
	if !ok {
		return nil
	}
	content := h.sealable()
	s := content.sealed()
	if s == nil {
		return nil
	}
	key, ok := keys.ContentKey(s.KeyID)
	if !ok {
		return nil
	}
	if s.Algorithm != SealAlgorithm {
		return fmt.Errorf("decrypt event %d: its content is encrypted by %q, which this version does not support", e.Seq, s.Algorithm)
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
		return fmt.Errorf("decrypt event %d: %w: its content fails authentication", e.Seq, ErrDamaged)
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

// packBytes is the length from which content is compressed before encryption: base64
// adds a third, and the size of an event is limited.
const packBytes = 128 << 10

// maxUnpacked limits the length of decompressed content.
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
		err = fmt.Errorf("the content has more than %d bytes", maxUnpacked)
	}
	return plain, err
}

// KeyedHash returns the keyed hash that replaces the hash of encrypted content. Without
// the key, guesses of the content cannot be tested against it. It has the form of a
// hash.
func KeyedHash(keyID, hash string, keys Keys) (string, error) {
	key, ok := keys.ContentKey(keyID)
	if !ok {
		return "", fmt.Errorf("compute a keyed hash under key %s: %w", keyID, ErrShredded)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("daybook-sealed-hash-v1\n" + hash))
	return hex.EncodeToString(mac.Sum(nil)), nil
}

// StripPlaintext replaces the payload with a copy without the plain content that Decrypt
// added, to show the event as it is stored.
func StripPlaintext(e *Event) {
	if h, ok := e.Data.(encryptable); ok && h.sealable().sealed() != nil {
		data, _ := h.prepared()
		data.(encryptable).sealable().hide()
		e.Data = data
	}
}

// ContentKeyID returns the id of the key that encrypts the content of a payload, or
// empty.
func ContentKeyID(d Data) string {
	if h, ok := d.(encryptable); ok {
		if s := h.sealable().sealed(); s != nil {
			return s.KeyID
		}
	}
	return ""
}

// EncryptBlob encrypts a text that is stored as a blob. The result contains everything
// that DecryptBlob needs except the key.
func EncryptBlob(tenant, keyID string, text []byte, keys Keys) ([]byte, error) {
	key, ok := keys.ContentKey(keyID)
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

// DecryptBlob decrypts a blob. The error is ErrShredded if the key is not available, and
// ErrDamaged if the blob fails authentication.
func DecryptBlob(tenant, keyID string, sealed []byte, keys Keys) ([]byte, error) {
	key, ok := keys.ContentKey(keyID)
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
		return nil, fmt.Errorf("decrypt a blob: %w: it fails authentication", ErrDamaged)
	}
	return text, nil
}

func textBinding(tenant, keyID string) []byte {
	return fmt.Appendf(nil, "daybook-sealed-blob-v1\ntenant %s\nkey %s\n", tenant, keyID)
}

// blobsOf returns the sorted hashes of the blobs of texts.
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
	return &copied, blobsOf(&d.Content.Plain.Source, d.Content.Plain.Globals, d.Content.Plain.Files)
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

func (d *ExecutionModulesLoaded) sealable() sealable { return &d.Content }
func (d *ExecutionModulesLoaded) prepared() (Data, []string) {
	copied := *d
	if d.Content.Plain == nil {
		return &copied, nil
	}
	return &copied, blobsOf(d.Content.Plain.Bundle)
}

func (d *HostReturned) sealable() sealable { return &d.Content }
func (d *HostReturned) prepared() (Data, []string) {
	copied := *d
	if d.Content.Plain == nil {
		return &copied, nil
	}
	return &copied, blobsOf(d.Content.Plain.Result)
}

func (d *ExecutionReplayed) sealable() sealable         { return &d.Content }
func (d *ExecutionReplayed) prepared() (Data, []string) { c := *d; return &c, nil }

func (d *HeapMigrated) sealable() sealable         { return &d.Content }
func (d *HeapMigrated) prepared() (Data, []string) { c := *d; return &c, nil }

func (d *SessionOpened) sealable() sealable         { return &d.Content }
func (d *SessionOpened) prepared() (Data, []string) { c := *d; return &c, nil }

func (d *AgentSessionCreated) sealable() sealable         { return &d.Content }
func (d *AgentSessionCreated) prepared() (Data, []string) { c := *d; return &c, nil }

func (d *AgentSessionAttached) sealable() sealable         { return &d.Content }
func (d *AgentSessionAttached) prepared() (Data, []string) { c := *d; return &c, nil }

func (d *AgentPrompted) sealable() sealable { return &d.Content }
func (d *AgentPrompted) prepared() (Data, []string) {
	copied := *d
	if d.Content.Plain == nil {
		return &copied, nil
	}
	return &copied, blobsOf(&d.Content.Plain.Blocks)
}

func (d *AgentAnswered) sealable() sealable { return &d.Content }
func (d *AgentAnswered) prepared() (Data, []string) {
	copied := *d
	if d.Content.Plain == nil {
		return &copied, nil
	}
	return &copied, blobsOf(&d.Content.Plain.Text)
}

func (d *ContextUpdated) sealable() sealable         { return &d.Content }
func (d *ContextUpdated) prepared() (Data, []string) { c := *d; return &c, nil }

func (d *ContextNoted) sealable() sealable         { return &d.Content }
func (d *ContextNoted) prepared() (Data, []string) { c := *d; return &c, nil }

// measure returns the extent of output. The extent stays readable when the output is
// encrypted.
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
