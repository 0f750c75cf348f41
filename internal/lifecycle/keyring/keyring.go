// Package keyring keeps the keys that the content of sessions is encrypted
// under: one file each, in a directory of their own, apart from the ledger. What
// is encrypted under a key is erased by destroying it.
//
// It encrypts nothing itself, and does not know what the keys are for.
package keyring

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"daybook/internal/durable"
)

// keyBytes is the length of a key.
const keyBytes = 32

// suffix ends the names of key files.
const suffix = ".key"

// Ring holds the keys of a directory. It is safe for concurrent use and holds
// nothing to close. One process at a time may use a directory.
type Ring struct {
	dir string

	mu   sync.Mutex
	keys map[string]entry
	// current is the key of each session that new content goes under.
	current map[owner]string
}

type owner struct{ tenant, session string }

// entry is a key, as its file holds it.
type entry struct {
	ID      string `json:"id"`
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Key     string `json:"key"`
	// State has one length, whatever it says, so that it is written over in place.
	State string `json:"state"`
	raw   []byte
}

// The states of a key: new content goes under it, or none any more.
const (
	inUse   = "current"
	retired = "retired"
)

// Open reads the keys of a directory, made with mode 0700 if it does not exist.
// A file that cannot be read as a key is an error: what is encrypted under it
// would seem erased.
func Open(dir string) (*Ring, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of keys: %w", err)
	}
	return load(dir, true)
}

// Read reads the keys of a directory that may be in use, and changes nothing in
// it. It is for decrypting only.
func Read(dir string) (*Ring, error) { return load(dir, false) }

// load reads the keys; with sweep it removes what never became one.
func load(dir string, sweep bool) (*Ring, error) {
	r := &Ring{dir: dir, keys: map[string]entry{}, current: map[owner]string{}}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if !strings.HasSuffix(f.Name(), suffix) {
			if sweep && strings.HasSuffix(f.Name(), suffix+".new") { // never came into use
				if err := destroyFile(path); err != nil {
					return nil, fmt.Errorf("remove an unfinished key: %w", err)
				}
			}
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read the keys: %w", err)
		}
		e, err := parse(raw)
		if err != nil || e.ID+suffix != f.Name() {
			return nil, fmt.Errorf("the key file %s cannot be read (%w); restore it from a copy, or move it away: what is encrypted under it is unreadable then", path, errors.Join(err, errNamed(e.ID+suffix == f.Name())))
		}
		r.keys[e.ID] = e
		if e.State == inUse {
			r.current[owner{e.Tenant, e.Session}] = e.ID
		}
	}
	return r, nil
}

func errNamed(ok bool) error {
	if ok {
		return nil
	}
	return errors.New("it is named for another key")
}

// parse reads a key file.
func parse(raw []byte) (entry, error) {
	var e entry
	if err := json.Unmarshal(raw, &e); err != nil {
		return e, err
	}
	key, err := hex.DecodeString(e.Key)
	switch {
	case err != nil:
		return e, err
	case len(key) != keyBytes:
		return e, fmt.Errorf("its key has %d bytes, not %d", len(key), keyBytes)
	case e.State != inUse && e.State != retired:
		return e, fmt.Errorf("its state is %q", e.State)
	case e.ID == "" || e.Tenant == "" || e.Session == "" || strings.ContainsAny(e.ID, `/\.`):
		return e, errors.New("id, tenant or session is missing or malformed")
	}
	e.raw = key
	return e, nil
}

// Current returns the id of the key that new content of a session goes under,
// made if there is none. A new key is on disk when it returns.
func (r *Ring) Current(tenant, session string) (id string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if id, ok := r.current[owner{tenant, session}]; ok {
		return id, nil
	}
	var random [16]byte
	key := make([]byte, keyBytes)
	_, _ = rand.Read(random[:]) // never fails: it crashes the program instead
	_, _ = rand.Read(key)
	e := entry{ID: hex.EncodeToString(random[:]), Tenant: tenant, Session: session, Key: hex.EncodeToString(key), State: inUse, raw: key}
	if err := r.write(e); err != nil {
		return "", fmt.Errorf("make a key for a session: %w", err)
	}
	r.keys[e.ID], r.current[owner{tenant, session}] = e, e.ID
	return e.ID, nil
}

// ContentKey returns a key by its id, and false for one that is not here. The bytes
// are shared: nobody may change them.
func (r *Ring) ContentKey(id string) ([]byte, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.keys[id]
	return e.raw, ok
}

// Len is the number of keys that are here.
func (r *Ring) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.keys)
}

// Retire lets nothing new go under the keys that a session has, and returns
// their ids, those retired earlier too. They can still be read.
func (r *Ring) Retire(tenant, session string) (ids []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, e := range r.keys {
		if e.Tenant != tenant || e.Session != session {
			continue
		}
		if e.State == inUse {
			e.State = retired
			if err := r.write(e); err != nil {
				return nil, fmt.Errorf("retire a key: %w", err)
			}
			r.keys[id] = e
		}
		ids = append(ids, id)
	}
	delete(r.current, owner{tenant, session})
	return ids, nil
}

// Destroy overwrites and removes a key. One that is not here is no error. When
// it returns nil the key is gone from the directory, also after a power cut, and
// from this process but for copies that are being used at the moment.
func (r *Ring) Destroy(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.keys[id]
	if !ok {
		return nil
	}
	if err := errors.Join(destroyFile(filepath.Join(r.dir, id+suffix)), durable.SyncDir(r.dir)); err != nil {
		return fmt.Errorf("destroy key %s: %w", id, err)
	}
	delete(r.keys, id)
	if o := (owner{e.Tenant, e.Session}); r.current[o] == id {
		delete(r.current, o)
	}
	return nil
}

// write puts a key file in its place, on disk.
func (r *Ring) write(e entry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	path := filepath.Join(r.dir, e.ID+suffix)
	if old, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
		// The same key, marked: written over in place, so that no other copy is left
		// on the disk. Only the state differs.
		if _, err := old.WriteAt(raw, 0); err != nil {
			return errors.Join(err, old.Close())
		}
		return errors.Join(old.Sync(), old.Close())
	}
	// Open removes a file of this name that a crash left.
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return durable.Replace(path, f, func(f *os.File) error {
		_, err := f.Write(raw)
		return err
	})
}

// destroyFile overwrites a file before it is removed. On disks that do not write
// in place, copies of the blocks may outlive it.
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
