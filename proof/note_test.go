package proof_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"daybook/proof"
)

// newLogKey returns a signer of checkpoints and its verification key.
func newLogKey(t testing.TB, origin string) (note.Signer, string) {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	return signer, vkey
}

// signText signs a text that may be no checkpoint.
func signText(t testing.TB, text string, signers ...note.Signer) []byte {
	t.Helper()
	signed, err := note.Sign(&note.Note{Text: text}, signers...)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

const emptyRoot = "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

// A checkpoint may have extension lines, and signatures of keys that the verifier does not know,
// even with the name or the ID of a known key.
func TestOpenCheckpointIgnoresWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	signer, vkey := newLogKey(t, "example.com/log")
	witness, _ := newLogKey(t, "witness.example/w1")
	namesake, _ := newLogKey(t, "example.com/log")
	text := "example.com/log\n7\n" + emptyRoot + "\n"
	for name, signed := range map[string][]byte{
		"extension lines":               signText(t, text+"an extension\n\u00e9 second one\n", signer),
		"other signatures":              signText(t, text, witness, namesake, signer),
		"a type of signature unknown":   append(signText(t, text, signer), "\u2014 example.com/other AAAAAAECAwQFBgcICQ==\n"...),
		"sixteen signatures and others": bytes.Replace(signText(t, text, signer), []byte("\n\n"), []byte("\n\n"+strings.Repeat("\u2014 w AAAAAAEC\n", 40)), 1),
	} {
		c, err := proof.OpenCheckpoint(signed, vkey)
		if err != nil || c.Origin != "example.com/log" || c.Size != 7 || proof.EncodeHash(c.Root) != emptyRoot {
			t.Errorf("%s: %+v, %v\n%s", name, c, err, signed)
		}
		if _, err := proof.OpenCheckpoint(signed); !errors.Is(err, proof.ErrUnknownKey) {
			t.Errorf("%s, without a key: %v", name, err)
		}
	}
}

