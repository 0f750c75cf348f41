package natscreds

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

const (
	// maxActive is the maximum number of active credentials.
	maxActive = 100
	maxFile   = 1 << 20 // bytes of the list
	maxLine   = 4 << 10
)

// Credential is an entry of the list.
type Credential struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Tenant string `json:"tenant"`
	// PublicKey is the nkey of the user. Rotate replaces it.
	PublicKey string     `json:"public_key"`
	Created   time.Time  `json:"created"`
	Rotated   *time.Time `json:"rotated,omitempty"`
	Revoked   *time.Time `json:"revoked,omitempty"`
}

// File returns the path of the credentials file in dir.
func (c Credential) File(dir string) string { return filepath.Join(dir, c.Name+".creds") }

// IsActive reports whether the credential is not revoked.
func (c Credential) IsActive() bool { return c.Revoked == nil }

var nameForm = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

func (c Credential) check() error {
	switch {
	case !nameForm.MatchString(c.Name):
		return fmt.Errorf("name %q: give 1 to 64 characters of a-z, 0-9, _ and -", clip(c.Name))
	case !nameForm.MatchString(c.Tenant):
		return fmt.Errorf("tenant %q: give 1 to 64 characters of a-z, 0-9, _ and -", clip(c.Tenant))
	case len(c.ID) != 16 || !nameForm.MatchString(c.ID):
		return fmt.Errorf("credential %q has the malformed id %q", c.Name, clip(c.ID))
	case !nkeys.IsValidPublicUserKey(c.PublicKey):
		return fmt.Errorf("credential %q has the malformed public key %q", c.Name, clip(c.PublicKey))
	}
	return nil
}

func clip(s string) string { return s[:min(len(s), 64)] }

// newID returns a new random id.
func newID() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

// newKeys returns the content of a credentials file and its public key.
func newKeys(name string) (content []byte, public string, err error) {
	user, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", fmt.Errorf("create a key pair: %w", err)
	}
	issuer, err := nkeys.CreateAccount()
	if err != nil {
		return nil, "", fmt.Errorf("create a key pair: %w", err)
	}
	defer user.Wipe()
	defer issuer.Wipe()
	if public, err = user.PublicKey(); err != nil {
		return nil, "", fmt.Errorf("create a key pair: %w", err)
	}
	seed, err := user.Seed()
	if err != nil {
		return nil, "", fmt.Errorf("create a key pair: %w", err)
	}
	claims := jwt.NewUserClaims(public)
	claims.Name = name
	token, err := claims.Encode(issuer)
	if err != nil {
		return nil, "", fmt.Errorf("create a credentials file: %w", err)
	}
	if content, err = jwt.FormatUserConfig(token, seed); err != nil {
		return nil, "", fmt.Errorf("create a credentials file: %w", err)
	}
	return content, public, nil
}

func decode(raw []byte) ([]Credential, error) {
	var list []Credential
	seen := map[string]bool{}
	in := bufio.NewScanner(bytes.NewReader(raw))
	in.Buffer(nil, maxLine)
	for n := 1; in.Scan(); n++ {
		if len(bytes.TrimSpace(in.Bytes())) == 0 {
			continue
		}
		var c Credential
		err := json.Unmarshal(in.Bytes(), &c)
		if err == nil {
			err = c.check()
		}
		if err == nil && (seen[c.ID] || seen[c.PublicKey]) {
			err = fmt.Errorf("credential %q has the id or the key of another one", c.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		seen[c.ID], seen[c.PublicKey] = true, true
		list = append(list, c)
	}
	if err := in.Err(); err != nil {
		return nil, err
	}
	return list, nil
}

func encode(list []Credential) ([]byte, error) {
	var b bytes.Buffer
	for _, c := range list {
		raw, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		b.Write(raw)
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}
