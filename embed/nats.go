package embed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"daybook/events"
	"daybook/internal/exhausted"
	"daybook/internal/jetstream"
	"daybook/internal/natsserver"
)

// openLedger starts the embedded NATS server, or reaches an outside one, and
// opens the ledger on it.
func (d *Daybook) openLedger(ctx context.Context) error {
	if err := d.openKeys(); err != nil {
		return err
	}
	connect := func(name string) (*jetstream.Conn, error) {
		return jetstream.Connect(d.opts.NATSURL, name, d.opts.Logger)
	}
	var sync func() error // an outside server sees to that itself
	var writable func() context.Context
	var keeper func(string) (*jetstream.Conn, error)
	var offer func(string) error
	var starved func() error
	if d.opts.NATSURL == "" {
		reader, err := d.loadReader()
		if err != nil {
			return err
		}
		dir := d.streamsDir()
		if d.damage.Damaged() {
			if dir, err = d.salvaged(ctx); err != nil {
				return d.unopenable(err)
			}
		}
		d.nats, err = natsserver.Start(ctx, natsserver.Options{
			StoreDir:          dir,
			Listen:            d.opts.NATSAddr,
			Fallback:          d.opts.NATSFallback,
			MaxConnections:    d.bounds.nats,
			ReaderPassword:    reader.Password,
			ReadableStreams:   jetstream.Streams(),
			ReservedConsumers: []string{jetstream.WorkConsumer(events.DefaultPool)},
			NoSync:            d.opts.NoSync,
			Logger:            d.opts.Logger,
		})
		if err != nil {
			return d.unopenable(err)
		}
		if err := d.saveReader(); err != nil {
			return err
		}
		starved = exhausted.Descriptors // the server is in this process
		connect, writable, keeper, offer = d.nats.Conn, d.nats.Writable, d.nats.Keeper, d.nats.Offer
		sync = func() error {
			if err := d.keepDescriptions(); err != nil {
				d.opts.Logger.Warn("copy the descriptions of the streams", "err", err)
			}
			return d.nats.Sync()
		}
	}
	publish, err := connect("daybook publish")
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	d.closeConns = publish.Close
	consume, err := connect("daybook consume")
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	d.closeConns = func() { publish.Close(); consume.Close() }
	d.store, err = jetstream.Open(ctx, publish, consume, jetstream.Options{
		Replicas:    d.opts.Replicas,
		Exclusive:   d.opts.NATSURL == "",
		Keys:        d.storeKeys(),
		Existing:    d.damage.Damaged(),
		Sync:        sync,
		Writable:    writable,
		Stored:      d.stored,
		Damaged:     d.met,
		Starved:     starved,
		BlobDamaged: d.blobDamaged, BlobRepaired: d.blobRepaired,
		ReadOnly:   func() error { return cmp.Or(d.damage.ReadOnly(), d.disk.isOut()) },
		Hold:       d.disk.isLow,
		Incomplete: d.incomplete,
		Keeper:     keeper,
		Opened:     offer,
		Logger:     d.opts.Logger,
	})
	if err != nil {
		return d.unopenable(err)
	}
	if err := d.findLostBlobs(ctx); err != nil {
		return err
	}
	return d.keepDescriptions()
}

// reader is how subscribers log in, as left for them in the data directory.
type reader struct {
	URL         string `json:"url"`
	User        string `json:"user"`
	Password    string `json:"password"`
	InboxPrefix string `json:"inbox_prefix"`
}

func (d *Daybook) readerFile() string { return filepath.Join(d.opts.DataDir, "nats-reader.json") }

// loadReader keeps the reader's password from one start to the next.
func (d *Daybook) loadReader() (r reader, err error) {
	raw, err := os.ReadFile(d.readerFile())
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		return r, fmt.Errorf("read the credentials of subscribers from %s (delete the file to make new ones): %w", d.readerFile(), err)
	}
	return r, nil
}

// saveReader leaves the credentials for whoever may read the data directory.
func (d *Daybook) saveReader() error {
	login := d.nats.Reader()
	raw, err := json.MarshalIndent(reader{URL: d.NATSURL(), User: login.User, Password: login.Password, InboxPrefix: login.InboxPrefix}, "", "  ")
	if err != nil {
		return err
	}
	// Written beside and renamed: a process killed here must not leave half a
	// file for the next start to trip over.
	beside := d.readerFile() + ".new"
	err = errors.Join(ignoreMissing(os.Remove(beside)), os.WriteFile(beside, append(raw, '\n'), 0o600))
	if err == nil {
		err = os.Rename(beside, d.readerFile())
	}
	if err != nil {
		return fmt.Errorf("leave the credentials of subscribers: %w", err)
	}
	return nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// NATSURL is where subscribers connect, or empty. Their credentials are in the
// file nats-reader.json of the data directory.
func (d *Daybook) NATSURL() string {
	if d.nats == nil || d.nats.Addr() == "" {
		return d.opts.NATSURL
	}
	return "nats://" + d.nats.Addr()
}

// ReaderFile is the file with the credentials of subscribers, in the data
// directory, or empty where the NATS server is an outside one.
func (d *Daybook) ReaderFile() string {
	if d.nats == nil {
		return ""
	}
	return d.readerFile()
}
