package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
)

// Limits of a policy.
const (
	// MaxFiles is the maximum number of files.
	MaxFiles = 256
	// MaxBytes is the maximum size of all files together, in bytes.
	MaxBytes = 4 << 20
	// maxErrors is the maximum number of errors of the compiler in one message.
	maxErrors = 5
)

// File is one file of a policy.
type File struct {
	// Name is the path in messages and in the hash, relative to the policy's directory.
	Name string
	Text []byte
}

// read reads a policy: one file, or the files of a directory that end in .rego, without
// its subdirectories. The errors name path.
func read(path string) ([]File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	if !info.IsDir() {
		f, err := readFile(path, filepath.Base(path), MaxBytes)
		if err != nil {
			return nil, err
		}
		return []File{f}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read policy: %w", err)
	}
	var files []File
	left := int64(MaxBytes)
	for _, e := range entries {
		if filepath.Ext(e.Name()) != ".rego" || e.IsDir() {
			continue
		}
		if len(files) == MaxFiles {
			return nil, fmt.Errorf("read policy %s: it has more than %d files", path, MaxFiles)
		}
		f, err := readFile(filepath.Join(path, e.Name()), e.Name(), left)
		if err != nil {
			return nil, err
		}
		left -= int64(len(f.Text))
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("read policy %s: the directory has no file that ends in .rego", path)
	}
	return files, nil
}

func readFile(path, name string, left int64) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, fmt.Errorf("read policy: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, left+1))
	switch {
	case err != nil:
		return File{}, fmt.Errorf("read policy %s: %w", path, err)
	case int64(len(text)) > left:
		return File{}, fmt.Errorf("read policy %s: the policy is larger than %d MiB", path, MaxBytes>>20)
	}
	return File{Name: name, Text: text}, nil
}

// HashFiles returns the hash of a policy in lower-case hex. For one file it is the SHA-256
// of its text. For several files it is the SHA-256 of the lines that sha256sum prints for
// them, sorted by name.
func HashFiles(files []File) string {
	if len(files) == 1 {
		return hexSHA256(files[0].Text)
	}
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	var lines []byte
	for _, f := range sorted {
		lines = fmt.Appendf(lines, "%s  %s\n", hexSHA256(f.Text), f.Name)
	}
	return hexSHA256(lines)
}

func hexSHA256(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Options configure a policy.
type Options struct {
	// Rule is the reference of the rule that decides, such as data.mcp.fetch.allow.
	Rule string
	// Timeout limits one evaluation. Default: 50 ms.
	Timeout time.Duration
}

// New compiles a policy. An error says what is wrong in which line, or that there is no
// rule with the name in Options.Rule.
func New(files []File, o Options) (*Policy, error) {
	p := &Policy{
		rule: o.Rule, hash: HashFiles(files), timeout: cmp.Or(o.Timeout, 50*time.Millisecond),
		store: inmem.New(), running: make(chan struct{}, 2*runtime.GOMAXPROCS(0)),
	}
	ref, err := ast.ParseRef(o.Rule)
	if err != nil || len(ref) < 2 || !ref.HasPrefix(ast.DefaultRootRef) || !ref.IsGround() {
		return nil, fmt.Errorf("rule %.80q: it must be a reference such as data.mcp.fetch.allow", o.Rule)
	}
	p.ref = ref
	can, refused := capabilities()
	modules := map[string]*ast.Module{}
	for _, f := range files {
		m, err := ast.ParseModuleWithOpts(f.Name, string(f.Text), ast.ParserOptions{Capabilities: can, RegoVersion: ast.RegoV1})
		if err != nil {
			return nil, fmt.Errorf("parse policy: %w", explainErrors(err, refused))
		}
		if m == nil {
			return nil, fmt.Errorf("parse policy: %s is empty", f.Name)
		}
		modules[f.Name] = m
	}
	p.compiler = ast.NewCompiler().WithCapabilities(can).WithDefaultRegoVersion(ast.RegoV1)
	p.compiler.SetErrorLimit(maxErrors)
	if p.compiler.Compile(modules); p.compiler.Failed() {
		return nil, fmt.Errorf("compile policy: %w", explainErrors(p.compiler.Errors, refused))
	}
	if len(p.compiler.GetRulesExact(ref)) == 0 {
		return nil, noRule(ref, modules)
	}
	body, err := ast.ParseBody(resultVar + " = " + ref.String())
	if err == nil {
		p.query, err = p.compiler.QueryCompiler().Compile(body)
	}
	if err != nil {
		return nil, fmt.Errorf("compile policy: %w", explainErrors(err, refused))
	}
	return p, nil
}

// noRule returns the error for a policy without its rule, with the packages that it has.
func noRule(ref ast.Ref, modules map[string]*ast.Module) error {
	want := ref[:len(ref)-1].String()
	var found []string
	for _, m := range modules {
		found = append(found, strings.TrimPrefix(m.Package.Path.String(), "data."))
		if m.Package.Path.String() == want {
			return fmt.Errorf("the policy has no rule %s: package %s has no rule named %s", ref, strings.TrimPrefix(want, "data."), strings.Trim(ref[len(ref)-1].String(), `"`))
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	return fmt.Errorf("the policy has no rule %s: its files have package %s, and the rule belongs to package %s",
		ref, strings.Join(found[:min(len(found), maxErrors)], ", "), strings.TrimPrefix(want, "data."))
}

// explainErrors returns the errors of the parser or compiler, each with its place. It adds
// why a built-in function is refused, and how to convert files of older versions.
func explainErrors(err error, refused map[string]string) error {
	var list ast.Errors
	if !errors.As(err, &list) {
		return err
	}
	var lines []error
	for i, e := range list {
		if i == maxErrors {
			lines = append(lines, fmt.Errorf("and %d more errors", len(list)-i))
			break
		}
		text := e.Message
		if name, ok := strings.CutPrefix(text, "undefined function "); ok && refused[name] != "" {
			text = fmt.Sprintf("built-in function %s is refused in policies: %s", name, refused[name])
		}
		if strings.Contains(text, "keyword is required before rule body") {
			text += "; convert a file for OPA before 1.0 with: opa fmt --write --v0-v1 FILE"
		}
		if e.Location != nil {
			text = fmt.Sprintf("%s:%d: %s", e.Location.File, e.Location.Row, text)
		}
		lines = append(lines, errors.New(text))
	}
	return errors.Join(lines...)
}
