package bundle

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Version is the version of the form of bundles. It is a part of the key under which the
// server keeps a bundle.
const Version = 1

// Limits of a bundle.
const (
	maxModules = 5000
	// MaxBundle is the maximum size of an encoded bundle, in bytes.
	MaxBundle = 16 << 20
	// maxPackages is the maximum number of packages in a request, maxPacked the maximum
	// size of their tarballs together, in bytes.
	maxPackages = 512
	maxPacked   = 64 << 20
)

// Bundle is what the prelude of a heap gets.
type Bundle struct {
	Version int `json:"version"`
	// Entries holds the module of each imported specifier.
	Entries map[string]string `json:"entries"`
	// Problems holds, by specifier, why an import fails that is not in Entries.
	Problems map[string]string `json:"problems,omitempty"`
	// Modules are the modules, in the order of their ids.
	Modules []Module `json:"modules"`
}

// Module is one module.
type Module struct {
	// ID names the module in a heap: npm:NAME@VERSION/PATH, or a file of a run.
	ID string `json:"id"`
	// Code is the body of a function (exports, require, module), or JSON.
	Code string `json:"code"`
	// JSON reports that Code is JSON.
	JSON bool `json:"json,omitempty"`
	// File is the path of a file of a run; empty for JSON and modules of packages. Mappings are the
	// mappings of a source map from Code to the file, empty if positions are not known.
	File     string `json:"file,omitempty"`
	Mappings string `json:"mappings,omitempty"`
	// ESM reports that the module has import or export statements. Others have the form of
	// CommonJS.
	ESM bool `json:"esm,omitempty"`
	// Imports holds what the specifiers in Code name: modules by id, or node:NAME.
	Imports map[string]string `json:"imports,omitempty"`
	// Names holds, by specifier, names that the module imports of a module whose exports are
	// known only when it is evaluated.
	Names map[string][]string `json:"names,omitempty"`
	// Problems holds why the other specifiers in Code name nothing.
	Problems map[string]string `json:"problems,omitempty"`
}

// Encode returns the canonical JSON of a bundle. If the bundle is larger than MaxBundle, it first
// drops the mappings of all modules: stack traces then name the files without positions.
func (b *Bundle) Encode() ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(b); err != nil {
		return nil, fmt.Errorf("encode a bundle: %w", err)
	}
	if out.Len() > MaxBundle && b.dropMappings() {
		return b.Encode()
	}
	if out.Len() > MaxBundle {
		return nil, &Error{fmt.Sprintf("the modules have %d bytes together, at most %d are allowed: import fewer or smaller packages", out.Len(), MaxBundle)}
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func (b *Bundle) dropMappings() (found bool) {
	for i := range b.Modules {
		found = found || b.Modules[i].Mappings != ""
		b.Modules[i].Mappings = ""
	}
	return found
}

// Decode decodes a bundle.
func Decode(encoded []byte) (*Bundle, error) {
	if len(encoded) > MaxBundle {
		return nil, fmt.Errorf("a bundle of %d bytes, at most %d are allowed", len(encoded), MaxBundle)
	}
	var b Bundle
	if err := json.Unmarshal(encoded, &b); err != nil {
		return nil, fmt.Errorf("decode a bundle: %w", err)
	}
	if b.Version != Version {
		return nil, fmt.Errorf("decode a bundle: version %d, this program reads %d", b.Version, Version)
	}
	return &b, nil
}

// Error is an error for the author of a script or the administrator who admitted a package.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Request is what a bundle is made of.
type Request struct {
	Packages []Package `json:"packages"`
	Entries  []Entry   `json:"entries"`
	// Problems become those of the bundle.
	Problems map[string]string `json:"problems,omitempty"`
}

// Package is an admitted package.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Dependencies holds NAME@VERSION of a package of the request by the name under which
	// the package imports it.
	Dependencies map[string]string `json:"dependencies,omitempty"`
	// Size is the size of Tarball in bytes.
	Size int `json:"size"`
	// Tarball has passed the check of its hash.
	Tarball []byte `json:"-"`
}

// ID returns NAME@VERSION.
func (p *Package) ID() string { return p.Name + "@" + p.Version }

// Entry is a specifier that a script imports.
type Entry struct {
	// Specifier is its text in the script.
	Specifier string `json:"specifier"`
	// Package is the NAME@VERSION that it was resolved to, Subpath what follows it: "." or
	// "./PATH".
	Package string `json:"package"`
	Subpath string `json:"subpath"`
}

var errRequest = errors.New("malformed bundle request")

// CheckSize returns an *Error if the packages are too many or, by their Size, too large.
func (r *Request) CheckSize() error {
	size := 0
	for i := range r.Packages {
		size += r.Packages[i].Size
	}
	if size > maxPacked || len(r.Packages) > maxPackages {
		return &Error{fmt.Sprintf("the imported packages and their dependencies are %d with %d bytes, at most %d with %d bytes are allowed", len(r.Packages), size, maxPackages, maxPacked)}
	}
	return nil
}

// Encode returns the request in one text: the length of its JSON in 4 bytes, the JSON, and
// the tarballs in the order of the packages.
func (r *Request) Encode() ([]byte, error) {
	size := 0
	for i := range r.Packages {
		r.Packages[i].Size = len(r.Packages[i].Tarball)
		size += r.Packages[i].Size
	}
	if err := r.CheckSize(); err != nil {
		return nil, err
	}
	header, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode a bundle request: %w", err)
	}
	out := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(header)+size), uint32(len(header)))
	out = append(out, header...)
	for i := range r.Packages {
		out = append(out, r.Packages[i].Tarball...)
	}
	return out, nil
}

// DecodeRequest decodes a request. The tarballs are parts of encoded.
func DecodeRequest(encoded []byte) (*Request, error) {
	if len(encoded) < 4 || int(binary.BigEndian.Uint32(encoded)) > len(encoded)-4 {
		return nil, errRequest
	}
	n := 4 + int(binary.BigEndian.Uint32(encoded))
	d := json.NewDecoder(bytes.NewReader(encoded[4:n]))
	d.DisallowUnknownFields()
	var r Request
	if err := d.Decode(&r); err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errRequest
	}
	rest := encoded[n:]
	for i := range r.Packages {
		p := &r.Packages[i]
		if p.Size < 0 || p.Size > len(rest) {
			return nil, errRequest
		}
		p.Tarball, rest = rest[:p.Size], rest[p.Size:]
	}
	if len(rest) > 0 {
		return nil, errRequest
	}
	return &r, nil
}