// Every signature of a known key must be right, also the second one of a key.
func TestOpenCheckpointRejectsWrongSignatures(t *testing.T) {
	t.Parallel()
	const origin = "example.com/log"
	signer, vkey := newLogKey(t, origin)
	other, otherVKey := newLogKey(t, origin)
	text := origin + "\n7\n" + emptyRoot + "\n"
	right := signText(t, text, signer)
	forged := signText(t, origin+"\n8\n"+emptyRoot+"\n", signer)
	line := func(signed []byte) []byte { _, line, _ := bytes.Cut(signed, []byte("\n\n")); return line }
	ofOther := line(signText(t, origin+"\n8\n"+emptyRoot+"\n", other))
	for name, signed := range map[string][]byte{
		"one":                      append([]byte(text+"\n"), line(forged)...),
		"one after a right one":    append(bytes.Clone(right), line(forged)...),
		"one before a right one":   append([]byte(text+"\n"), append(bytes.Clone(line(forged)), line(right)...)...),
		"one of another known key": append(bytes.Clone(right), ofOther...),
	} {
		if _, err := proof.OpenCheckpoint(signed, vkey, otherVKey); err == nil || errors.Is(err, proof.ErrUnknownKey) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseCheckpointRejects(t *testing.T) {
	t.Parallel()
	signer, vkey := newLogKey(t, "example.com/log")
	text := "example.com/log\n7\n" + emptyRoot + "\n"
	for name, signed := range map[string][]byte{
		"an empty extension line":            signText(t, text+"\nx\n", signer),
		"an empty last extension line":       signText(t, text+"x\n\n", signer),
		"an empty line instead of extension": signText(t, text+"\n", signer),
		"no signature":                       []byte(text + "\n"),
		"no empty line":                      []byte(text),
		"a signature without a key ID":       []byte(text + "\n\u2014 w AAAA\n"),
		"a signature with a hyphen":          []byte(text + "\n- w AAAAAAEC\n"),
		"a name with a plus":                 []byte(text + "\n\u2014 w+w AAAAAAEC\n"),
		"no last newline":                    []byte(text + "\n\u2014 w AAAAAAEC"),
		"a return":                           []byte(strings.ReplaceAll(text, "\n", "\r\n") + "\n\u2014 w AAAAAAEC\n"),
		"bytes that are not UTF-8":           []byte("\xff" + text + "\n\u2014 w AAAAAAEC\n"),
		"101 signatures":                     []byte(text + "\n" + strings.Repeat("\u2014 w AAAAAAEC\n", 101)),
		"a size with a zero before":          signText(t, "example.com/log\n07\n"+emptyRoot+"\n", signer),
		"a size of 2^63":                     signText(t, "example.com/log\n9223372036854775808\n"+emptyRoot+"\n", signer),
		"no tree hash":                       signText(t, "example.com/log\n7\n", signer),
	} {
		if c, err := proof.ParseCheckpoint(signed); err == nil {
			t.Errorf("%s: parsed as %+v", name, c)
		}
		if _, err := proof.OpenCheckpoint(signed, vkey); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

// FuzzParseNote compares ParseNote with the parser of x/mod, which MUST accept what ParseNote accepts.
func FuzzParseNote(f *testing.F) {
	text := "example.com/log\n7\n" + emptyRoot + "\n"
	f.Add([]byte(text + "\n\u2014 w AAAAAAEC\n\u2014 w AAAAAAEC\n"))
	f.Add([]byte(text + "x\n\n\n\u2014 w\u00e9/\u00df AAAAAAECAw==\n"))
	f.Add([]byte("\n\n\u2014 w AAAAAAEC\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		n, err := proof.ParseNote(raw)
		_, theirs := note.Open(raw, note.VerifierList())
		unverified, well := errors.AsType[*note.UnverifiedNoteError](theirs)
		if err != nil { // x/mod accepts base64 with unused bits
			return
		}
		if !well {
			t.Fatalf("%q is parsed, x/mod: %v", raw, theirs)
		}
		if n.Text != unverified.Note.Text {
			t.Errorf("%q: text %q, x/mod: %q", raw, n.Text, unverified.Note.Text)
		}
		again, err := proof.ParseNote(n.Encode())
		if err != nil || again.Text != n.Text || len(again.Signatures) > len(n.Signatures) || !bytes.Equal(again.Encode(), n.Encode()) {
			t.Errorf("%q is written as %q: %v", raw, n.Encode(), err)
		}
	})
}

func FuzzParseCheckpoint(f *testing.F) {
	f.Add([]byte("daybook/x\n12\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n\u2014 daybook/x AAAAAAAA\n"))
	skey, vkey, err := note.GenerateKey(nil, "daybook/x")
	if err != nil {
		f.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		f.Fatal(err)
	}
	genuine, err := proof.Checkpoint{Origin: "daybook/x", Size: 12, Root: proof.Hash{1, 2, 3}}.Sign(signer)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(genuine.Note)
	f.Add(bytes.Replace(genuine.Note, []byte("\n\n"), []byte("\nextension\n\n"), 1))
	f.Add(bytes.Replace(genuine.Note, []byte("\n\n"), []byte("\n\nextension\n\n"), 1)) // an empty extension line
	f.Add(append(bytes.Clone(genuine.Note), "\u2014 w AAAAAAECAx==\n"...))             // base64 with unused bits
	form := regexp.MustCompile(`^([^\n]+)\n(0|[1-9][0-9]*)\n([A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=)\n([^\n]+\n)*$`)
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := proof.ParseCheckpoint(raw)
		// Another reader of notes and a pattern for the text agree with it.
		var unverified *note.UnverifiedNoteError
		if _, noteErr := note.Open(raw, note.VerifierList()); errors.As(noteErr, &unverified) && len(raw) <= proof.MaxNoteBytes {
			want := form.FindStringSubmatch(unverified.Note.Text)
			for _, s := range unverified.Note.UnverifiedSigs { // x/mod accepts base64 with unused bits
				if _, err := base64.StdEncoding.Strict().DecodeString(s.Base64); err != nil {
					want = nil
				}
			}
			var size uint64
			var sizeErr error
			if want != nil {
				size, sizeErr = strconv.ParseUint(want[2], 10, 63)
			}
			switch {
			case (err == nil) != (want != nil && sizeErr == nil):
				t.Fatalf("%q is parsed as %+v, %v, want %q", raw, c, err, want)
			case err == nil && (c.Origin != want[1] || c.Size != size || proof.EncodeHash(c.Root) != want[3]):
				t.Errorf("%q is parsed as %+v, want %q", raw, c, want)
			}
		}
		if _, err := proof.OpenCheckpoint(raw); err == nil {
			t.Errorf("%q is accepted without a key", raw)
		}
		// Nothing but what was signed is accepted.
		if opened, err := proof.OpenCheckpoint(raw, vkey); err == nil && (opened.Origin != genuine.Origin || opened.Size != genuine.Size || opened.Root != genuine.Root) {
			t.Errorf("%q is accepted as %+v", raw, opened)
		}
		if err != nil {
			return
		}
		signed, err := c.Sign(signer)
		if err != nil {
			return // the origin is not valid in a note
		}
		again, err := proof.ParseCheckpoint(signed.Note)
		if err != nil || again.Origin != c.Origin || again.Size != c.Size || again.Root != c.Root {
			t.Errorf("%+v is signed and parsed as %+v, %v", c, again, err)
		}
		if opened, err := proof.OpenCheckpoint(signed.Note, vkey); (err == nil) != (c.Origin == "daybook/x") {
			t.Errorf("%q is signed by daybook/x and opened as %+v, %v", signed.Note, opened, err)
		}
	})
}
