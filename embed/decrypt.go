package embed

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/lifecycle/keyring"
)

// Decrypted counts the events of an export whose content is encrypted.
type Decrypted struct {
	// Readable events were decrypted. The keys of Unreadable ones are not in the
	// directory of the keys; these events are written with their encrypted content.
	Readable, Unreadable int
}

// DecryptExport writes the events of an export to a new file with mode 0600, one
// CloudEvent per line, decrypted with the keys of opts. It does not change the export,
// whose proofs are about the encrypted content. A server may use the keys at the same
// time. If the file exists, DecryptExport returns an error.
func DecryptExport(ctx context.Context, opts Options, dir, file string) (done Decrypted, err error) {
	place, _, err := opts.keyDir()
	if err != nil {
		return done, err
	}
	keys, err := keyring.Read(place)
	if err != nil {
		return done, fmt.Errorf("%w; name the directory of the keys with --key-dir", err)
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return done, fmt.Errorf("write the decrypted events: %w", err)
	}
	out := bufio.NewWriter(f)
	defer func() { err = errors.Join(err, out.Flush(), f.Close()) }()
	return done, audit.ExportedEvents(dir, func(m events.Stored) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := events.Decode(m.Seq, m.Message())
		if err != nil {
			return err
		}
		if key := events.ContentKeyID(e.Data); key != "" {
			if _, here := keys.ContentKey(key); here {
				done.Readable++
			} else {
				done.Unreadable++
			}
		}
		if err := events.Decrypt(&e, keys); err != nil {
			return err
		}
		ce, err := events.Structured(e)
		if err != nil {
			return err
		}
		line, err := json.Marshal(ce)
		if err != nil {
			return fmt.Errorf("encode event %d: %w", e.Seq, err)
		}
		_, err = out.Write(append(line, '\n'))
		return err
	})
}
