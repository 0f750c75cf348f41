package events_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
)

// ring implements Keys with a map.
type ring map[string][]byte

func (r ring) ContentKey(id string) ([]byte, bool) { k, ok := r[id]; return k, ok }

var keys = ring{"k1": bytes.Repeat([]byte{1}, 32), "k2": bytes.Repeat([]byte{2}, 32)}

const secret = "the secret of Oslo"

// withSecret returns every payload whose content can be encrypted, with the secret in the
// content.
func withSecret() []events.Data {
	text := events.Body{Text: secret}
	end := events.Ending{ExecutionID: execution, Content: events.Plain(events.EndingContent{Result: &text, Error: &events.Body{Blob: &events.BlobRef{SHA256: heapIn, Preview: secret}}})}
	return []events.Data{
		&events.ExecutionRequested{ExecutionID: execution, Pool: "p", Content: events.Plain(events.RequestedContent{Source: text, Tags: map[string]string{"a": secret}, Globals: &events.Body{Text: secret}})},
		&events.ExecutionOutput{ExecutionID: execution, FirstLine: 1, Content: events.Plain(events.OutputContent{Lines: []events.Line{{Text: secret}, {Text: "open", Continued: true}}})},
		&events.HeapTagged{Heap: heapOut, Content: events.Plain(events.TagContent{Tags: map[string]string{"a": secret}})},
		&events.HostCalled{ExecutionID: execution, Content: events.Plain(events.HostCalledContent{Arguments: &text})},
		&events.HostReturned{ExecutionID: execution, Content: events.Plain(events.HostReturnedContent{Result: &text})},
		events.NewEnding(events.StatusCompleted, end), events.NewEnding(events.StatusFailed, end),
		events.NewEnding(events.StatusTimedOut, end), events.NewEnding(events.StatusCancelled, end),
	}
}

// onRecord encodes and decodes an event, and returns the result and the wire form.
func onRecord(t *testing.T, e events.Event) (events.Event, events.Message) {
	t.Helper()
	m, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := events.Decode(7, m)
	if err != nil {
		t.Fatal(err)
	}
	return back, m
}

func TestEncryptAndDecrypt(t *testing.T) {
	t.Parallel()
	for _, d := range withSecret() {
		e := events.New("default", began, d)
		_, before := onRecord(t, e)
		sealed, err := events.Encrypt(e, "k1", keys)
		if err != nil {
			t.Fatalf("%s: %v", e.Type, err)
		}
		if _, after := onRecord(t, e); !bytes.Equal(before.Body, after.Body) {
			t.Errorf("%s: the original has changed", e.Type)
		}
		read, m := onRecord(t, sealed)
		if bytes.Contains(m.Body, []byte(secret)) || !bytes.Contains(before.Body, []byte(secret)) {
			t.Errorf("%s is stored as %s", e.Type, m.Body)
		}
		if id := events.ContentKeyID(read.Data); id != "k1" {
			t.Errorf("%s is encrypted under %q", e.Type, id)
		}
		blind, _ := onRecord(t, sealed)
		if err := events.Decrypt(&blind, ring{}); err != nil || cmp.Diff(blind.Data, read.Data) != "" {
			t.Errorf("%s without the key: %v", e.Type, err)
		}
		if err := events.Decrypt(&read, keys); err != nil {
			t.Errorf("%s: %v", e.Type, err)
		}
		_, open := onRecord(t, read)
		if !bytes.Contains(open.Body, []byte(secret)) {
			t.Errorf("%s is decrypted to %s", e.Type, open.Body)
		}
		shown := read
		events.StripPlaintext(&shown)
		if _, hidden := onRecord(t, shown); !bytes.Equal(hidden.Body, m.Body) {
			t.Errorf("%s without plain content is %s, stored as %s", e.Type, hidden.Body, m.Body)
		}
		if _, still := onRecord(t, read); !bytes.Contains(still.Body, []byte(secret)) {
			t.Errorf("%s: StripPlaintext of a copy has changed the original", e.Type)
		}
		again, err := events.Encrypt(read, "k1", ring{})
		if _, same := onRecord(t, again); err != nil || !bytes.Equal(same.Body, m.Body) {
			t.Errorf("%s is encrypted a second time: %v", e.Type, err)
		}
	}
}

