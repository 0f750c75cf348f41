// Package registry reads packages from a registry with the interface of npm. Its answers are
// hostile: they are limited, tarballs must match the stated SHA-512, and no address on
// another host is followed.
package registry

import (
	"bytes"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"daybook/internal/modules/tarball"
)

// The registries of npm and JSR.
const (
	NPM = "https://registry.npmjs.org"
	JSR = "https://npm.jsr.io"
)

// jsrScope is the scope of the packages of JSR in the registry for npm clients.
const jsrScope = "@jsr/"

const (
	maxPackument = 48 << 20 // bytes
	maxManifest  = 1 << 20  // bytes of a package.json, and of the description of a version
	maxVersions  = 20_000
	maxLicense   = 200 // bytes
	maxErrorText = 300 // bytes of an error of the network
	timeout      = 30 * time.Second
)

// ErrRefused is wrapped by errors about what a registry answers.
var ErrRefused = errors.New("the registry's answer is refused")

// Client reads from the two registries.
type Client struct {
	npm, jsr *url.URL
	http     *http.Client
}

// New returns a client of a registry. Packages of JSR come from jsr.
func New(npm, jsr string) (*Client, error) {
	c := &Client{http: &http.Client{Timeout: timeout, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if len(via) > 3 || r.URL.Host != via[0].URL.Host || r.URL.Scheme != via[0].URL.Scheme {
			return errors.New("it redirects to another host")
		}
		return nil
	}}}
	for _, one := range []struct {
		text string
		to   **url.URL
	}{{npm, &c.npm}, {jsr, &c.jsr}} {
		u, err := url.Parse(one.text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("registry %q is not the address of a registry, such as %s", one.text, NPM)
		}
		*one.to = u
	}
	return c, nil
}

// Of returns the address of the registry of a package, without credentials.
func (c *Client) Of(name string) string { return c.base(name).Redacted() }

func (c *Client) base(name string) *url.URL {
	if strings.HasPrefix(name, jsrScope) {
		return c.jsr
	}
	return c.npm
}

// Package is what a registry says about a package.
type Package struct {
	Name string            `json:"name"`
	Tags map[string]string `json:"dist-tags"`
	// Versions holds the text of each version; Version decodes one. All of them decoded
	// would take some ten times the memory of the answer.
	Versions map[string]json.RawMessage `json:"versions"`
	// Size is the size of the registry's answer, in bytes.
	Size int `json:"-"`
}

// Version returns what the registry says about a version, or nil if it has no such version.
func (p *Package) Version(version string) (*Version, error) {
	raw := p.Versions[version]
	if len(raw) > maxManifest {
		return nil, fmt.Errorf("%w: it describes %s@%s with %d bytes, at most %d are allowed", ErrRefused, p.Name, version, len(raw), maxManifest)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	var v *Version
	if err := json.Unmarshal(raw, &v); err != nil {
		return nil, fmt.Errorf("%w: its description of %s@%s: %w", ErrRefused, p.Name, version, err)
	}
	return v, nil
}

// Version is one version of a package.
type Version struct {
	Dependencies Ranges `json:"dependencies"`
	Optional     Ranges `json:"optionalDependencies"`
	Peers        Ranges `json:"peerDependencies"`
	PeersMeta    map[string]struct {
		Optional bool `json:"optional"`
	} `json:"peerDependenciesMeta"`
	Dist struct {
		Integrity string `json:"integrity"`
		Tarball   string `json:"tarball"`
	} `json:"dist"`
}

// Ranges holds ranges of versions by the name of a package.
type Ranges map[string]string

// UnmarshalJSON reads an object of texts. Old versions of packages have lists here, which npm
// ignores too.
func (r *Ranges) UnmarshalJSON(raw []byte) error {
	*r = nil
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	var texts map[string]string
	if err := json.Unmarshal(raw, &texts); err != nil {
		return err
	}
	*r = texts
	return nil
}

// Package returns what the registry says about a package.
func (c *Client) Package(ctx context.Context, name string) (*Package, error) {
	address := c.base(name).JoinPath(strings.Replace(name, "/", "%2f", 1)).String()
	body, err := c.get(ctx, address, "application/vnd.npm.install-v1+json, application/json", maxPackument)
	if err != nil {
		return nil, fmt.Errorf("read package %s from %s: %w", name, c.Of(name), err)
	}
	var p Package
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("read package %s from %s: %w: %w", name, c.Of(name), ErrRefused, err)
	}
	if p.Name != name || len(p.Versions) > maxVersions {
		return nil, fmt.Errorf("read package %s from %s: %w: it describes %.100q with %d versions", name, c.Of(name), ErrRefused, p.Name, len(p.Versions))
	}
	p.Size = len(body)
	return &p, nil
}

