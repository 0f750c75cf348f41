package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"daybook/internal/resources/exhausted"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/stream"
)

// openLedger starts the embedded NATS server or connects to an outside one, and opens
// the ledger on it.
func (d *Daybook) openLedger(ctx context.Context) error {
	if err := d.openKeys(); err != nil {
		return err
	}
	connect := func(name string) (*jet.Conn, error) {
		return jet.Connect(d.opts.NATS.URL, name, d.opts.Logger)
	}
	var sync func() error // nil with an outside server, which syncs its own files
	var writable func() context.Context
	var keeper func(string) (*jet.Conn, error)
	var offer func(string) error
	var starved func() error
	if d.opts.NATS.URL == "" {
		var err error
		dir := d.streamsDir()
		if d.damage.Damaged() {
			if dir, err = d.makeSalvageCopy(ctx); err != nil {
				return d.unreadableError(err)
			}
		}
		d.nats, err = natsserver.Start(ctx, natsserver.Options{
			StoreDir:        dir,
			Listen:          d.opts.NATS.Addr,
			Fallback:        d.opts.NATS.Fallback,
			MaxConnections:  d.bounds.nats,
			ReadableStreams: stream.Streams(), ProtectedStreams: []string{stream.ArchiveStream},
			TenantSubjects: stream.TenantSubjects,
			NoSync:         d.opts.NATS.NoSync,
			Logger:         d.opts.Logger,
		})
		if err != nil {
			return d.unreadableError(err)
		}
		if err := d.admitSubscribers(); err != nil {
			return err
		}
		starved = exhausted.Descriptors // the server shares the descriptors of this process
		connect, writable, keeper, offer = d.nats.Conn, d.nats.Writable, d.nats.AdminConn, d.nats.ExposeStream
		sync = func() error {
			if err := d.backupStreamConfigs(); err != nil {
				d.opts.Logger.Warn("the configurations of the streams are not backed up", "err", err)
			}
			return d.nats.Sync()
		}
	}
	publish, err := connect("daybook publish")
	if err != nil {
		return d.connectFailed(err)
	}
	d.closeConns = publish.Close
	consume, err := connect("daybook consume")
	if err != nil {
		return d.connectFailed(err)
	}
	d.closeConns = func() { publish.Close(); consume.Close() }
	d.store, err = jetstream.Open(ctx, publish, consume, jetstream.Options{
		Client: jet.Options{
			Replicas:     d.opts.NATS.Replicas,
			Server:       serverName(d.opts.NATS.URL),
			ReadExisting: d.damage.Damaged(),
			Sync:         sync,
			Writable:     writable,
			OnStored:     d.noteStored,
			OnWrite:      d.disk.AddWritten,
			Starved:      starved,
			ReadOnly:     func() error { return cmp.Or(d.readOnly(), d.disk.Out()) },
			Logger:       d.opts.Logger,
		},
		Exclusive:     d.opts.NATS.URL == "",
		Keys:          d.storeKeys(),
		OnDamage:      d.reportDamage,
		OnBlobDamaged: d.blobDamaged, OnBlobRepaired: d.blobRepaired,
		Hold:           d.disk.Low,
		CheckComplete:  d.checkComplete,
		CacheBytes:     d.budget.Cache(),
		OnCacheSize:    d.budget.SetCached,
		OpenAdminConn:  keeper,
		OnVolumeOpened: offer,
		MayDelete:      d.mayDeleteRemoved,
	})
	if err != nil {
		return d.unreadableError(err)
	}
	if err := d.findLostBlobs(ctx); err != nil {
		return err
	}
	return d.backupStreamConfigs()
}

// connectFailed returns the error for a failed connection to the NATS server. For an
// outside server it adds the server's address and the possible remedies.
func (d *Daybook) connectFailed(err error) error {
	if d.opts.NATS.URL == "" {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	return fmt.Errorf("connect to the NATS server at %s: %w; check that it runs, and the address and credentials of --nats-url", serverName(d.opts.NATS.URL), err)
}

// serverName returns the HOST:PORT of an outside server from its address, without
// credentials. For an address with several servers it returns a list, separated by
// commas.
func serverName(address string) string {
	var names []string
	for one := range strings.SplitSeq(address, ",") {
		one = strings.TrimSpace(one)
		if _, rest, ok := strings.Cut(one, "://"); ok {
			one = rest
		}
		if at := strings.LastIndexByte(one, '@'); at >= 0 {
			one = one[at+1:]
		}
		if end := strings.IndexAny(one, "/?#"); end >= 0 {
			one = one[:end]
		}
		if one == "" {
			continue
		}
		if _, _, err := net.SplitHostPort(one); err != nil {
			one = net.JoinHostPort(strings.Trim(one, "[]"), "4222")
		}
		names = append(names, one)
	}
	return strings.Join(names, ",")
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// NATSURL returns the address for subscribers: that of the embedded server, or the
// configured URL of an outside server, with its credentials. It returns an empty string if
// the embedded server does not listen. The credentials for the embedded server are in the
// directory "nats" of the data directory.
func (d *Daybook) NATSURL() string {
	if d.nats == nil || d.nats.Addr() == "" {
		return d.opts.NATS.URL
	}
	return "nats://" + d.nats.Addr()
}
