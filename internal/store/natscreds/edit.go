package natscreds

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Create adds a credential for the events of a tenant and writes its file. It creates
// dir if it does not exist.
func Create(dir, name, tenant string, now time.Time) (Credential, error) {
	content, public, err := newKeys(name)
	if err != nil {
		return Credential{}, err
	}
	c := Credential{ID: newID(), Name: name, Tenant: tenant, PublicKey: public, Created: truncateToSecond(now)}
	if err := c.check(); err != nil {
		return c, err
	}
	err = edit(dir, func(list []Credential) ([]Credential, error) {
		active := 0
		for _, other := range list {
			if other.IsActive() && other.Name == name {
				return nil, fmt.Errorf("the credential %q exists; choose another --name, or rotate it", name)
			}
			if other.IsActive() {
				active++
			}
		}
		if active >= maxActive {
			return nil, fmt.Errorf("%d credentials are active, which is the limit; revoke some", active)
		}
		return append(list, c), nil
	}, func() error { return replaceFile(c.File(dir), content) })
	return c, err
}

// EnsureDefault creates a credential for a tenant, named like the tenant, if the list
// is empty.
func EnsureDefault(dir, tenant string, now time.Time) error {
	list, err := List(dir)
	if err != nil || len(list) > 0 {
		return err
	}
	_, err = Create(dir, tenant, tenant, now)
	return err
}

// List returns all credentials, oldest first, including revoked ones.
func List(dir string) ([]Credential, error) {
	list, err := read(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return list, err
}

// Rotate replaces the key of a credential and its file. The old key is refused once
// servers have read the list, see Follow. which is a name, or an id or the start of
// one.
func Rotate(dir, which string, now time.Time) (c Credential, err error) {
	var content []byte
	err = edit(dir, func(list []Credential) ([]Credential, error) {
		i, err := find(list, which, true)
		if err != nil {
			return nil, err
		}
		var public string
		if content, public, err = newKeys(list[i].Name); err != nil {
			return nil, err
		}
		at := truncateToSecond(now)
		list[i].PublicKey, list[i].Rotated = public, &at
		c = list[i]
		return list, nil
	}, func() error { return replaceFile(c.File(dir), content) })
	return c, err
}

// Revoke revokes a credential permanently and deletes its file. Revoking it again
// changes nothing. which is a name, or an id or the start of one.
func Revoke(dir, which string, now time.Time) (c Credential, err error) {
	ended := false
	err = edit(dir, func(list []Credential) ([]Credential, error) {
		i, err := find(list, which, false)
		if err != nil {
			return nil, err
		}
		if list[i].IsActive() {
			at := truncateToSecond(now)
			list[i].Revoked, ended = &at, true
		}
		c = list[i]
		return list, nil
	}, func() error {
		if !ended {
			return nil // the file may belong to a newer credential with this name
		}
		if err := os.Remove(c.File(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("delete the credentials file: %w", err)
		}
		return nil
	})
	return c, err
}

func truncateToSecond(now time.Time) time.Time { return now.UTC().Truncate(time.Second) }

// find returns the index of the credential with a name, or with an id or the start of
// one. An active one takes precedence over revoked ones of its name. If active is set, a
// revoked credential is an error.
func find(list []Credential, which string, active bool) (int, error) {
	found := -1
	for i, c := range list {
		if c.Name == which && (found < 0 || c.IsActive() || !list[found].IsActive()) {
			found = i
		}
	}
	for i := 0; found < 0 && i < len(list); i++ {
		if which != "" && strings.HasPrefix(list[i].ID, which) {
			for _, other := range list[i+1:] {
				if strings.HasPrefix(other.ID, which) {
					return 0, fmt.Errorf("the ids of several credentials begin with %q", which)
				}
			}
			found = i
		}
	}
	switch {
	case found < 0:
		return 0, fmt.Errorf("there is no credential %q; \"daybook nats credentials list\" shows those there are", clip(which))
	case active && !list[found].IsActive():
		return 0, fmt.Errorf("the credential %q is revoked; create a new one", clip(which))
	}
	return found, nil
}