// Tarball is a tarball that was checked.
type Tarball struct {
	Bytes    []byte
	SHA512   string // 128 lowercase hex characters
	License  string
	Unpacked int64
	Files    int
}

// Tarball downloads the tarball of a version and checks it: the SHA-512 that the registry
// states, the rules of package tarball, and the name and version in its package.json. Nothing
// in it is executed.
func (c *Client) Tarball(ctx context.Context, name, version string, v *Version) (*Tarball, error) {
	refuse := func(err error) error {
		return fmt.Errorf("package %s@%s from %s: %w", name, version, c.Of(name), err)
	}
	want, err := integrity(v.Dist.Integrity)
	if err != nil {
		return nil, refuse(err)
	}
	u, err := url.Parse(v.Dist.Tarball)
	base := c.base(name)
	if err != nil || u.Host != base.Host || u.Scheme != base.Scheme || u.User != nil {
		return nil, refuse(fmt.Errorf("%w: its tarball is at %.200q, which is not on the registry's host", ErrRefused, v.Dist.Tarball))
	}
	u.User = base.User
	packed, err := c.get(ctx, u.String(), "*/*", tarball.MaxPacked)
	if err != nil {
		return nil, refuse(err)
	}
	sum := sha512.Sum512(packed)
	if !bytes.Equal(sum[:], want) {
		return nil, refuse(fmt.Errorf("%w: the SHA-512 of the tarball is %x, the registry states %x", ErrRefused, sum, want))
	}
	contents, err := tarball.Read(packed)
	if err != nil {
		return nil, refuse(err)
	}
	var manifest struct {
		Name    string          `json:"name"`
		Version string          `json:"version"`
		License json.RawMessage `json:"license"`
	}
	text := contents.Files["package.json"]
	switch {
	case text == nil:
		return nil, refuse(fmt.Errorf("%w: there is no package.json", ErrRefused))
	case len(text) > maxManifest:
		return nil, refuse(fmt.Errorf("%w: package.json has %d bytes, at most %d are allowed", ErrRefused, len(text), maxManifest))
	}
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &manifest); err != nil {
		return nil, refuse(fmt.Errorf("%w: package.json is not valid: %w", ErrRefused, err))
	}
	if manifest.Name != name || manifest.Version != version {
		return nil, refuse(fmt.Errorf("%w: package.json names %.100q %.100q", ErrRefused, manifest.Name, manifest.Version))
	}
	return &Tarball{Bytes: packed, SHA512: hex.EncodeToString(sum[:]), License: license(manifest.License), Unpacked: contents.Unpacked, Files: contents.Count}, nil
}

// license returns the license that a package.json states.
func license(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		var old struct {
			Type string `json:"type"`
		}
		if json.Unmarshal(raw, &old) == nil {
			text = old.Type
		}
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	if len(text) > maxLicense {
		text = strings.ToValidUTF8(text[:maxLicense], "")
	}
	return text
}

// integrity returns the SHA-512 in an integrity text.
func integrity(text string) ([]byte, error) {
	for field := range strings.FieldsSeq(text) {
		if encoded, ok := strings.CutPrefix(field, "sha512-"); ok {
			encoded, _, _ = strings.Cut(encoded, "?")
			if sum, err := base64.StdEncoding.DecodeString(encoded); err == nil && len(sum) == sha512.Size {
				return sum, nil
			}
		}
	}
	return nil, fmt.Errorf("%w: it states no SHA-512 of the tarball (integrity %.100q)", ErrRefused, text)
}

// get returns the body of an answer of at most limit bytes.
func (c *Client) get(ctx context.Context, address, accept string, limit int64) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", accept)
	answer, err := c.http.Do(r)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // the address may have a password
		}
		return nil, networkError{err}
	}
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusNotFound:
		return nil, ErrNotFound
	case answer.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answered %d %s", answer.StatusCode, http.StatusText(answer.StatusCode)) // its own text is hostile
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	if err != nil {
		return nil, networkError{err}
	}
	if int64(len(body)) > limit {
		return nil, fmt.Errorf("%w: it has more than %d bytes", ErrRefused, limit)
	}
	return body, nil
}

// networkError is an error of the HTTP client, whose text may have parts of what the registry
// sent. It is shown without control characters, and cut.
type networkError struct{ error }

func (e networkError) Error() string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, e.error.Error())
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "")
	}
	return text
}

func (e networkError) Unwrap() error { return e.error }

// ErrNotFound is returned for a package that the registry does not have.
var ErrNotFound = errors.New("the registry has no such package")