// Encrypted content is bound to its event. In another event it cannot be decrypted.
func TestEncryptedContentCannotBeMoved(t *testing.T) {
	t.Parallel()
	for _, d := range withSecret() {
		sealed, err := events.Encrypt(events.New("default", began, d), "k1", keys)
		if err != nil {
			t.Fatal(err)
		}
		for name, move := range map[string]func(e *events.Event, r ring){
			"another tenant": func(e *events.Event, _ ring) { e.Tenant = "other" },
			"another event":  func(e *events.Event, _ ring) { e.ID = events.NewID(began) },
			"another type":   func(e *events.Event, _ ring) { e.Type = "daybook.execution.other.v1" },
			"another key":    func(_ *events.Event, r ring) { r["k1"] = keys["k2"] },
		} {
			e, _ := onRecord(t, sealed)
			r := ring{"k1": keys["k1"]}
			move(&e, r)
			if err := events.Decrypt(&e, r); !errors.Is(err, events.ErrDamaged) {
				t.Errorf("%s, %s: %v", e.Type, name, err)
			}
		}
		_, m := onRecord(t, sealed)
		for from, to := range map[string]string{execution: webhook, heapOut: heapIn} {
			m := events.Message{Subject: m.Subject, Header: map[string][]string{}, Body: bytes.ReplaceAll(m.Body, []byte(from), []byte(to))}
			if bytes.Contains(m.Body, []byte(from)) || !bytes.Contains(m.Body, []byte(to)) || !strings.Contains(sealed.About(), from) {
				continue
			}
			e, err := events.Decode(7, withSubject(t, sealed, m, to))
			if err != nil {
				t.Fatal(err)
			}
			if err := events.Decrypt(&e, keys); !errors.Is(err, events.ErrDamaged) {
				t.Errorf("%s about another: %v", e.Type, err)
			}
		}
	}
}

// withSubject returns a message with the headers of an event and another ce-subject.
func withSubject(t *testing.T, e events.Event, m events.Message, about string) events.Message {
	t.Helper()
	_, original := onRecord(t, e)
	for name, values := range original.Header {
		m.Header[name] = values
	}
	m.Header["ce-subject"] = []string{about}
	return m
}

func TestEncryptWithoutKeyFails(t *testing.T) {
	t.Parallel()
	e := events.New("default", began, withSecret()[0])
	if _, err := events.Encrypt(e, "gone", keys); !errors.Is(err, events.ErrShredded) {
		t.Errorf("under a destroyed key: %v", err)
	}
	if _, err := events.KeyedHash("gone", heapIn, keys); !errors.Is(err, events.ErrShredded) {
		t.Errorf("a hash: %v", err)
	}
	if _, err := events.EncryptBlob("default", "gone", nil, keys); !errors.Is(err, events.ErrShredded) {
		t.Errorf("a text: %v", err)
	}
	started := events.New("default", began, &events.ExecutionStarted{ExecutionID: execution})
	if same, err := events.Encrypt(started, "k1", keys); err != nil || same.Data != started.Data {
		t.Errorf("an event without content: %v", err)
	}
}

func TestKeyedHash(t *testing.T) {
	t.Parallel()
	one, err := events.KeyedHash("k1", heapIn, keys)
	if err != nil {
		t.Fatal(err)
	}
	same, _ := events.KeyedHash("k1", heapIn, keys)
	other, _ := events.KeyedHash("k2", heapIn, keys)
	if !events.ValidHash(one) || one != same || one == other || one == heapIn {
		t.Errorf("%s, %s, %s", one, same, other)
	}
}

