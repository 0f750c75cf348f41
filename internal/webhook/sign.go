package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Names of the headers of a delivery.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
)

// secretPrefix starts a signing secret. secretBytes is the length of new ones; the
// specification allows 24 to 64 bytes.
const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

// Secret signs the deliveries of one webhook. String and GoString hide it, so that no
// log can contain one by accident.
type Secret struct{ key []byte }

// newSecret returns a random secret.
func newSecret() Secret {
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // never fails: it crashes the program rather than return weak bits
	return Secret{key}
}

// ParseSecret parses the output of Reveal.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return Secret{}, errors.New("a secret is whsec_ and the base64 form of 24 to 64 bytes")
	}
	return Secret{key}, nil
}

// Reveal returns the secret in the form for receivers: "whsec_" and base64.
func (s Secret) Reveal() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.key) }

// String returns a placeholder for the secret.
func (s Secret) String() string { return secretPrefix + "…" }

// GoString returns a placeholder for the secret.
func (s Secret) GoString() string { return s.String() }

// sign returns the signature of one attempt: version 1, HMAC-SHA256 of id, time and
// body.
func (s Secret) sign(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s.key)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// tolerance is the maximum difference between the time of a delivery and the receiver's
// clock.
const tolerance = 5 * time.Minute

// Verify returns an error if a delivery with these headers and body, received at a given
// time, is not authentic. It is for receivers written in Go.
func (s Secret) Verify(header http.Header, body []byte, received time.Time) error {
	id, stamp := header.Get(headerID), header.Get(headerTimestamp)
	secs, err := strconv.ParseInt(stamp, 10, 64)
	if id == "" || err != nil {
		return fmt.Errorf("%s or %s is missing or malformed", headerID, headerTimestamp)
	}
	at := time.Unix(secs, 0)
	if received.Sub(at).Abs() > tolerance {
		return fmt.Errorf("%s is more than %s from now", headerTimestamp, tolerance)
	}
	want := s.sign(id, at, body)
	for signature := range strings.FieldsSeq(header.Get(headerSignature)) {
		if hmac.Equal([]byte(signature), []byte(want)) {
			return nil
		}
	}
	return fmt.Errorf("no signature in %s is valid", headerSignature)
}
