// Package keyring stores content keys: one file per key, in a directory apart from the
// ledger. A key belongs to a session, or to what belongs to no session of a tenant. Destroying
// a key makes the content that was encrypted under it unreadable permanently.
//
// The package promises that a key is on disk before it is used, and that a file that is
// not a valid key stops Open. It encrypts nothing and does not know what the keys are
// used for: ledger/encryption.go decides what is encrypted, and package retention when keys
// are destroyed. keyring.go is its only file.
package keyring

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"daybook/internal/durable"
)

const keyBytes = 32

// keyFileSuffix is the end of the names of key files.
const keyFileSuffix = ".key"

// Ring holds the keys of a directory. It is safe for concurrent use and needs no
// closing. The caller MUST make sure that only one process uses a directory.
type Ring struct {
	dir string

	mu   sync.Mutex
	keys map[string]entry
	// current maps each session to the key that its new content is encrypted under.
	current map[owner]string
	// uses counts the callers that write content under a key at the moment. unused is closed
	// and replaced each time a key has no such caller any more.
	uses   map[string]int
	unused chan struct{}
	// closed holds the keys that Settle waits for or returned for: what is written under them
	// after it returned, a shred does not find.
	closed map[string]bool
}

type owner struct{ tenant, session string }

// entry is the content of a key file.
type entry struct {
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Key     string `json:"key"`
	// State is stateInUse or stateRetired. Both texts have the same length, so that the file
	// can be overwritten in place.
	State string `json:"state"`
	raw   []byte
}

// The states of a key. Only a key in the state stateInUse encrypts new content.
const (
	stateInUse   = "current"
	stateRetired = "retired"
)

// Open reads the keys of a directory, which it creates with mode 0700 if it does not
// exist. It destroys the unfinished key files that a crash left. A file that cannot be
// read as a key is an error, because the content under that key would otherwise look
// erased.
func Open(dir string) (*Ring, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the key directory: %w", err)
	}
	return loadKeys(dir, true)
}

// Read reads the keys of a directory that another process may use, and changes nothing
// in it. The caller MUST call only ContentKey and Len of the result.
func Read(dir string) (*Ring, error) { return loadKeys(dir, false) }

// loadKeys reads the keys. With sweep, it destroys unfinished key files.
func loadKeys(dir string, sweep bool) (*Ring, error) {
	r := &Ring{dir: dir, keys: map[string]entry{}, current: map[owner]string{}, uses: map[string]int{}, unused: make(chan struct{}), closed: map[string]bool{}}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if !strings.HasSuffix(f.Name(), keyFileSuffix) {
			if sweep && strings.HasSuffix(f.Name(), keyFileSuffix+".new") { // its key was never used
				if err := destroyFile(path); err != nil {
					return nil, fmt.Errorf("remove unfinished key: %w", err)
				}
			}
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		e, err := parseKeyFile(raw)
		if err != nil || e.ID+keyFileSuffix != f.Name() {
			return nil, fmt.Errorf("read key file %s: %w; restore the file from a backup, or move it away, which makes the content under its key unreadable", path, errors.Join(err, errNamed(e.ID+keyFileSuffix == f.Name())))
		}
		r.keys[e.ID] = e
		if e.State == stateInUse {
			r.current[owner{e.Tenant, e.Session}] = e.ID
		}
	}
	return r, nil
}

func errNamed(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("the name of the file is not that of its key")
}

func parseKeyFile(raw []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, err
	}
	key, err := hex.DecodeString(e.Key)
	switch {
	case err != nil:
		return e, err
	case len(key) != keyBytes:
		return e, fmt.Errorf("the key has %d bytes instead of %d", len(key), keyBytes)
	case e.State != stateInUse && e.State != stateRetired:
		return e, fmt.Errorf("the state is %q", e.State)
	case e.ID == "" || e.Tenant == "" || e.Session == "" || strings.ContainsAny(e.ID, `/\.`):
		return e, errors.New("id, tenant or session is missing or malformed")
	}
	e.raw = key
	return e, nil
}

// Use returns the id of the key for new content of a session, and creates a key if there
// is none. That key is on disk when Use returns. Settle waits for the key until done is
// called, so the caller MUST call done once its content is stored, or is known not to be
// stored.
func (r *Ring) Use(tenant, session string) (id string, done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id, err = r.currentKey(tenant, session); err != nil {
		return "", nil, err
	}
	return id, r.use(id), nil
}

// Find returns the id of the key for new content of a session, or false if there is none.
func (r *Ring) Find(tenant, session string) (id string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id, ok = r.current[owner{tenant, session}]
	return id, ok
}

// UseKey is Use for a key that may be retired. It returns false if the key is unknown or
// was destroyed.
func (r *Ring) UseKey(id string) (done func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.keys[id]; !ok {
		return nil, false
	}
	return r.use(id), true
}

