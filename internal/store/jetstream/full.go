package jetstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// The server's codes for a message that it does not store because a limit of its storage is
// reached.
const (
	codeAccountFull natsjs.ErrorCode = 10002 // the limits of the account
	codeServerFull  natsjs.ErrorCode = 10023 // max_file_store of the server
	codeStorageFull natsjs.ErrorCode = 10047
	codeNotStored   natsjs.ErrorCode = 10077 // any reason of the stream, which the text names
)

const (
	// fullEvery is how often a full server is asked whether it takes writes again.
	fullEvery = time.Second
	// fullSpare is how much space an account or a stream must have before writes are tried
	// again, in bytes, beside that of the message that was refused.
	fullSpare = 64 << 10
)

// full knows whether the server refuses messages because a limit of its storage is reached.
// The zero value has a server that takes them.
type full struct {
	mu   sync.Mutex
	why  *events.UnwritableError // guarded by mu; nil if the server takes messages
	need uint64                  // guarded by mu; bytes of the largest message that was refused
}

// fullOf returns why the server has not stored a message if a limit of its storage is
// reached, or "".
func fullOf(err error) string {
	ae, ok := errors.AsType[*natsjs.APIError](err)
	if !ok {
		return ""
	}
	var what string
	switch ae.ErrorCode {
	case codeAccountFull:
		what = "the account has reached its storage limit"
	case codeServerFull, codeStorageFull:
		what = "it has reached its storage limit (max_file_store)"
	case codeNotStored:
		if !strings.Contains(ae.Description, "maximum bytes") && !strings.Contains(ae.Description, "maximum messages exceeded") {
			return ""
		}
		what = "a stream has reached its limit"
	default:
		return ""
	}
	return fmt.Sprintf("%s (%s, code %d); free some space there or raise the limit", what, ae.Description, ae.ErrorCode)
}

// err is an *events.UnwritableError while the server refuses messages, or nil.
func (f *full) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.why == nil {
		return nil
	}
	return f.why
}

// noteFull returns an *events.UnwritableError if err is the answer of a server that is
// full, or nil. What follows is refused at once until the server takes writes again.
func (s *Store) noteFull(err error, size int) error {
	reason := fullOf(err)
	if reason == "" {
		return nil
	}
	server := "the NATS server"
	if s.opts.Server != "" {
		server += " at " + s.opts.Server
	}
	why := &events.UnwritableError{
		What:   "the ledger",
		Reason: server + " refuses to store more: " + reason + "; the server then takes writes again by itself, and what was acknowledged is safe",
		Passes: true,
	}
	s.full.mu.Lock()
	defer s.full.mu.Unlock()
	if s.full.why == nil {
		s.full.need = 0
		s.log.Warn("the ledger takes no writes", slog.Any("err", why))
		go s.awaitSpace()
	}
	s.full.why, s.full.need = why, max(s.full.need, uint64(size))
	return why
}

// awaitSpace asks a full server until it takes writes again, or until the connection is
// closed.
func (s *Store) awaitSpace() {
	closed := s.conn.StatusChanged(nats.CLOSED)
	defer s.conn.RemoveStatusListener(closed)
	pause := time.NewTimer(fullEvery)
	defer pause.Stop()
	select {
	case <-s.usable:
	case <-closed:
		return
	}
	for {
		select {
		case <-pause.C:
		case <-closed:
			return
		}
		if s.conn.IsClosed() {
			return
		}
		err := s.tryWrite()
		if err == nil {
			break
		}
		s.log.Debug("the ledger takes no writes", slog.Any("err", err))
		pause.Reset(fullEvery)
	}
	s.full.mu.Lock()
	s.full.why = nil
	s.full.mu.Unlock()
	s.log.Warn("the ledger takes writes again")
}

// tryingKey is the key of a write that tries whether the server is still full.
type tryingKey struct{}

// tryWrite returns nil if the server takes writes. It stores the count of purged chunks
// again as it is: the server checks its limits only for messages that it would store.
func (s *Store) tryWrite() error {
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), tryingKey{}, true), s.opts.TryWait)
	defer cancel()
	if err := s.Silent(); err != nil {
		return err
	}
	if err := s.lacksSpace(ctx); err != nil {
		return err
	}
	purged, seq, err := s.blobs.purged(ctx)
	if err != nil {
		return err
	}
	return s.blobs.setPurged(ctx, purged, seq)
}

// lacksSpace returns an error if the limits of the account or of a stream leave too little
// space for the message that was refused: a smaller one may fit. Limits that cannot be read
// are left to the next message.
func (s *Store) lacksSpace(ctx context.Context) error {
	s.full.mu.Lock()
	need := s.full.need + fullSpare
	s.full.mu.Unlock()
	if account, err := s.js.AccountInfo(ctx); err == nil {
		replicas, tier := uint64(max(s.opts.Replicas, 1)), account.Tier
		if tiered, ok := account.Tiers[fmt.Sprintf("R%d", replicas)]; ok {
			tier = tiered
		}
		// A limit of 0 stands where the tiers have the limits.
		if limit := tier.Limits.MaxStore; limit > 0 && tier.Store+need*replicas > uint64(limit) {
			return fmt.Errorf("the account has %d of %d bytes", tier.Store, limit)
		}
	}
	for _, stream := range []string{s.volumes().active().stream(), bucketStream} {
		info, err := s.streamInfo(ctx, stream)
		if err != nil {
			continue
		}
		if limit := info.Config.MaxBytes; limit > 0 && info.State.Bytes+need > uint64(limit) {
			return fmt.Errorf("stream %s has %d of %d bytes", stream, info.State.Bytes, limit)
		}
		if limit := info.Config.MaxMsgs; limit > 0 && info.State.Msgs >= uint64(limit) {
			return fmt.Errorf("stream %s has %d of %d messages", stream, info.State.Msgs, limit)
		}
	}
	return nil
}
