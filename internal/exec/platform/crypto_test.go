package platform_test

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"daybook/internal/exec/platform"
)

func compute(t *testing.T, name string, inputs ...string) string {
	t.Helper()
	raw := make([][]byte, len(inputs))
	for i, in := range inputs {
		raw[i] = []byte(in)
	}
	r, err := platform.Compute(name, raw)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return string(r.Bytes)
}

func unhex(t *testing.T, text string) string {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// ECDSA derives its number from the key and the message: the signature is that of RFC 6979.
func TestECDSAIsDeterministic(t *testing.T) {
	der := compute(t, "keyFromJWK", "P-256", "YP7UuiVanTHJYet0xjVtaMBJuJI7Yfps5mliLmDyn7Y eQP-EAi4vJmkGunpVii8ZPLxsgwtfp9Rd6PClNRGIpk ya-p2EW6dRZrXCFXZ7HWk05Qw9s26JsSe4piKxIPZyE")
	got := hex.EncodeToString([]byte(compute(t, "sign", "ECDSA", "SHA-256", "0", der, "sample", "")))
	const want = "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
	if got != want {
		t.Errorf("signature %s", got)
	}
}

// Keys depend on their random bytes only.
func TestGeneratedKeysAreDeterministic(t *testing.T) {
	seed := strings.Repeat("0123456789abcdef", 40)
	for _, inputs := range [][]string{
		{"rsaGenerate", "1024", "\x01\x00\x01", seed},
		{"rsaGenerate", "2048", "\x03", seed},
		{"ecGenerate", "P-256", seed},
		{"ecGenerate", "P-384", seed},
		{"ecGenerate", "P-521", seed},
		{"okpGenerate", "Ed25519", seed[:32]},
		{"okpGenerate", "X25519", seed[:32]},
	} {
		first := compute(t, inputs[0], inputs[1:]...)
		if again := compute(t, inputs[0], inputs[1:]...); first != again {
			t.Errorf("%s %s makes different keys of the same bytes", inputs[0], inputs[1])
		}
		compute(t, "keyPublic", first)
		other := append([]string(nil), inputs...)
		other[len(other)-1] = strings.ReplaceAll(seed, "0", "1")[:len(inputs[len(inputs)-1])]
		if compute(t, other[0], other[1:]...) == first {
			t.Errorf("%s %s makes the same key of other bytes", inputs[0], inputs[1])
		}
	}
}

// A scalar that is not in the range of the curve is skipped: the next bytes are the key.
func TestScalarsOutOfRange(t *testing.T) {
	next := strings.Repeat("k", 32)
	want := compute(t, "ecGenerate", "P-256", next)
	for _, first := range []string{strings.Repeat("\xff", 32), strings.Repeat("\x00", 32)} {
		if got := compute(t, "ecGenerate", "P-256", first+next); got != want {
			t.Errorf("another key after %x", first)
		}
	}
	_, err := platform.Compute("ecGenerate", [][]byte{[]byte("P-256"), bytes.Repeat([]byte{0xff}, 64)})
	if platform.ErrorName(err) != "OperationError" {
		t.Errorf("no key in range: %v", err)
	}
}

// Hostile inputs of every function give an error with a name, and never a panic.
func TestHostileInputs(t *testing.T) {
	values := [][]byte{nil, {0}, []byte("RSA"), []byte("P-256"), []byte("GCM"), []byte("SHA-256"), []byte("-1"), []byte("99999999999999999999"), []byte("16"), bytes.Repeat([]byte{0xff}, 40), []byte("a b c d e f g h i j k"), bytes.Repeat([]byte{1}, 16)}
	counts := map[string]int{
		"hash": 2, "hmac": 3, "hkdf": 5, "pbkdf2": 5, "aesEncrypt": 6, "aesDecrypt": 6, "ecGenerate": 2, "okpGenerate": 2, "rsaGenerate": 3,
		"keyImport": 3, "keyExport": 2, "keyFromJWK": 2, "keyToJWK": 1, "keyPublic": 1, "keyDescribe": 1, "sign": 6, "verify": 6, "agree": 2, "oaepEncrypt": 5, "oaepDecrypt": 4,
	}
	names := map[string]bool{"OperationError": true, "DataError": true, "NotSupportedError": true, "InvalidAccessError": true}
	for name, count := range counts {
		for shift := range len(values) * len(values) {
			inputs := make([][]byte, count)
			for i := range inputs {
				inputs[i] = values[(shift+i*(1+shift/len(values)))%len(values)]
			}
			if _, err := platform.Compute(name, inputs); err != nil && !names[platform.ErrorName(err)] {
				t.Errorf("%s %q: %s: %v", name, inputs, platform.ErrorName(err), err)
			}
		}
		if _, err := platform.Compute(name, nil); platform.ErrorName(err) != "TypeError" {
			t.Errorf("%s without inputs: %v", name, err)
		}
	}
}

// A generated key has exactly the bits that were asked for.
func TestModulusLength(t *testing.T) {
	seed := strings.Repeat("0123456789abcdef", 4)
	for _, bits := range []string{"1024", "1032", "1048"} {
		public := compute(t, "keyPublic", compute(t, "rsaGenerate", bits, "\x03", seed))
		if got := compute(t, "keyDescribe", public); got != bits+" 3" {
			t.Errorf("%s bits: %s", bits, got)
		}
	}
}

// The keys of a seed stay the same: a replay generates them again.
func TestKeyOfSeed(t *testing.T) {
	der := compute(t, "rsaGenerate", "1024", "\x01\x00\x01", "seed")
	if got := hex.EncodeToString([]byte(compute(t, "hash", "SHA-256", compute(t, "keyToJWK", der)))); got != "c0869420a7930c0b1c6968f5c9dbdbf24a14a527414990782b6742a51e04cf18" {
		t.Errorf("another key: %s", got)
	}
}

// What a computation hashes for each block is bounded in total.
func TestHashedBlocksAreBounded(t *testing.T) {
	long := strings.Repeat("a", 1<<20)
	for _, test := range [][]string{
		{"pbkdf2", "SHA-1", "key", long, "1", "65536"},
		{"hkdf", "SHA-512", "key", "salt", strings.Repeat(long, 8), "16320"},
	} {
		inputs := make([][]byte, len(test)-1)
		for i := range inputs {
			inputs[i] = []byte(test[i+1])
		}
		if _, err := platform.Compute(test[0], inputs); err == nil || !strings.Contains(err.Error(), "takes too long") {
			t.Errorf("%s: %v", test[0], err)
		}
	}
	compute(t, "pbkdf2", "SHA-1", "key", long, "1", "20")
}

// An encoded key is refused by its size, before its numbers are checked.
func TestEncodedKeysAreBounded(t *testing.T) {
	for _, format := range []string{"pkcs8", "spki"} {
		_, err := platform.Compute("keyImport", [][]byte{[]byte("RSA"), []byte(format), rsaOfBits(t, 1<<17, format == "pkcs8")})
		if platform.ErrorName(err) != "DataError" || !strings.Contains(err.Error(), "The encoded key has") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// rsaOfBits encodes a key whose modulus is the product of two odd numbers.
func rsaOfBits(t *testing.T, bits int, isPrivate bool) []byte {
	t.Helper()
	one := big.NewInt(1)
	factor := func(last byte) *big.Int {
		raw := bytes.Repeat([]byte{0xff}, bits/16)
		raw[len(raw)-1] = last
		return new(big.Int).SetBytes(raw)
	}
	p, q := factor(1), factor(3)
	key := rsa.PrivateKey{PublicKey: rsa.PublicKey{N: new(big.Int).Mul(p, q), E: 3}, D: one, Primes: []*big.Int{p, q}}
	key.Precomputed.Dp, key.Precomputed.Dq, key.Precomputed.Qinv = one, one, one
	var der []byte
	var err error
	if isPrivate {
		der, err = asn1.Marshal(struct {
			Version   int
			Algorithm pkix.AlgorithmIdentifier
			Key       []byte
		}{0, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}, Parameters: asn1.NullRawValue}, x509.MarshalPKCS1PrivateKey(&key)})
	} else {
		der, err = x509.MarshalPKIXPublicKey(&key.PublicKey)
	}
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// A public exponent that no operation takes is refused when the key is imported.
func TestPublicExponentIsBounded(t *testing.T) {
	n := new(big.Int).SetBytes(append(bytes.Repeat([]byte{0xff}, 127), 1))
	der, err := x509.MarshalPKIXPublicKey(&rsa.PublicKey{N: n, E: 1<<40 + 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := platform.Compute("keyImport", [][]byte{[]byte("RSA"), []byte("spki"), der}); platform.ErrorName(err) != "DataError" {
		t.Errorf("imported: %v", err)
	}
}

// One call takes a bounded amount of data.
func TestDataIsBounded(t *testing.T) {
	_, err := platform.Compute("aesEncrypt", [][]byte{[]byte("GCM"), make([]byte, 16), make([]byte, 12), []byte("16"), nil, make([]byte, 64<<20+1)})
	if err == nil || !strings.Contains(err.Error(), "at most 64 MiB") {
		t.Errorf("more than 64 MiB: %v", err)
	}
}

// The counter of AES-CTR may be shorter than the block, and starts again at zero.
func TestShortCounter(t *testing.T) {
	key := unhex(t, "2b7e151628aed2a6abf7158809cf4f3c")
	data := strings.Repeat("\x00", 48)
	counter := strings.Repeat("\xa0", 15)
	got := compute(t, "aesEncrypt", "CTR", key, counter+"\xff", "8", "", data)
	want := compute(t, "aesEncrypt", "CTR", key, counter+"\xff", "128", "", data[:16]) + compute(t, "aesEncrypt", "CTR", key, counter+"\x00", "128", "", data[:32])
	if got != want {
		t.Errorf("the counter does not start again: %x", got)
	}
}