// use counts a use of a key. r.mu MUST be held.
func (r *Ring) use(id string) (done func()) {
	r.uses[id]++
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.uses[id]--; r.uses[id] == 0 {
			delete(r.uses, id)
			close(r.unused)
			r.unused = make(chan struct{})
		}
	})
}

// IsClosed reports whether a shred is about to destroy a key. A caller of UseKey that got
// false before it wrote can be sure that the shred waits for it.
func (r *Ring) IsClosed(id string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed[id]
}

// Settle closes the keys, see IsClosed, and waits until no caller of Use or UseKey uses one of
// them. It closes them first, because edits that overlap each other would otherwise keep it
// waiting. If the keys are retired, all content under them is then stored, unless the outcome
// of an append is unknown. The error is the cause of a canceled ctx; then the keys that this
// call closed are open again. Reopen or Destroy ends what Settle started.
func (r *Ring) Settle(ctx context.Context, ids []string) error {
	var newly []string
	r.mu.Lock()
	for _, id := range ids {
		if !r.closed[id] {
			r.closed[id] = true
			newly = append(newly, id)
		}
	}
	r.mu.Unlock()
	for {
		r.mu.Lock()
		inUse := slices.ContainsFunc(ids, func(id string) bool { return r.uses[id] > 0 })
		unused := r.unused
		r.mu.Unlock()
		if !inUse {
			return nil
		}
		select {
		case <-unused:
		case <-ctx.Done():
			r.Reopen(newly)
			return context.Cause(ctx)
		}
	}
}

// Reopen makes closed keys usable again, because they are not destroyed.
func (r *Ring) Reopen(ids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		delete(r.closed, id)
	}
}

// currentKey returns the key of a session that is not retired, or creates one. r.mu MUST be
// held.
func (r *Ring) currentKey(tenant, session string) (id string, err error) {
	if id, ok := r.current[owner{tenant, session}]; ok {
		return id, nil
	}
	var random [16]byte
	key := make([]byte, keyBytes)
	_, _ = rand.Read(random[:]) // never fails: the program crashes instead
	_, _ = rand.Read(key)
	e := entry{ID: hex.EncodeToString(random[:]), Tenant: tenant, Session: session, Key: hex.EncodeToString(key), State: stateInUse, raw: key}
	if err := r.write(e); err != nil {
		return "", fmt.Errorf("create content key: %w", err)
	}
	r.keys[e.ID], r.current[owner{tenant, session}] = e, e.ID
	return e.ID, nil
}

// ContentKey returns a key by its id, and whether it exists. The bytes are shared: the
// caller MUST NOT modify them.
func (r *Ring) ContentKey(id string) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.keys[id]
	return e.raw, ok
}

// Len returns the number of keys.
func (r *Ring) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.keys)
}

// Retire marks the keys of a session as retired and returns their ids, including those
// of keys retired earlier. Use returns no retired key, but callers that use one at the
// moment may still store content under it. ContentKey still returns retired keys.
func (r *Ring) Retire(tenant, session string) (ids []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, e := range r.keys {
		if e.Tenant != tenant || e.Session != session {
			continue
		}
		if e.State == stateInUse {
			e.State = stateRetired
			if err := r.write(e); err != nil {
				return nil, fmt.Errorf("retire content key: %w", err)
			}
			r.keys[id] = e
		}
		ids = append(ids, id)
	}
	delete(r.current, owner{tenant, session})
	return ids, nil
}

// Destroy overwrites the file of a key and removes the key. An unknown id is no error. When
// Destroy returns nil, the key is no longer in the directory, and a power cut does not
// bring it back. This process has no copies of it except those that callers use at the
// moment.
func (r *Ring) Destroy(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.keys[id]
	if !ok {
		return nil
	}
	if err := errors.Join(destroyFile(filepath.Join(r.dir, id+keyFileSuffix)), durable.SyncDir(r.dir)); err != nil {
		return fmt.Errorf("destroy key %s: %w", id, err)
	}
	delete(r.keys, id)
	delete(r.closed, id)
	if o := (owner{e.Tenant, e.Session}); r.current[o] == id {
		delete(r.current, o)
	}
	return nil
}

// write writes a key file and waits until it is on disk.
func (r *Ring) write(e entry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, e.ID+keyFileSuffix)
	if old, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
		// The file of an existing key is overwritten in place, so that no other copy is
		// left on the disk. Only the state differs.
		if _, err := old.WriteAt(raw, 0); err != nil {
			return errors.Join(err, old.Close())
		}
		return errors.Join(old.Sync(), old.Close())
	}
	// If a crash leaves this file, Open destroys it.
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return durable.Replace(path, f, func(f *os.File) error {
		_, err := f.Write(raw)
		return err
	})
}

// destroyFile overwrites a file and then removes it. On disks that do not write in
// place, copies of the blocks may remain.
func destroyFile(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(make([]byte, info.Size()), 0)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Remove(path)
}
