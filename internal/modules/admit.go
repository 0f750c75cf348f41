package modules

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"deps.dev/util/semver"

	"daybook/events"
	"daybook/internal/exec/bundle"
	"daybook/internal/modules/registry"
	"daybook/internal/modules/tarball"
)

// Limits of one admission.
const (
	maxAdded      = 256       // packages
	maxAddedBytes = 128 << 20 // of their tarballs together
	maxDescribed  = 128 << 20 // bytes of what the registry says about packages
	maxDependents = 1000      // dependencies of one package
)

// Registry reads packages. *registry.Client is one.
type Registry interface {
	Of(name string) string
	Package(ctx context.Context, name string) (*registry.Package, error)
	Tarball(ctx context.Context, name, version string, v *registry.Version) (*registry.Tarball, error)
}

// Ledger records admissions. *ledger.Ledger is one.
type Ledger interface {
	Admitted
	StoreTarball(ctx context.Context, tenant string, tarball []byte) (events.BlobRef, error)
	AdmitModules(ctx context.Context, tenant string, after uint64, d *events.ModuleAdmitted) (seq uint64, err error)
}

// refusal is a reason to refuse an admission, for the administrator.
type refusal struct{ Text string }

func (e *refusal) Error() string { return e.Text }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// Admit admits a package and its dependencies. It returns the event and its position. The
// error is a refusal, wraps registry.ErrRefused, registry.ErrNotFound or tarball.ErrRefused,
// or is one of the ledger.
func Admit(ctx context.Context, l Ledger, r Registry, tenant, specifier string, actor events.Actor) (*events.ModuleAdmitted, uint64, error) {
	s := bundle.Parse(specifier)
	switch {
	case s.Kind != bundle.Npm:
		return nil, 0, refuse("%q names no package: give NAME, NAME@VERSION or jsr:@SCOPE/NAME", specifier)
	case strings.HasSuffix(specifier, "@"):
		name := strings.TrimSuffix(specifier, "@")
		return nil, 0, refuse("%q has no version after the @: give %s for the newest version, or for example %[2]s@1.2.3 for a version or %[2]s@^1.2 for a range", specifier, name)
	case s.Subpath != ".":
		return nil, 0, refuse("%q names a file in a package: packages are admitted as a whole, so give %s", specifier, show(s.Package))
	}
	list, after, err := l.Modules(ctx, tenant)
	if err != nil {
		return nil, 0, err
	}
	a := &admission{ledger: l, registry: r, tenant: tenant, known: map[string]events.AdmittedPackage{}, packages: map[string]*registry.Package{}, added: map[string]*events.AdmittedPackage{}}
	for _, p := range list {
		a.known[p.ID()] = p
	}
	id, err := a.add(ctx, s.Package, s.Range, false)
	if err != nil {
		return nil, 0, err
	}
	for len(a.queue) > 0 {
		next := a.queue[0]
		a.queue = a.queue[1:]
		if err := a.addDependencies(ctx, next); err != nil {
			return nil, 0, err
		}
	}
	if p := a.added[id]; p != nil {
		p.Direct = true
	} else {
		again := a.known[id]
		if again.Direct {
			return nil, 0, refuse("%s is admitted already", id)
		}
		again.Direct = true
		a.added[id] = &again
	}
	d := &events.ModuleAdmitted{Specifier: specifier, Registry: r.Of(s.Package), Actor: actor}
	for _, id := range slices.Sorted(maps.Keys(a.added)) {
		d.Packages = append(d.Packages, *a.added[id])
	}
	seq, err := l.AdmitModules(ctx, tenant, after, d)
	return d, seq, err
}

// show returns the name of a package as scripts write it.
func show(name string) string {
	if rest, ok := strings.CutPrefix(name, "@jsr/"); ok {
		if scope, name, ok := strings.Cut(rest, "__"); ok {
			return "jsr:@" + scope + "/" + name
		}
	}
	return name
}

// admission is the state of an Admit.
type admission struct {
	ledger   Ledger
	registry Registry
	tenant   string
	known    map[string]events.AdmittedPackage
	packages map[string]*registry.Package
	added    map[string]*events.AdmittedPackage
	queue    []dependent
	size     int64 // of the tarballs, in bytes
	// described is the size of all Packages, in bytes.
	described int
}

// dependent is an added package whose dependencies are not added yet.
type dependent struct {
	id      string
	version *registry.Version
}

