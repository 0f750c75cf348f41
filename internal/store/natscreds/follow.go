package natscreds

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"time"
)

const (
	// recheckInterval is the interval at which Follow reads the list. A change takes
	// effect within this time.
	recheckInterval = 500 * time.Millisecond
	// staleAfter is how long credentials stay active after the list could first not be
	// read: the change may have revoked one.
	staleAfter = time.Minute
)

// Follow calls use with the active credentials, and again whenever they change, until
// ctx is done. If the list cannot be read or is invalid for a minute, Follow calls use with
// no credentials. If use fails, Follow calls it again.
func Follow(ctx context.Context, dir string, log *slog.Logger, use func([]Credential) error) {
	var current []Credential
	var unreadable time.Time  // when the list could first not be read
	var reason, unused string // the last logged errors of the list and of use
	failed := true            // use has not accepted current yet
	try := func(list []Credential) {
		current = list
		err := use(list)
		if failed = err != nil; !failed {
			unused = ""
		} else if unused != err.Error() {
			unused = err.Error()
			log.Error("a change of NATS credentials failed; the server tries again", "err", err)
		}
	}
	tick := time.NewTicker(recheckInterval)
	defer tick.Stop()
	for {
		list, err := Active(dir)
		switch {
		case err == nil:
			unreadable, reason = time.Time{}, ""
			if failed || !slices.Equal(keysOf(list), keysOf(current)) {
				try(list)
			}
		case unreadable.IsZero():
			unreadable = time.Now()
			fallthrough
		default:
			if reason != err.Error() {
				reason = err.Error()
				log.Error("cannot read the list of NATS credentials; the credentials read before are active until the given time", "err", err, "until", unreadable.Add(staleAfter).UTC())
			}
			if time.Since(unreadable) > staleAfter && (failed || len(current) > 0) {
				try(nil)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Active returns the active credentials.
func Active(dir string) ([]Credential, error) {
	list, err := read(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return slices.DeleteFunc(list, func(c Credential) bool { return !c.IsActive() }), err
}

func keysOf(list []Credential) []string {
	keys := make([]string, len(list))
	for i, c := range list {
		keys[i] = c.ID + c.Tenant + c.PublicKey
	}
	return keys
}
