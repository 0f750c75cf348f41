// Package modules decides which packages scripts can import: it admits packages of a
// registry, and finds the admitted packages that a script names.
//
//   - lock.go: Lock: finds the packages that specifiers name, and makes bundle requests
//   - admit.go: Admit: chooses the versions of a package and its dependencies, and admits them
//   - version.go: reads versions and ranges of versions as npm does
package modules

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"deps.dev/util/semver"

	"daybook/events"
	"daybook/internal/exec/bundle"
	"daybook/runner"
)

// Admitted reads the admitted packages of a tenant. *ledger.Ledger is one.
type Admitted interface {
	Modules(ctx context.Context, tenant string) (list []events.AdmittedPackage, last uint64, err error)
}

// Texts reads tarballs. See runner.Texts.
type Texts interface {
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}

// Lock implements runner.ModuleLock.
type Lock struct {
	Admitted Admitted
	Texts    Texts
}

// Find implements runner.ModuleLock. A specifier that names no admitted package becomes a
// problem in the bundle, because a script may never evaluate that import.
func (l *Lock) Find(ctx context.Context, tenant string, specifiers []string) (runner.ModuleSet, error) {
	list, _, err := l.Admitted.Modules(ctx, tenant)
	if err != nil {
		return runner.ModuleSet{}, fmt.Errorf("read the admitted packages: %w", err)
	}
	admitted := map[string]events.AdmittedPackage{}
	for _, p := range list {
		admitted[p.ID()] = p
	}
	request := &bundle.Request{Problems: map[string]string{}}
	needed := map[string]bool{}
	for _, s := range specifiers {
		parsed := bundle.Parse(s)
		id, why := choose(list, parsed)
		if why != "" {
			request.Problems[s] = why
			continue
		}
		request.Entries = append(request.Entries, bundle.Entry{Specifier: s, Package: id, Subpath: parsed.Subpath})
		addNeeded(needed, admitted, id)
	}
	var set runner.ModuleSet
	hashes := map[string]string{}
	for _, id := range slices.Sorted(maps.Keys(needed)) {
		p := admitted[id]
		hashes[id] = p.SHA512
		set.Packages = append(set.Packages, events.LoadedPackage{Name: p.Name, Version: p.Version, SHA512: p.SHA512})
		dependencies := map[string]string{}
		for _, d := range p.Dependencies {
			dependencies[d.Name] = d.Package
		}
		request.Packages = append(request.Packages, bundle.Package{Name: p.Name, Version: p.Version, Dependencies: dependencies, Size: int(p.Tarball.Size)})
	}
	key, err := json.Marshal(struct {
		Version int
		Request *bundle.Request
		Hashes  map[string]string
	}{bundle.Version, request, hashes})
	if err != nil {
		return set, fmt.Errorf("encode a bundle request: %w", err)
	}
	set.Key = events.Hash(key)
	set.Request = func(ctx context.Context) ([]byte, error) { return l.encode(ctx, tenant, request, admitted) }
	return set, nil
}

// encode reads the tarballs of a request and returns its text.
func (l *Lock) encode(ctx context.Context, tenant string, request *bundle.Request, admitted map[string]events.AdmittedPackage) ([]byte, error) {
	if err := request.CheckSize(); err != nil {
		return nil, &runner.ModulesError{Text: "Error: " + err.Error()}
	}
	for i := range request.Packages {
		p := &request.Packages[i]
		packed, err := l.Texts.Text(ctx, tenant, admitted[p.ID()].Tarball.SHA256)
		switch {
		case errors.Is(err, events.ErrNotFound), errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrDamaged):
			return nil, &runner.ModulesError{Text: fmt.Sprintf("Error: The tarball of package %s is damaged or missing in the blob store; an administrator admits it again with daybook module add %s", p.ID(), p.ID())}
		case err != nil:
			return nil, fmt.Errorf("read package %s: %w", p.ID(), err)
		}
		p.Tarball = packed
	}
	return request.Encode()
}

func addNeeded(needed map[string]bool, admitted map[string]events.AdmittedPackage, id string) {
	for queue := []string{id}; len(queue) > 0; queue = queue[1:] {
		p, ok := admitted[queue[0]]
		if !ok || needed[queue[0]] {
			continue
		}
		needed[queue[0]] = true
		for _, dependency := range p.Dependencies {
			queue = append(queue, dependency.Package)
		}
	}
}

// choose returns the NAME@VERSION of the admitted package that a specifier names: the newest
// version in its range, of packages that were asked for by name before mere dependencies. A
// specifier without a range names a prerelease only if there is no release among them.
func choose(list []events.AdmittedPackage, s bundle.Specifier) (id, why string) {
	r, err := parseRange(s.Range)
	if err != nil {
		return "", err.Error()
	}
	var best *events.AdmittedPackage
	var version *semver.Version
	known, isRelease := false, false // isRelease is about best
	for i := range list {
		p := &list[i]
		if p.Name != s.Package {
			continue
		}
		known = true
		v, ok := parseVersion(p.Version)
		matches := ok && r.MatchVersion(v)
		if !ok || !matches && (s.Range != "" || !v.IsPrerelease()) {
			continue
		}
		isBetter := best == nil
		switch {
		case isBetter:
		case p.Direct != best.Direct:
			isBetter = p.Direct
		case matches != isRelease:
			isBetter = matches
		default:
			isBetter = v.Compare(version) > 0
		}
		if isBetter {
			best, version, isRelease = p, v, matches
		}
	}
	name := show(s.Package)
	switch {
	case best != nil:
		return best.ID(), ""
	case known:
		return "", fmt.Sprintf("no admitted version of %s matches %s; an administrator admits one with daybook module add %s@%s", name, s.Range, name, s.Range)
	case s.Range != "":
		return "", fmt.Sprintf("package %s is not admitted; an administrator admits it with daybook module add %s@%s", name, name, s.Range)
	}
	return "", fmt.Sprintf("package %s is not admitted; an administrator admits it with daybook module add %s", name, name)
}