// add adds the version of a package in a range, and returns NAME@VERSION. For a dependency,
// versions that are admitted or added already come first.
func (a *admission) add(ctx context.Context, name, rangeText string, dependency bool) (string, error) {
	wanted, rangeErr := parseRange(rangeText)
	if dependency && rangeErr == nil {
		if id := a.chosen(name, wanted); id != "" {
			return id, nil
		}
	}
	p := a.packages[name]
	if p == nil {
		var err error
		if p, err = a.registry.Package(ctx, name); err != nil {
			return "", err
		}
		if a.described += p.Size; a.described > maxDescribed {
			return "", refuse("the registry describes the package and its dependencies with more than %d bytes", maxDescribed)
		}
		a.packages[name] = p
	}
	version := p.Tags[rangeText] // a tag such as next
	if rangeErr == nil {
		version = newest(p, wanted, rangeText)
	}
	var v *registry.Version
	if _, ok := parseVersion(version); ok { // a tag can be any text
		var err error
		if v, err = p.Version(version); err != nil {
			return "", fmt.Errorf("read package %s from %s: %w", name, a.registry.Of(name), err)
		}
	}
	switch {
	case v != nil:
	case rangeText == "":
		return "", refuse("%s has no release in %s", show(name), a.registry.Of(name))
	default:
		return "", refuse("%s has no version %.100q in %s", show(name), rangeText, a.registry.Of(name))
	}
	id := name + "@" + version
	if _, ok := a.known[id]; ok || a.added[id] != nil {
		return id, nil
	}
	if len(a.added) >= maxAdded {
		return "", refuse("the package needs more than %d packages", maxAdded)
	}
	t, err := a.registry.Tarball(ctx, name, version, v)
	if err != nil {
		return "", err
	}
	if a.size += int64(len(t.Bytes)); a.size > maxAddedBytes {
		return "", refuse("the package and its dependencies have more than %d bytes", maxAddedBytes)
	}
	ref, err := a.ledger.StoreTarball(ctx, a.tenant, t.Bytes)
	if err != nil {
		return "", err
	}
	a.added[id] = &events.AdmittedPackage{Name: name, Version: version, SHA512: t.SHA512, Tarball: ref, Unpacked: t.Unpacked, Files: t.Files, License: t.License}
	a.queue = append(a.queue, dependent{id, v})
	return id, nil
}

// chosen returns the newest admitted or added version in a range, or "".
func (a *admission) chosen(name string, wanted *semver.Constraint) (id string) {
	var best *semver.Version
	consider := func(p *events.AdmittedPackage) {
		v, ok := parseVersion(p.Version)
		if p.Name == name && ok && wanted.MatchVersion(v) && (id == "" || v.Compare(best) > 0) {
			id, best = p.ID(), v
		}
	}
	for _, p := range a.known {
		consider(&p)
	}
	for _, p := range a.added {
		consider(p)
	}
	return id
}

// newest returns the version that npm installs for a range: that of the tag latest if it is
// in the range, else the newest.
func newest(p *registry.Package, wanted *semver.Constraint, text string) string {
	latest := p.Tags["latest"]
	if v, ok := parseVersion(latest); ok && p.Versions[latest] != nil && (wanted.MatchVersion(v) || text == "") {
		return latest
	}
	found := ""
	var best *semver.Version
	for version := range p.Versions {
		v, ok := parseVersion(version)
		if ok && wanted.MatchVersion(v) && (found == "" || v.Compare(best) > 0 || v.Compare(best) == 0 && version > found) {
			found, best = version, v
		}
	}
	return found
}

// addDependencies adds the dependencies of a package, and the peers that it requires.
func (a *admission) addDependencies(ctx context.Context, of dependent) error {
	all := map[string]string{}
	for name, r := range of.version.Peers {
		if !of.version.PeersMeta[name].Optional {
			all[name] = r
		}
	}
	for name, r := range of.version.Dependencies {
		if _, optional := of.version.Optional[name]; !optional {
			all[name] = r
		}
	}
	if len(all) > maxDependents {
		return refuse("%s has %d dependencies, at most %d are allowed", of.id, len(all), maxDependents)
	}
	p := a.added[of.id]
	for _, alias := range slices.Sorted(maps.Keys(all)) {
		name, r := alias, all[alias]
		if target, ok := strings.CutPrefix(r, "npm:"); ok {
			s := bundle.Parse("npm:" + target)
			name, r = s.Package, s.Range
		}
		if !bundle.ValidName(alias) || !bundle.ValidName(name) || strings.Contains(r, ":") || strings.Contains(r, "/") {
			return refuse("%s depends on %.100q as %.100q: only packages of the registry can be admitted", of.id, alias, all[alias])
		}
		id, err := a.add(ctx, name, r, true)
		if err != nil {
			return fmt.Errorf("dependency %s of %s: %w", alias, of.id, err)
		}
		p.Dependencies = append(p.Dependencies, events.ModuleDependency{Name: alias, Package: id})
	}
	return nil
}

// IsRefusal reports whether an error of Admit is about the package and not about the server.
func IsRefusal(err error) bool {
	_, refused := errors.AsType[*refusal](err)
	return refused || errors.Is(err, registry.ErrRefused) || errors.Is(err, registry.ErrNotFound) || errors.Is(err, tarball.ErrRefused)
}
