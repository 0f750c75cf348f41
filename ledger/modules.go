package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"daybook/events"
	"daybook/internal/modules/runfiles"
)

// maxAdmitted is the maximum number of admitted packages of a tenant.
const maxAdmitted = 2000

// checkFiles checks the files of a submission.
func checkFiles(files map[string]string) error {
	if err := runfiles.Check(files); err != nil {
		return Invalid("files", "files: %s", err)
	}
	return nil
}

// encodeFiles returns the files as one JSON object; empty for none.
func encodeFiles(files map[string]string) string {
	if len(files) == 0 {
		return ""
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(files); err != nil {
		panic(err) // maps of strings always encode
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// Modules returns the admitted packages of a tenant, sorted by name and version, and the
// position of the last change (0: none).
func (l *Ledger) Modules(ctx context.Context, tenant string) (list []events.AdmittedPackage, last uint64, err error) {
	if err := checkTenant(tenant); err != nil {
		return nil, 0, err
	}
	admitted, _, last, err := l.modules(ctx, tenant)
	if err != nil {
		return nil, 0, err
	}
	for _, id := range slices.Sorted(maps.Keys(admitted)) {
		list = append(list, admitted[id])
	}
	return list, last, nil
}

// modules returns the admitted packages by NAME@VERSION, and the hashes of the tarballs of
// all that were ever admitted.
func (l *Ledger) modules(ctx context.Context, tenant string) (admitted map[string]events.AdmittedPackage, hashes map[string]string, last uint64, err error) {
	admitted, hashes = map[string]events.AdmittedPackage{}, map[string]string{}
	var newer error
	last, err = l.store.Each(ctx, events.ModuleSubject(tenant), 0, func(e events.Event) error {
		switch d := e.Data.(type) {
		case *events.ModuleAdmitted:
			for _, p := range d.Packages {
				admitted[p.ID()], hashes[p.ID()] = p, p.SHA512
			}
		case *events.ModuleRemoved:
			for _, id := range d.Packages {
				delete(admitted, id)
			}
		default:
			newer = &Error{Code: CodeUnavailable, Permanent: true, Message: fmt.Sprintf(
				"the admitted packages have an event of type %s at position %d, written by a newer version of Daybook; upgrade this one", e.Type, e.Seq)}
			return newer
		}
		return nil
	})
	if newer != nil {
		return nil, nil, 0, newer
	}
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		return nil, nil, 0, unavailable("read the admitted packages", err)
	}
	return admitted, hashes, last, nil
}

// StoreTarball stores the tarball of a package and returns its reference for
// events.AdmittedPackage.
func (l *Ledger) StoreTarball(ctx context.Context, tenant string, tarball []byte) (events.BlobRef, error) {
	if err := checkTenant(tenant); err != nil {
		return events.BlobRef{}, err
	}
	hash, err := l.store.PutText(ctx, tenant, tarball)
	if err != nil {
		return events.BlobRef{}, unavailable("store a package", err)
	}
	return events.BlobRef{SHA256: hash, Size: int64(len(tarball))}, nil
}

// StoreWASM stores a WebAssembly module for the runs of a tenant and returns its reference for
// events.WASMModule. An event MUST name the module within half an hour.
func (l *Ledger) StoreWASM(ctx context.Context, tenant string, module []byte) (events.BlobRef, error) {
	hash, err := l.store.PutText(ctx, tenant, module)
	if err != nil {
		return events.BlobRef{}, unavailable("store a WebAssembly module", err)
	}
	return events.BlobRef{SHA256: hash, Size: int64(len(module))}, nil
}

// AdmitModules records that packages are admitted. The tarballs MUST be stored, and every
// dependency MUST be admitted before or in d. It returns the position of the event. Errors are
// CodeConflict if a version was admitted before with another tarball, or if the admitted
// packages changed after position after, and CodeExhausted.
func (l *Ledger) AdmitModules(ctx context.Context, tenant string, after uint64, d *events.ModuleAdmitted) (seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	admitted, hashes, last, err := l.modules(ctx, tenant)
	if err != nil {
		return 0, err
	}
	if last != after {
		return 0, errModulesChanged
	}
	for _, p := range d.Packages {
		if before := hashes[p.ID()]; before != "" && before != p.SHA512 {
			return 0, &Error{Code: CodeConflict, Message: fmt.Sprintf(
				"%s was admitted before with another tarball (sha512 %s, now %s): a version of a package never changes; check the registry, or admit another version", p.ID(), before, p.SHA512)}
		}
		admitted[p.ID()] = p
	}
	if len(admitted) > maxAdmitted {
		return 0, &Error{Code: CodeExhausted, Message: fmt.Sprintf("at most %d packages can be admitted; remove some first", maxAdmitted)}
	}
	for _, p := range d.Packages {
		for _, d := range p.Dependencies {
			if _, ok := admitted[d.Package]; !ok {
				return 0, Invalid("packages", "dependency %s of %s is %s, which is not admitted", d.Name, p.ID(), d.Package)
			}
		}
	}
	d.Actor = sanitizeActor(d.Actor)
	return l.appendModules(ctx, tenant, after, d)
}

var errModulesChanged = &Error{Code: CodeConflict, Message: "the admitted packages changed meanwhile; try again"}

func (l *Ledger) appendModules(ctx context.Context, tenant string, after uint64, d events.Data) (uint64, error) {
	ctx, stop := commitContext(ctx)
	defer stop()
	seq, err := l.store.Append(ctx, l.newEvent(tenant, "", d), int64(after))
	switch {
	case errors.Is(err, events.ErrConflict):
		return 0, errModulesChanged
	case errors.Is(err, events.ErrTooLarge):
		return 0, &Error{Code: CodeTooLarge, Message: "the package has too many dependencies to be admitted at once; admit some of them first"}
	case err != nil:
		return 0, unavailable("record the admitted packages", err)
	}
	return seq, nil
}

// RemoveModule records that a package, NAME@VERSION, is no longer admitted, and neither are
// dependencies that nothing else needs. It returns all of them and the position of the event.
// Errors are CodeNotFound, and CodeConflict if an admitted package depends on it.
func (l *Ledger) RemoveModule(ctx context.Context, tenant, id string, actor events.Actor) (removed []string, seq uint64, err error) {
	ctx, answered := l.withAnswerDeadline(ctx)
	defer answered(&err)
	if err := checkTenant(tenant); err != nil {
		return nil, 0, err
	}
	admitted, _, last, err := l.modules(ctx, tenant)
	if err != nil {
		return nil, 0, err
	}
	if _, ok := admitted[id]; !ok {
		return nil, 0, &Error{Code: CodeNotFound, Message: fmt.Sprintf("package %s is not admitted; daybook module list shows those that are", Excerpt(id))}
	}
	named := admitted[id]
	delete(admitted, id)
	needed := neededModules(admitted)
	if needed[id] {
		return nil, 0, &Error{Code: CodeConflict, Message: fmt.Sprintf("package %s is a dependency of %s; remove these first", id, strings.Join(dependents(admitted, id), ", "))}
	}
	removed = []string{id}
	// Only what the named package needs can become unneeded.
	admitted[id] = named
	for _, other := range slices.Sorted(maps.Keys(reachable(admitted, id))) {
		if other != id && !needed[other] {
			removed = append(removed, other)
		}
	}
	seq, err = l.appendModules(ctx, tenant, last, &events.ModuleRemoved{Packages: removed, Actor: sanitizeActor(actor)})
	return removed, seq, err
}

// dependents returns the packages that depend on one, sorted.
func dependents(admitted map[string]events.AdmittedPackage, id string) (list []string) {
	for other, p := range admitted {
		for _, dependency := range p.Dependencies {
			if dependency.Package == id && !slices.Contains(list, other) {
				list = append(list, other)
			}
		}
	}
	slices.Sort(list)
	return list
}

// neededModules returns what the directly admitted packages need, with themselves.
func neededModules(admitted map[string]events.AdmittedPackage) map[string]bool {
	needed := map[string]bool{}
	for id, p := range admitted {
		if p.Direct {
			maps.Copy(needed, reachable(admitted, id))
		}
	}
	return needed
}

// reachable returns a package and all that it depends on.
func reachable(admitted map[string]events.AdmittedPackage, id string) map[string]bool {
	found := map[string]bool{id: true}
	for queue := []string{id}; len(queue) > 0; queue = queue[1:] {
		p := admitted[queue[0]]
		for _, dependency := range p.Dependencies {
			if !found[dependency.Package] {
				found[dependency.Package] = true
				queue = append(queue, dependency.Package)
			}
		}
	}
	return found
}

// LoadedModules is what a script imports.
type LoadedModules struct {
	// Specifiers are the imported specifiers, sorted.
	Specifiers []string
	Packages   []events.LoadedPackage
	// Bundle is the code; nil with an Error, which the script was told.
	Bundle []byte
	Error  string
}

// RecordModules records what the script of an attempt imports. The caller MUST NOT pass the
// bundle to the script before it has returned. Errors are those of RecordCall.
func (l *Ledger) RecordModules(ctx context.Context, r *StartedAttempt, m LoadedModules) error {
	req := r.Plan.Request
	d := &events.ExecutionModulesLoaded{ExecutionID: req.ExecutionID, Attempt: r.Plan.Attempt}
	content := events.ModulesContent{Specifiers: m.Specifiers, Packages: m.Packages, Error: m.Error}
	if m.Error == "" {
		body, err := l.storeBlob(ctx, req.Tenant, req.ContentKeyID(), string(m.Bundle))
		if err != nil {
			return err
		}
		body.Blob.Preview = ""
		content.Bundle = &body
		if d.BundleSHA256, err = l.keyedHash(req.ContentKeyID(), events.Hash(m.Bundle)); err != nil {
			return err
		}
	}
	d.Content = events.Plain(content)
	return l.appendRunEvent(ctx, r, d, "record the modules of execution "+req.ExecutionID)
}

// RecordedModules is a recorded ExecutionModulesLoaded.
type RecordedModules struct {
	events.ModulesContent
	sha256, keyID, tenant string
	reader                recordReader
}

// Text returns the bundle after it has checked the hash. Errors are those of Texts.Text.
func (m *RecordedModules) Text(ctx context.Context) ([]byte, error) {
	if m.Bundle == nil || m.Bundle.Blob == nil {
		return nil, fmt.Errorf("the modules of the run are not readable: %w", events.ErrShredded)
	}
	text, err := m.reader.store.Text(ctx, m.tenant, m.Bundle.Blob.SHA256)
	if err != nil {
		return nil, fmt.Errorf("read the modules of the run: %w", err)
	}
	hash, err := m.reader.keyedHash(m.keyID, events.Hash(text))
	if err != nil {
		return nil, err
	}
	if hash != m.sha256 {
		return nil, fmt.Errorf("the modules of the run do not match their hash: %w", events.ErrDamaged)
	}
	return text, nil
}

// loadedModules returns the modules in a history, or nil.
func (r recordReader) loadedModules(tenant string, h *history) *RecordedModules {
	if h.modules == nil {
		return nil
	}
	return &RecordedModules{
		ModulesContent: h.modules.Content.Value(), sha256: h.modules.BundleSHA256, keyID: events.ContentKeyID(h.modules), tenant: tenant, reader: r,
	}
}
