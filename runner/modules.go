package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"daybook/events"
	"daybook/ledger"
)

// maxCachedBundles limits the bundles that a runner keeps, in bytes.
const maxCachedBundles = 64 << 20

// attemptModules provides the packages that the script of an attempt imports.
type attemptModules struct {
	a         *attempt
	heapLimit int64
	timeout   time.Duration
}

// Bundle implements Modules. The bundle is recorded before the script gets it.
func (m *attemptModules) Bundle(ctx context.Context, specifiers []string) ([]byte, error) {
	a := m.a
	specifiers = slices.Clone(specifiers)
	slices.Sort(specifiers)
	run, err := a.start.get(ctx)
	if err != nil {
		return nil, err
	}
	if recorded := a.plan.Modules; recorded != nil {
		return RecordedBundle(ctx, recorded, specifiers)
	}
	loaded := ledger.LoadedModules{Specifiers: specifiers}
	loaded.Bundle, loaded.Packages, err = m.make(ctx, specifiers)
	refused, isRefused := errors.AsType[*ModulesError](err)
	if isRefused {
		loaded.Error = refused.Text
	} else if err != nil {
		return nil, err
	}
	if err := a.r.opts.Ledger.RecordModules(ctx, run, loaded); err != nil {
		return nil, fmt.Errorf("record the modules: %w", err)
	}
	if isRefused {
		return nil, refused
	}
	return loaded.Bundle, nil
}

// make returns the bundle of the admitted packages that specifiers name.
func (m *attemptModules) make(ctx context.Context, specifiers []string) ([]byte, []events.LoadedPackage, error) {
	a := m.a
	req := a.plan.Request
	set, err := a.r.opts.Modules.Find(ctx, req.Tenant, specifiers)
	if err != nil {
		return nil, nil, err
	}
	cache := &a.r.bundles
	if encoded := cache.get(req.Tenant, set.Key); encoded != nil {
		return encoded, set.Packages, nil
	}
	request, err := set.Request(ctx)
	if err != nil {
		return nil, nil, err
	}
	outcome, err := a.r.opts.Workers.Run(ctx, Task{
		Tenant: req.Tenant, Bundle: request, Stateful: req.Stateful, HeapLimitBytes: m.heapLimit, ArrayBufferLimitBytes: m.heapLimit,
		Timeout: m.timeout, Start: time.Unix(0, 0),
	}, func(context.Context, []events.Line) error { return nil })
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("make the bundle of the modules: %w", err)
	case outcome.Status != events.StatusCompleted || outcome.Result == nil:
		return nil, set.Packages, &ModulesError{"Error: The imported packages cannot be loaded: " + outcome.Error}
	}
	encoded := []byte(*outcome.Result)
	cache.put(req.Tenant, set.Key, encoded)
	return encoded, set.Packages, nil
}

// RecordedBundle returns the bundle that an earlier attempt has recorded. Errors are a
// *ModulesError, and those of ledger.RecordedModules.Text.
func RecordedBundle(ctx context.Context, m *ledger.RecordedModules, specifiers []string) ([]byte, error) {
	specifiers = slices.Clone(specifiers)
	slices.Sort(specifiers)
	switch {
	case m.Specifiers == nil:
		return nil, fmt.Errorf("the modules of the run are not readable: %w", events.ErrShredded)
	case !slices.Equal(m.Specifiers, specifiers):
		return nil, &ModulesError{"Error: The script imports other packages than those that are recorded"}
	case m.Error != "":
		return nil, &ModulesError{m.Error}
	}
	return m.Text(ctx)
}

// bundleCache keeps the bundles of recent runs, by tenant and by what they were made of. Only
// workers that had run no user code made them, so no script can place code for other runs.
type bundleCache struct {
	mu   sync.Mutex     // guards the fields below
	list []cachedBundle // the most recently used last
	size int
}

type cachedBundle struct {
	tenant, key string
	encoded     []byte
}

func (c *bundleCache) get(tenant, key string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, b := range c.list {
		if b.tenant == tenant && b.key == key {
			c.list = append(slices.Delete(c.list, i, i+1), b)
			return b.encoded
		}
	}
	return nil
}

func (c *bundleCache) put(tenant, key string, encoded []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.list, func(b cachedBundle) bool { return b.tenant == tenant && b.key == key }) {
		return
	}
	c.list = append(c.list, cachedBundle{tenant, key, encoded})
	for c.size += len(encoded); c.size > maxCachedBundles; c.list = c.list[1:] {
		c.size -= len(c.list[0].encoded)
		c.list[0] = cachedBundle{}
	}
}
