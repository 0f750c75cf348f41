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

// secretPrefix marks a signing secret, and secretBytes is how long new ones
// are; the specification allows 24 to 64.
const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

// Secret is what deliveries of one webhook are signed with. It prints as
// nothing, so that no log can hold one by accident.
type Secret struct{ key []byte }

// newSecret draws one.
func newSecret() Secret {
	key := make([]byte, secretBytes)
	_, _ = rand.Read(key) // never fails: it crashes the program rather than return weak bits
	return Secret{key}
}

// ParseSecret reads what Reveal wrote.
func ParseSecret(text string) (Secret, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 {
		return Secret{}, errors.New("a secret is whsec_ and the base64 form of 24 to 64 bytes")
	}
	return Secret{key}, nil
}

// Reveal writes the secret as receivers are given it: "whsec_" and base64.
func (s Secret) Reveal() string { return secretPrefix + base64.StdEncoding.EncodeToString(s.key) }

// String hides the secret.
func (s Secret) String() string { return secretPrefix + "…" }

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// sign is the signature of one attempt: version 1, HMAC-SHA256 over id, time
// and body.
func (s Secret) sign(id string, at time.Time, body []byte) string {
	mac := hmac.New(sha256.New, s.key)
	fmt.Fprintf(mac, "%s.%d.", id, at.Unix())
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// tolerance is how far the clock of a delivery may be from the receiver's.
const tolerance = 5 * time.Minute

// Verify is for receivers written in Go: it tells why a delivery, received at a
// moment with these headers and body, is not to be trusted, or returns nil.
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
	for given := range strings.FieldsSeq(header.Get(headerSignature)) {
		if hmac.Equal([]byte(given), []byte(want)) {
			return nil
		}
	}
	return fmt.Errorf("no signature in %s is right", headerSignature)
}
