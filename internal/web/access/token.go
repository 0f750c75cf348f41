package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// A token is "dbk_", a public id, "_" and 256 random bits. Scanners for leaked secrets
// recognize the form, and the id is enough to revoke the token.
var (
	tokenForm = regexp.MustCompile(`^dbk_[a-z2-7]{10}_[a-z2-7]{52}$`)
	idForm    = regexp.MustCompile(`^[a-z2-7]{10}$`)
	base32en  = base32.StdEncoding.WithPadding(base32.NoPadding)
)

// Token is the stored record of a token. It does not contain the secret.
type Token struct {
	ID string `json:"id"`
	// SHA256 is the hash of the complete token, in hex. The token has 256 random bits,
	// so a slower hash is not needed.
	SHA256    string `json:"sha256"`
	Tenant    string `json:"tenant"`
	Principal string `json:"principal"`
	Scopes    Scopes `json:"scopes"`
	// Created, Expires and Revoked are times in UTC. Expires and Revoked are nil if the
	// token never expires or was not revoked.
	Created time.Time  `json:"created"`
	Expires *time.Time `json:"expires,omitempty"`
	Revoked *time.Time `json:"revoked,omitempty"`
}

// newSecret generates a token and its id.
func newSecret() (token, id string) {
	raw := make([]byte, 7+32)
	_, _ = rand.Read(raw) // never fails: the program crashes instead
	text := strings.ToLower(base32en.EncodeToString(raw[:7])[:10])
	return "dbk_" + text + "_" + strings.ToLower(base32en.EncodeToString(raw[7:])), text
}

// idOf returns the id in a token. The token MUST match tokenForm.
func idOf(token string) string { return token[4:14] }

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// refusal returns the reason why an existing token is invalid at a time, or nil.
func (t *Token) refusal(now time.Time) *TokenError {
	switch {
	case t.Revoked != nil:
		return badToken("the token %s was revoked on %s; use another", t.ID, t.Revoked.UTC().Format(time.RFC3339))
	case t.Expires != nil && !now.Before(*t.Expires):
		return badToken("the token %s expired on %s; use another", t.ID, t.Expires.UTC().Format(time.RFC3339))
	default:
		return nil
	}
}

func (t *Token) identity() Identity {
	i := Identity{Tenant: t.Tenant, Principal: t.Principal, Scopes: t.Scopes, Origin: "token"}
	if t.Expires != nil {
		i.Expires = *t.Expires
	}
	return i
}

// check returns an error if a record is invalid.
func (t *Token) check() error {
	switch {
	case !idForm.MatchString(t.ID):
		return fmt.Errorf("id %q is not 10 characters of a-z and 2-7", clip(t.ID))
	case len(t.SHA256) != 64 || strings.Trim(t.SHA256, "0123456789abcdef") != "":
		return fmt.Errorf("sha256 of token %s is not 64 lowercase hex characters", t.ID)
	case !validTenant(t.Tenant):
		return fmt.Errorf("tenant %q is not 1 to 64 characters of a-z, 0-9, _ and -", clip(t.Tenant))
	case !validPrincipal(t.Principal):
		return fmt.Errorf("principal %q is not 1 to %d visible ASCII characters without spaces", clip(t.Principal), maxPrincipal)
	case t.Scopes == 0:
		return fmt.Errorf("token %s has no scopes; the scopes are read, run, sign and admin", t.ID)
	case t.Created.IsZero():
		return fmt.Errorf("token %s has no time of creation", t.ID)
	default:
		return nil
	}
}

// decodeTokens decodes records, one per line. It is strict, because a misspelled member
// could create a token without an expiry.
func decodeTokens(raw []byte) ([]Token, error) {
	var list []Token
	seen := map[string]int{}
	line := 0
	for text := range bytes.Lines(raw) {
		line++
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var t Token
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&t); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if _, err := dec.Token(); err != io.EOF {
			return nil, fmt.Errorf("line %d: more than one JSON object on the line", line)
		}
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		if first := seen[t.ID]; first != 0 {
			return nil, fmt.Errorf("line %d: token %s is on line %d already", line, t.ID, first)
		}
		seen[t.ID] = line
		list = append(list, t)
	}
	return list, nil
}

// encodeTokens is the inverse of decodeTokens.
func encodeTokens(list []Token) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for i := range list {
		if err := enc.Encode(&list[i]); err != nil {
			return nil, fmt.Errorf("encode token %s: %w", list[i].ID, err)
		}
	}
	return b.Bytes(), nil
}

// maxTokenBytes bounds a bearer token, in bytes. Tokens of issuers that list every group of
// a user have some kilobytes.
const maxTokenBytes = 16 << 10

// Bearer returns the bearer token in a request's headers. Its errors are *TokenError.
// It never reads a token from the query, because logs contain addresses.
func Bearer(h http.Header) (string, error) {
	values := h.Values("Authorization")
	switch {
	case len(values) == 0:
		return "", &TokenError{Missing: true, Reason: "this needs a token: send the header \"Authorization: Bearer TOKEN\""}
	case len(values) > 1:
		return "", badToken("send the Authorization header once")
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	token = strings.TrimLeft(token, " ")
	switch {
	case !strings.EqualFold(scheme, "Bearer"):
		return "", badToken("the Authorization header must be of the form \"Bearer TOKEN\"")
	case token == "":
		return "", badToken("the Authorization header has no token after \"Bearer\"")
	case len(token) > maxTokenBytes:
		return "", badToken("the bearer token is longer than %d bytes", maxTokenBytes)
	}
	// The characters that RFC 6750 allows.
	if strings.Trim(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=") != "" || strings.ContainsAny(token, " \t") {
		return "", badToken("the bearer token contains characters that are not allowed")
	}
	return token, nil
}
