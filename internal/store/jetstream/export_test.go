package jetstream

import (
	"context"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/resources/fairness"
	"daybook/internal/store/jet"
)

// DecodeStored reads an answer to a direct get as the Store does.
func DecodeStored(m *nats.Msg) (events.Event, error) {
	got, err := jet.DecodeMessage(m)
	if err != nil {
		return events.Event{}, err
	}
	s := NewLedger(&jet.Client{}, nil, ledgerOptions{})
	return s.Decode(got)
}

// ParseReply reads the reply subject of a delivery.
func ParseReply(reply string) (delivered int, seq uint64, err error) {
	r, err := parseReply(reply)
	return r.delivered, r.seq, err
}

// Compress and Decompress are how blobs are packed.
var (
	Compress   = whole.compress
	Decompress = whole.decompress
)

// ReadPacked reads the stored form of a heap.
func ReadPacked(ctx context.Context, s *Store, tenant, hash string) ([]byte, error) {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return nil, err
	}
	info, err := s.bucket.describe(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.bucket.read(ctx, info)
}

// SetLimit bounds the bodies that the tail keeps, in bytes.
func (t *Tail) SetLimit(n int) { t.limit = n }

// SetSweeping has new events swept once they are older than age and larger than bytes.
func (t *Tail) SetSweeping(age time.Duration, bytes int64) {
	t.sweepAge, t.sweepEvery, t.sweepBytes = age, time.Millisecond, bytes
}

// Swept is the position up to which new events were swept.
func (t *Tail) Swept() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.swept
}

// Kept is how many pages the tail keeps.
func (t *Tail) Kept() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.pages)
}

// The steps of sealing the active volume, in order, for tests that stop between
// them.
func (s *Store) SealingSteps() []func(context.Context) error {
	v := s.volumes().active()
	return []func(context.Context) error{
		func(ctx context.Context) error {
			return s.recordSealing(ctx, v, 0, Sealing{Reason: events.VolumeAsked})
		},
		func(ctx context.Context) error { return s.sealStream(ctx, v.number) },
		func(ctx context.Context) error {
			info, err := s.jet.StreamInfo(ctx, v.stream())
			if err == nil {
				_, err = s.makeVolume(ctx, v.number+1, info.State.LastSeq+1)
			}
			return err
		},
		func(ctx context.Context) error {
			list, err := s.findVolumes(ctx)
			if err == nil {
				_, err = s.recordOpening(ctx, list)
			}
			return err
		},
	}
}

// StreamsOf names the streams of the volumes.
func StreamsOf(t testing.TB, s *Store) (names []string) {
	t.Helper()
	numbers, err := s.volumeNumbers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		names = append(names, n.Stream())
	}
	return names
}

// DeleteStream removes a stream behind the back of everybody.
func DeleteStream(t testing.TB, s *Store, name string) {
	t.Helper()
	js, done, err := s.keeper()
	if err == nil {
		defer done()
		err = js.DeleteStream(t.Context(), name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ReplacePacked replaces the stored form of a heap with what change makes of it.
func ReplacePacked(ctx context.Context, s *Store, tenant, hash string, change func(packed []byte, info *natsjs.ObjectInfo) []byte) error {
	name, err := blobName("heap", tenant, hash)
	if err != nil {
		return err
	}
	e, err := s.bucket.entry(ctx, name)
	if err != nil {
		return err
	}
	packed, err := s.bucket.read(ctx, &e.ObjectInfo)
	if err != nil {
		return err
	}
	packed = change(packed, &e.ObjectInfo)
	e.NUID, e.Size, e.Chunks = events.NewID(time.Now()), uint64(len(packed)), uint32((len(packed)+chunkBytes-1)/chunkBytes)
	if err := s.bucket.writeChunks(ctx, e.NUID, packed); err != nil {
		return err
	}
	return s.bucket.writeEntry(ctx, e.ObjectInfo, e.seq)
}

// CompressWithWindow is Compress with references as far back as window says.
func CompressWithWindow(blob []byte, window int) []byte {
	e, err := zstd.NewWriter(nil, zstd.WithWindowSize(window), zstd.WithSingleSegment(false))
	if err != nil {
		panic(err)
	}
	return e.EncodeAll(blob, nil)
}

// Announce lets the runners of a pool know of a request, whether there is one or
// not.
func Announce(s *Store, pool, tenant string) { s.announceReturned(pool, tenant, 0) }

// ReleaseUnannounced is Store.Release for a request in the active volume that no
// runner learns of.
func ReleaseUnannounced(ctx context.Context, s *Store, pool, tenant string, position uint64) error {
	got, err := s.jet.WorkJS.Consumer(ctx, s.volumes().active().stream(), WorkConsumer(pool, tenant))
	if err != nil {
		return err
	}
	_, err = s.jet.WorkConn.RequestWithContext(ctx, workReply(got.CachedInfo(), position), nak(0))
	return err
}

// WaitingBeforeLook is how many of the announced requests of a tenant wait when a
// runner has not yet looked at its consumers.
func WaitingBeforeLook(ctx context.Context, s *Store, pool, tenant string, announced int) int {
	c := newConsumption(s.Queue, pool, fairness.Slots{Total: announced}, func(context.Context, Delivery) {})
	c.ctx, c.extra = ctx, time.NewTimer(time.Hour)
	defer c.extra.Stop()
	c.expect(tenant, announced)
	c.running.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sched.Waiting(tenant)
}

// ConsumeSeen is Store.Consume; waiting returns how many requests of a tenant the
// runner expects.
func ConsumeSeen(s *Store, pool string, slots fairness.Slots, fn func(context.Context, Delivery)) (run func(context.Context) error, waiting func(tenant string) int) {
	c := newConsumption(s.Queue, pool, slots, fn)
	waiting = func(tenant string) int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.sched.Waiting(tenant)
	}
	return c.run, waiting
}

// LookForVolumes is what a follower does when nothing was announced for a while.
func LookForVolumes(ctx context.Context, s *Store) { s.lookForVolumes(ctx) }

// SetForgetAfter sets how long tenants with nothing to do are remembered.
func SetForgetAfter(s *Store, d time.Duration) { s.forgetAfter = d }

// SetLookEvery sets how often a runner looks for requests that it was not notified of. It
// is called before Consume.
func SetLookEvery(s *Store, d time.Duration) { s.lookEvery = d }

// Subscriptions is how many subscriptions the connection for work has.
func Subscriptions(s *Store) int { return s.jet.WorkConn.NumSubscriptions() }

// QueueLen is how many messages a subscription of the connection for work holds.
func QueueLen(s *Store) int { return s.jet.WorkConn.Opts.SubChanLen }