// The extent of encrypted output is known without the key, and the largest chunk fits an
// event.
func TestEncryptedOutput(t *testing.T) {
	t.Parallel()
	var noise strings.Builder
	r := rand.New(rand.NewPCG(1, 2))
	for noise.Len() < events.OutputMaxBytes-1 {
		noise.WriteByte(byte(1 + r.IntN(8))) // six bytes each in JSON
	}
	for _, lines := range [][]events.Line{
		{{Text: "a"}, {Text: "b", Continued: true}}, {{Text: ""}}, {{Text: noise.String()}}, {},
	} {
		d := &events.ExecutionOutput{ExecutionID: execution, FirstLine: 1, Content: events.Plain(events.OutputContent{Lines: lines})}
		sealed, err := events.Encrypt(events.New("default", began, d), "k1", keys)
		if err != nil {
			t.Fatal(err)
		}
		back, _ := onRecord(t, sealed)
		want, got := events.Extent{Line: 1}, events.Extent{Line: 1}
		if !want.Add(d) || !got.Add(back.Data.(*events.ExecutionOutput)) || got != want {
			t.Errorf("%d lines have the extent %+v, want %+v", len(lines), got, want)
		}
		if err := events.Decrypt(&back, keys); err != nil || cmp.Diff(d.Content.Plain, back.Data.(*events.ExecutionOutput).Content.Plain) != "" {
			t.Errorf("%d lines: %v", len(lines), err)
		}
	}
}

func TestEncryptedBlob(t *testing.T) {
	t.Parallel()
	sealed, err := events.EncryptBlob("default", "k1", []byte(secret), keys)
	if err != nil || bytes.Contains(sealed, []byte(secret)) {
		t.Fatalf("%q, %v", sealed, err)
	}
	if text, err := events.DecryptBlob("default", "k1", sealed, keys); err != nil || string(text) != secret {
		t.Errorf("%q, %v", text, err)
	}
	sealed[len(sealed)-1] ^= 1
	for name, err := range map[string]error{
		"a changed bit": second(events.DecryptBlob("default", "k1", sealed, keys)), "another tenant": second(events.DecryptBlob("other", "k1", sealed, keys)),
		"another key": second(events.DecryptBlob("default", "k2", sealed, keys)), "nothing": second(events.DecryptBlob("default", "k1", nil, keys)),
	} {
		if !errors.Is(err, events.ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Decrypt returns the content exactly if it is given what was encrypted, and otherwise an error about
// damage or about the cipher, except for another key.
func FuzzDecrypt(f *testing.F) {
	sealed, err := events.Encrypt(events.New("default", began, withSecret()[0]), "k1", keys)
	if err != nil {
		f.Fatal(err)
	}
	good, err := json.Marshal(sealed.Data.(*events.ExecutionRequested).Content.Sealed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"key_id":"k1","algorithm":"AES-256-GCM","nonce":"","ciphertext":"","packed":true}`))
	genuine := *sealed.Data.(*events.ExecutionRequested).Content.Sealed
	decrypt := func(t *testing.T, s events.EncryptedContent) {
		t.Helper()
		e := sealed
		e.Data = &events.ExecutionRequested{ExecutionID: execution, Pool: "p", Content: events.Content[events.RequestedContent]{Sealed: &s}}
		err := events.Decrypt(&e, keys)
		content := e.Data.(*events.ExecutionRequested).Content
		same := s.KeyID == genuine.KeyID && s.Algorithm == genuine.Algorithm && s.Packed == genuine.Packed && bytes.Equal(s.Nonce, genuine.Nonce) && bytes.Equal(s.Ciphertext, genuine.Ciphertext)
		switch {
		case same != (err == nil && content.Plain != nil):
			t.Errorf("%+v is decrypted to %+v, %v; it is what was encrypted: %t", s, content.Plain, err, same)
		case same && content.Value().Source.Text != secret:
			t.Errorf("decrypted %q", content.Value().Source.Text)
		case err == nil && !same && s.KeyID == genuine.KeyID:
			t.Errorf("%+v is refused without an error", s)
		case err != nil && !errors.Is(err, events.ErrDamaged) && s.Algorithm == genuine.Algorithm:
			t.Errorf("%+v: %v", s, err)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var s events.EncryptedContent
		if json.Unmarshal(raw, &s) == nil {
			decrypt(t, s)
		}
		// An edit of the genuine content: which bytes, and how.
		s = genuine
		s.Nonce, s.Ciphertext = bytes.Clone(s.Nonce), bytes.Clone(s.Ciphertext)
		for i, b := range raw[:min(len(raw), len(s.Nonce)+len(s.Ciphertext))] {
			if i < len(s.Nonce) {
				s.Nonce[i] ^= b
			} else {
				s.Ciphertext[i-len(s.Nonce)] ^= b
			}
		}
		decrypt(t, s)
	})
}
