package proof_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"daybook/proof"
)

// newWitness returns the signer of a witness. The same number gives the same key.
func newWitness(t testing.TB, number byte) *proof.WitnessSigner {
	t.Helper()
	s, err := proof.NewWitnessSigner(fmt.Sprintf("witness.example/w%d", number), bytes.Repeat([]byte{number}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A signing key that is given in place of a verification key, such as the file key for vkey, is in no message:
// messages are logged.
func TestSigningKeysAreInNoMessage(t *testing.T) {
	t.Parallel()
	skey, vkey, err := proof.NewKey("daybook/x")
	if err != nil {
		t.Fatal(err)
	}
	seed := strings.SplitN(skey, "+", 5)[4] // PRIVATE+KEY+name+hash+seed; the base64 of a seed may contain "+"
	note := []byte("daybook/x\n1\n" + strings.Repeat("A", 43) + "=\n\n— daybook/x AAAAAAAAAAA=\n")
	for name, give := range map[string]func() error{
		"a key to trust":         func() error { return proof.CheckVKeys([]string{vkey, skey}) },
		"a key for a checkpoint": func() error { _, err := proof.OpenCheckpoint(note, skey); return err },
		"a key before another":   func() error { _, err := new(proof.Signers).Trust([]string{skey, vkey}).Open(note); return err },
		"a key of a witness":     func() error { _, err := proof.ParseWitnessKey(skey); return err },
		"the log of a policy":    func() error { _, err := proof.ParsePolicy([]byte("log " + skey + "\nquorum none\n")); return err },
		"a witness of a policy":  func() error { _, err := proof.ParsePolicy([]byte("witness a " + skey + "\nquorum a\n")); return err },
		"a policy":               func() error { _, err := proof.ParsePolicy([]byte(skey + "\n")); return err },
	} {
		if err := give(); !errors.Is(err, proof.ErrBadKey) || strings.Contains(err.Error(), seed[:8]) || !strings.Contains(err.Error(), "must stay secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// vkeyOf returns a verification key of any type.
func vkeyOf(name string, kind byte, public []byte) string {
	key := append([]byte{kind}, public...)
	id := sha256.Sum256(append([]byte(name+"\n"), key...))
	return name + "+" + hex.EncodeToString(id[:4]) + "+" + base64.StdEncoding.EncodeToString(key)
}

// cosign adds cosignatures with times, in seconds, of witnesses 1, 2, ...; 0 is no cosignature.
func cosign(t testing.TB, signed []byte, seconds ...int64) []byte {
	t.Helper()
	n, err := proof.ParseNote(signed)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range seconds {
		if s == 0 {
			continue
		}
		sig, err := newWitness(t, byte(i+1)).Cosign(n.Text, time.Unix(s, 0))
		if err != nil {
			t.Fatal(err)
		}
		n.Signatures = append(n.Signatures, sig)
	}
	return n.Encode()
}

func TestWitnessKeys(t *testing.T) {
	t.Parallel()
	s := newWitness(t, 1)
	again, err := proof.ParseWitnessSigner(s.Encode())
	if err != nil || again.Key().String() != s.Key().String() {
		t.Errorf("the private key is read as another: %v", err)
	}
	vkey := s.Key().String()
	if k, err := proof.ParseWitnessKey(vkey); err != nil || k.String() != vkey || !k.Verifiable() {
		t.Errorf("%s is read as %s: %v", vkey, k, err)
	}
	_, logKey := newLogKey(t, "example.com/log")
	for _, bad := range []string{"", "x", logKey, "x" + vkey, vkey[:len(vkey)-4], strings.Replace(vkey, "+", "+0", 1), strings.Replace(vkey, "w1", "w 1", 1), vkeyOf("w", 4, make([]byte, 31)), vkeyOf("w", 6, make([]byte, 32)), vkeyOf("w", 2, make([]byte, 32))} {
		if _, err := proof.ParseWitnessKey(bad); !errors.Is(err, proof.ErrBadKey) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", s.Encode() + "x", strings.Replace(s.Encode(), "w1", "w2", 1), strings.Replace(s.Encode(), "PRIVATE", "private", 1)} {
		if _, err := proof.ParseWitnessSigner(bad); err == nil {
			t.Errorf("%q is accepted as a private key", bad)
		}
	}
	ml := vkeyOf("witness.example/pq", 6, make([]byte, 1312))
	if k, err := proof.ParseWitnessKey(ml); err != nil || k.Verifiable() || k.String() != ml {
		t.Errorf("an ML-DSA-44 key: %v", err)
	}
}

func TestPolicyCheck(t *testing.T) {
	t.Parallel()
	signer, vkey := newLogKey(t, "example.com/log")
	signed := signText(t, "example.com/log\n7\n"+emptyRoot+"\nan extension\n", signer)
	var witnesses strings.Builder
	for i := byte(1); i <= 6; i++ {
		fmt.Fprintf(&witnesses, "witness w%d %s https://w%d.example/\n", i, newWitness(t, i).Key(), i)
	}
	now := time.Unix(10_000, 0)
	const none = -1
	for _, test := range []struct {
		quorum string
		times  []int64
		want   int64
	}{
		{"quorum none", nil, 0},
		{"quorum w1", nil, none},
		{"quorum w1", []int64{50}, 50},
		{"quorum w1", []int64{0, 50}, none},
		{"quorum w1", []int64{10_600}, 10_600},
		{"quorum w1", []int64{10_601}, none}, // too far in the future
		{"group g 2 w1 w2 w3\nquorum g", []int64{50, 0, 70}, 50},
		{"group g 2 w1 w2 w3\nquorum g", []int64{50, 60, 70}, 60},
		{"group g 2 w1 w2 w3\nquorum g", []int64{0, 0, 70, 80, 90}, none},
		{"group g 2 w1 w2 w3\nquorum g", []int64{50, 0, 99_999}, none},
		{"group g 2 w1 w2 w3\nquorum g", []int64{50, 60, 99_999}, 50},
		{"group g any w1 w2 w3\nquorum g", []int64{50, 60}, 60},
		{"group g all w1 w2 w3\nquorum g", []int64{50, 60}, none},
		{"group g all w1 w2 w3\nquorum g", []int64{50, 60, 40}, 40},
		{"group x 2 w1 w2 w3\ngroup y any w4 w5 w6\ngroup xy all x y\nquorum xy", []int64{50, 60, 70, 0, 55}, 55},
		{"group x 2 w1 w2 w3\ngroup y any w4 w5 w6\ngroup xy all x y\nquorum xy", []int64{50, 60, 70}, none},
	} {
		p, err := proof.ParsePolicy([]byte("log " + vkey + "\n" + witnesses.String() + test.quorum + "\n"))
		if err != nil {
			t.Fatalf("%s: %v", test.quorum, err)
		}
		at, err := p.CheckAt(cosign(t, signed, test.times...), now)
		switch {
		case test.want == none && !errors.Is(err, proof.ErrNoQuorum):
			t.Errorf("%s, %v: %v, %v", test.quorum, test.times, at, err)
		case test.want == 0 && (err != nil || !at.IsZero()), test.want > 0 && (err != nil || at.Unix() != test.want):
			t.Errorf("%s, %v: %v, %v", test.quorum, test.times, at, err)
		}
	}
	p, err := proof.ParsePolicy([]byte("log " + vkey + "\n" + witnesses.String() + "quorum w1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if at, err := p.CheckAt(cosign(t, cosign(t, signed, 50), 70), now); err != nil || at.Unix() != 70 {
		t.Errorf("two cosignatures of one witness: %v, %v", at, err)
	}
	moved := signText(t, "example.com/log\n8\n"+emptyRoot+"\n", signer)
	stolen, err := proof.ParseNote(cosign(t, signed, 50))
	if err != nil {
		t.Fatal(err)
	}
	other, err := proof.ParseNote(moved)
	if err != nil {
		t.Fatal(err)
	}
	other.Signatures = append(other.Signatures, stolen.Signatures[1])
	if _, err := p.CheckAt(other.Encode(), now); !errors.Is(err, proof.ErrBadCosignature) {
		t.Errorf("the cosignature of another checkpoint: %v", err)
	}
	// The time is signed.
	stolen.Signatures[1].Raw[7]++
	if _, err := p.CheckAt(stolen.Encode(), now); !errors.Is(err, proof.ErrBadCosignature) {
		t.Errorf("a cosignature with another time: %v", err)
	}
	foreign, _ := newLogKey(t, "example.com/log")
	if _, err := p.CheckAt(cosign(t, signText(t, "example.com/log\n7\n"+emptyRoot+"\n", foreign), 50), now); !errors.Is(err, proof.ErrUnknownKey) {
		t.Errorf("signed by another key: %v", err)
	}
	if _, err := p.Check(cosign(t, signed, time.Now().Unix())); err != nil {
		t.Errorf("now: %v", err)
	}
}

// A policy without logs says nothing about who signed the checkpoint, and a witness whose key cannot be
// verified never counts.
func TestPolicyWithoutLogs(t *testing.T) {
	t.Parallel()
	signer, _ := newLogKey(t, "example.com/log")
	signed := cosign(t, signText(t, "example.com/log\n7\n"+emptyRoot+"\n", signer), 50)
	pq := "witness pq " + vkeyOf("witness.example/pq", 6, make([]byte, 1312)) + "\n"
	w1 := "witness w1 " + newWitness(t, 1).Key().String() + "\n"
	p, err := proof.ParsePolicy([]byte(pq + w1 + "group g any pq w1\nquorum g"))
	if err != nil {
		t.Fatal(err)
	}
	if at, err := p.Check(signed); err != nil || at.Unix() != 50 {
		t.Errorf("%v, %v", at, err)
	}
	p, err = proof.ParsePolicy([]byte(pq + w1 + "group g all pq w1\nquorum g"))
	if err != nil {
		t.Fatal(err)
	}
	n, err := proof.ParseNote(signed)
	if err != nil {
		t.Fatal(err)
	}
	n.Signatures = append(n.Signatures, proof.Signature{Name: "witness.example/pq", ID: p.Witnesses[0].Key.ID, Raw: make([]byte, 8+2420)})
	if _, err := p.Check(n.Encode()); !errors.Is(err, proof.ErrNoQuorum) || !strings.Contains(err.Error(), "ML-DSA-44") {
		t.Errorf("a cosignature that cannot be verified counts: %v", err)
	}
}

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	_, logKey := newLogKey(t, "example.com/log")
	w1, w2 := newWitness(t, 1).Key().String(), newWitness(t, 2).Key().String()
	good := "# a comment\n\n \t# another\n log\t" + logKey + "  https://log.example/#part \nwitness w\u00e9 " + w1 + " https://w1.example/#x\nwitness \xff " + w2 + "\ngroup g any w\u00e9\nquorum g\ngroup late all \xff\n"
	p, err := proof.ParsePolicy([]byte(good))
	if err != nil || len(p.Logs) != 1 || p.Logs[0].URL != "https://log.example/#part" || len(p.Witnesses) != 2 || p.Witnesses[0].URL != "https://w1.example/#x" || !p.RequiresWitnesses() {
		t.Errorf("%+v, %v", p, err)
	}
	one := "witness w1 " + w1 + "\n"
	key1, err := base64.StdEncoding.DecodeString(strings.SplitN(w1, "+", 3)[2])
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"no quorum":                   one,
		"two quorums":                 "quorum none\nquorum none\n",
		"the quorum is not defined":   one + "quorum w2\n",
		"the quorum is defined later": "quorum w1\n" + one,
		"a member defined later":      "group g any w1\n" + one + "quorum g\n",
		"a member twice":              one + "group g 1 w1 w1\nquorum g\n",
		"a member of two groups":      one + "group g any w1\ngroup h any w1\nquorum g\n",
		"the member none":             one + "group g any none w1\nquorum g\n",
		"a group with the name none":  one + "group none any w1\nquorum none\n",
		"a witness called none":       "witness none " + w1 + "\nquorum none\n",
		"a name twice":                one + "witness w1 " + w2 + "\nquorum none\n",
		"a key twice":                 one + "witness w2 " + w1 + "\nquorum none\n",
		"a key under another name":    one + "witness w2 " + vkeyOf("other.example", 4, key1[1:]) + "\nquorum none\n",
		"a log twice":                 "log " + logKey + "\nlog " + logKey + "\nquorum none\n",
		"the key of a log as witness": "witness w1 " + logKey + "\nquorum none\n",
		"the key of a witness as log": "log " + w1 + "\nquorum none\n",
		"a group without members":     "group g any\nquorum none\n",
		"0 of 1":                      one + "group g 0 w1\nquorum none\n",
		"2 of 1":                      one + "group g 2 w1\nquorum none\n",
		"01 of 1":                     one + "group g 01 w1\nquorum none\n",
		"+1 of 1":                     one + "group g +1 w1\nquorum none\n",
		"an unknown word":             "policy x\nquorum none\n",
		"a word in capitals":          "Quorum none\n",
		"too many fields":             one + "quorum w1 w1\n",
		"a comment after a line":      "quorum none # x\n",
		"a return":                    "quorum none\r\n",
		"a delete character":          "quorum none\n# \x7f\n",
		"too long":                    "quorum none\n" + strings.Repeat("#\n", proof.MaxPolicyBytes/2),
	} {
		if _, err := proof.ParsePolicy([]byte(bad)); err == nil {
			t.Errorf("%s: accepted\n%.500s", name, bad)
		}
	}
}

// FuzzParsePolicy checks that no policy panics, and that a policy with a quorum is not satisfied by a note without
// cosignatures.
func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte("witness a " + newWitness(f, 1).Key().String() + "\nwitness b " + newWitness(f, 2).Key().String() + "\ngroup g 2 a b\nquorum g\n"))
	f.Add([]byte("quorum none"))
	signer, _ := newLogKey(f, "example.com/log")
	bare := signText(f, "example.com/log\n7\n"+emptyRoot+"\n", signer)
	whole := cosign(f, bare, 50, 60, 70)
	f.Fuzz(func(t *testing.T, file []byte) {
		p, err := proof.ParsePolicy(file)
		if err != nil {
			return
		}
		if _, err := p.Check(bare); p.RequiresWitnesses() && err == nil {
			t.Errorf("%q is satisfied without witnesses", file)
		}
		if at, err := p.Check(whole); err == nil && at.After(time.Unix(70, 0)) {
			t.Errorf("%q: %v", file, at)
		}
	})
}
