package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"daybook/internal/modules/tarball"
)

// maxManifest is the maximum size of a package.json, in bytes.
const maxManifest = 1 << 20

// pack is a package whose tarball was read.
type pack struct {
	*Package
	files    map[string][]byte
	manifest manifest
}

// manifest is the part of a package.json that decides what imports name.
type manifest struct {
	Name    string          `json:"name"`
	Main    json.RawMessage `json:"main"`
	Module  json.RawMessage `json:"module"`
	Exports json.RawMessage `json:"exports"`
	Imports json.RawMessage `json:"imports"`
}

// open reads the tarball of a package.
func open(p *Package) (*pack, error) {
	contents, err := tarball.Read(p.Tarball)
	if err != nil {
		return nil, &Error{fmt.Sprintf("package %s: %v", p.ID(), err)}
	}
	opened := &pack{Package: p, files: contents.Files}
	text := contents.Files["package.json"]
	switch {
	case text == nil:
		return nil, &Error{fmt.Sprintf("package %s has no package.json", p.ID())}
	case len(text) > maxManifest:
		return nil, &Error{fmt.Sprintf("the package.json of %s has %d bytes, at most %d are allowed", p.ID(), len(text), maxManifest)}
	}
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &opened.manifest); err != nil {
		return nil, &Error{fmt.Sprintf("the package.json of %s is not valid: %v", p.ID(), err)}
	}
	return opened, nil
}

// isRequire selects the conditions of CommonJS in exports.
type isRequire bool

// conditions are the names in conditional exports that apply, in any order: the order in the
// package decides. Scripts have the interfaces of the web and not those of Node.
func (r isRequire) conditions() []string {
	if r {
		return []string{"require", "worker", "browser", "default"}
	}
	return []string{"import", "module", "worker", "browser", "default"}
}

// entry returns the path of the file that a subpath of the package names.
func (p *pack) entry(subpath string, required isRequire) (string, error) {
	if len(p.manifest.Exports) > 0 && string(p.manifest.Exports) != "null" {
		target, err := p.target(p.manifest.Exports, subpath, required)
		if err != nil {
			return "", err
		}
		if target == "" {
			return "", fmt.Errorf("package %s exports no %q", p.ID(), subpath)
		}
		return p.exactFile(target)
	}
	if subpath != "." {
		return p.file(strings.TrimPrefix(subpath, "./"))
	}
	var fields []json.RawMessage
	if !required {
		fields = append(fields, p.manifest.Module)
	}
	for _, field := range append(fields, p.manifest.Main) {
		var main string
		if json.Unmarshal(field, &main) != nil || main == "" {
			continue
		}
		if file, err := p.file(path.Clean(main)); err == nil {
			return file, nil
		}
	}
	return p.file("index.js")
}

// exactFile returns the path of a target such as "./lib/a.js".
func (p *pack) exactFile(target string) (string, error) {
	name, ok := strings.CutPrefix(target, "./")
	if clean, err := tarball.CleanPath(name); !ok || err != nil || clean != name {
		return "", fmt.Errorf("package %s exports %.100q, which is not a file of it", p.ID(), target)
	}
	if _, ok := p.files[name]; !ok {
		return "", fmt.Errorf("package %s exports %.100q, but has no such file", p.ID(), target)
	}
	return name, nil
}

// extensions are tried in this order for a path without its extension.
var extensions = []string{"", ".js", ".mjs", ".cjs", ".json", ".ts", ".mts", "/index.js", "/index.mjs", "/index.cjs", "/index.json", "/index.ts"}

// file returns the path of a file by its path with or without extension.
func (p *pack) file(name string) (string, error) {
	if name == ".." || strings.HasPrefix(name, "../") || strings.HasPrefix(name, "/") {
		return "", fmt.Errorf("%.100q leaves package %s", name, p.ID())
	}
	if found, ok := findFile(p.files, path.Clean(name)); ok {
		return found, nil
	}
	return "", fmt.Errorf("package %s has no file %.100q", p.ID(), name)
}

func findFile(files map[string][]byte, name string) (string, bool) {
	for _, ext := range extensions {
		if _, ok := files[path.Clean(name+ext)]; ok {
			return path.Clean(name + ext), true
		}
	}
	return "", false
}

// member is a member of a JSON object whose order matters.
type member struct {
	key   string
	value json.RawMessage
}

// maxMembers is the maximum number of members of exports and imports together.
const maxMembers = 10_000

// membersOf returns the members of a JSON object in their order.
func membersOf(object json.RawMessage) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("not an object")
	}
	var list []member
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		if list = append(list, member{key.(string), value}); len(list) > maxMembers {
			return nil, fmt.Errorf("more than %d members", maxMembers)
		}
	}
	return list, nil
}

// target resolves key in exports or imports. It returns "" if the package exports nothing
// under that key.
func (p *pack) target(table json.RawMessage, key string, required isRequire) (string, error) {
	if first(table) == '{' {
		list, err := membersOf(table)
		if err != nil {
			return "", fmt.Errorf("the package.json of %s has malformed exports or imports: %w", p.ID(), err)
		}
		if slices.ContainsFunc(list, func(m member) bool { return strings.HasPrefix(m.key, ".") || strings.HasPrefix(m.key, "#") }) {
			return p.keyed(list, key, required)
		}
	}
	if key != "." {
		return "", nil
	}
	return p.conditional(table, "", required, 0)
}

func first(raw json.RawMessage) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// keyed finds the member of exports or imports with a key: the key itself, else the pattern
// with the longest text before its *.
func (p *pack) keyed(list []member, key string, required isRequire) (string, error) {
	best, part := -1, ""
	for i, m := range list {
		if m.key == key && !strings.Contains(key, "*") {
			return p.conditional(m.value, "", required, 0)
		}
		before, after, pattern := strings.Cut(m.key, "*")
		if !pattern || len(key) <= len(before)+len(after)-1 || !strings.HasPrefix(key, before) || !strings.HasSuffix(key, after) || len(key) < len(before)+len(after) {
			continue
		}
		if best < 0 || len(before) > strings.IndexByte(list[best].key, '*') {
			best, part = i, key[len(before):len(key)-len(after)]
		}
	}
	if best < 0 || hasDots(part) {
		return "", nil
	}
	return p.conditional(list[best].value, part, required, 0)
}

// conditional returns the target in a value of exports: a text, the first condition that
// applies, or the first member of a list with a target.
func (p *pack) conditional(value json.RawMessage, part string, required isRequire, depth int) (string, error) {
	if depth > 16 {
		return "", fmt.Errorf("the exports of package %s are nested too deeply", p.ID())
	}
	switch first(value) {
	case '"':
		var target string
		if err := json.Unmarshal(value, &target); err != nil {
			return "", err
		}
		return strings.ReplaceAll(target, "*", part), nil
	case '{':
		list, err := membersOf(value)
		if err != nil {
			return "", err
		}
		for _, m := range list {
			if !slices.Contains(required.conditions(), m.key) {
				continue
			}
			if target, err := p.conditional(m.value, part, required, depth+1); err != nil || target != "" {
				return target, err
			}
		}
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(value, &list); err != nil {
			return "", err
		}
		for _, v := range list[:min(len(list), 16)] {
			if target, err := p.conditional(v, part, required, depth+1); err == nil && target != "" {
				return target, nil
			}
		}
	}
	return "", nil
}
