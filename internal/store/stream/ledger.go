package stream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/jet"
)

// Options set up a Ledger. The zero value works.
type Options struct {
	// Exclusive promises that the server is in this process: its memory is this
	// process's.
	Exclusive bool
	// Keys are those that content is encrypted under; without, content that is
	// encrypted cannot be read, and none can be encrypted.
	Keys events.Keys
	// OpenAdminConn, if set, opens a connection that may seal and remove volumes, which
	// the others need not. An embedded server's own Keeper belongs here.
	OpenAdminConn func(name string) (*nats.Conn, error)
	// OnVolumeOpened, if set, is told of the stream of each volume, more than once. An
	// embedded server's own Offer belongs here.
	OnVolumeOpened func(stream string) error
	// Prepare, if set, is called with each event before it is stored in a volume.
	Prepare func(ctx context.Context, v LiveVolume, e events.Event)
	// Damaged, if set, is told of damage whenever it is met, perhaps more than
	// once. Open then goes on with what is sound.
	Damaged func(err error)
	// Incomplete, if set, is why messages may be missing from a stream, or nil:
	// then what is looked up in it by subject is not answered, because an answer
	// that leaves something out would be wrong.
	Incomplete func(stream string) error
	// Accept, if set, is a loss that is not on record yet: Open takes it for granted,
	// and makes the volume to go on with. RecordLoss must follow.
	Accept *AcceptedLoss
}

// Ledger is the sequence of events, over all volumes. It is safe for concurrent use, and
// holds nothing to close.
type Ledger struct {
	jet  *jet.Client
	opts Options
	// texts keeps what is kept of removed volumes.
	texts Texts

	// volumeList is the list of volumes. turn is shared by those who append and taken
	// by who seals; turning is held while the list is changed.
	volumeList atomic.Pointer[volumes]
	appendMu   sync.RWMutex
	volumesMu  sync.Mutex
	// removing is held by who removes a volume.
	removing sync.Mutex
	// lost are the positions that are on record as lost.
	lost atomic.Pointer[events.Lost]
	// last is the highest position known to be stored.
	last atomic.Uint64
	// damage is the first damage met, for Health.
	damage atomic.Pointer[error]
}

// Texts keeps what is kept of removed volumes.
type Texts interface {
	// Open is called before the first use of what follows, perhaps more than once.
	Open(ctx context.Context) (made bool, err error)
	// PutText stores a text under its hash, Text reads it.
	PutText(ctx context.Context, tenant string, text []byte) (hash string, err error)
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}

// New makes a Ledger. The caller MUST call Open before any other method.
func New(client *jet.Client, kept Texts, opts Options) *Ledger {
	if opts.Keys == nil {
		opts.Keys = noKeys{}
	}
	return &Ledger{jet: client, opts: opts, texts: kept}
}

// Open makes sure that the volumes exist and are whole, and finishes a sealing or removal
// that was cut short. It reports whether a stream was made.
func (s *Ledger) Open(ctx context.Context) (made bool, err error) { return s.openVolumes(ctx) }

// damageErrorf makes an error of damage, and remembers the first for Health. A server
// without descriptors or memory cannot read what is there: then it is no damage.
func (s *Ledger) damageErrorf(format string, args ...any) error {
	if err := s.jet.Starved(); err != nil {
		return fmt.Errorf(format+" now: %w", append(args, err)...)
	}
	err := fmt.Errorf(format+": %w", append(args, events.ErrDamaged)...)
	s.damage.CompareAndSwap(nil, &err)
	if s.opts.Damaged != nil {
		s.opts.Damaged(err)
	}
	return err
}

// observeStored raises last.
func (s *Ledger) observeStored(seq uint64) {
	for old := s.last.Load(); seq > old; old = s.last.Load() {
		if s.last.CompareAndSwap(old, seq) {
			return
		}
	}
}

// noKeys knows none.
type noKeys struct{}

func (noKeys) ContentKey(string) ([]byte, bool) { return nil, false }
