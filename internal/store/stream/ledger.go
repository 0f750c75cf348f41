package stream

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"daybook/events"
	"daybook/internal/store/archive"
	"daybook/internal/store/jet"
)

// Options configure a Ledger. The zero value works.
type Options struct {
	// Exclusive states that the server runs in this process and shares its memory.
	Exclusive bool
	// Keys are the content keys. Default: none; encrypted content can then be neither
	// read nor stored.
	Keys events.Keys
	// OpenAdminConn, if set, opens a connection that may seal and remove volumes. The
	// other connections then need no such permission. For an embedded server, set
	// AdminConn of natsserver.Server.
	OpenAdminConn func(name string) (*nats.Conn, error)
	// OnVolumeOpened, if set, is called with the stream of each volume, possibly more
	// than once. For an embedded server, set ExposeStream of natsserver.Server.
	OnVolumeOpened func(stream string) error
	// Prepare, if set, is called with each event before it is stored in a volume.
	Prepare func(ctx context.Context, v LiveVolume, e events.Event)
	// OnDamage, if set, is called with damage that is found, possibly more than once for
	// the same damage. Open then continues with the intact part of the ledger.
	OnDamage func(err error)
	// MayDelete, if set, reports whether Open may delete the streams of removed volumes,
	// which a crash left. Otherwise they stay, unread.
	MayDelete func(newest events.Removal) bool
	// CheckComplete, if set, returns the reason why a stream may lack messages, or nil.
	// Lookups by subject in such a stream fail, because they could miss a message.
	CheckComplete func(stream string) error
	// Accept, if set, is a loss that is not yet recorded. Open accepts it and creates the
	// volume in which the ledger continues. The caller MUST then call RecordLoss.
	Accept *AcceptedLoss
}

// Ledger is the sequence of events over all volumes. It is safe for concurrent use and
// needs no closing.
type Ledger struct {
	jet  *jet.Client
	opts Options
	// texts stores the kept events of removed volumes.
	texts Texts

	// volumeList is replaced with volumesMu held. Appends hold appendMu for reading, and
	// Rotate and OpenVolume hold it for writing.
	volumeList atomic.Pointer[volumes]
	appendMu   sync.RWMutex
	volumesMu  sync.Mutex
	// removalMu is held during Remove and Archive.
	removalMu sync.Mutex
	// archiveCache is shared by all archives.
	archiveCache *archive.Cache
	// lost holds the positions that are recorded as lost.
	lost atomic.Pointer[events.Lost]
	// lastStored is the highest position known to be stored.
	lastStored atomic.Uint64
	// notifiers are those of the followers of this process.
	notifiers notifiers
	// firstDamage is the first damage found, for Health.
	firstDamage atomic.Pointer[error]
	// healthy counts the calls of Health without an error, which decide the sealed stream that it
	// queries.
	healthy atomic.Uint64
}

// Texts stores the kept events of removed volumes.
type Texts interface {
	// Open MUST be called before the first use of the other methods. It may be called
	// more than once.
	Open(ctx context.Context) (made bool, err error)
	// PutText stores a text under its SHA-256 and returns that in hexadecimal. Text
	// returns the text of a hash.
	PutText(ctx context.Context, tenant string, text []byte) (hash string, err error)
	Text(ctx context.Context, tenant, hash string) ([]byte, error)
}

// New returns a Ledger. The caller MUST call Open before any other method.
func New(client *jet.Client, kept Texts, opts Options) *Ledger {
	if opts.Keys == nil {
		opts.Keys = noKeys{}
	}
	return &Ledger{jet: client, opts: opts, texts: kept, archiveCache: archive.NewCache(archiveCacheBytes)}
}

// Open checks the volumes, creates the first one if there is none, and completes a
// rotation or removal that was interrupted. It reports whether it created a volume or
// continued a rotation.
func (s *Ledger) Open(ctx context.Context) (made bool, err error) { return s.openVolumes(ctx) }

// damageErrorf returns an error that wraps events.ErrDamaged, and keeps the first one
// for Health. A server without descriptors or memory cannot read existing messages; the
// error then is that shortage, and no damage.
func (s *Ledger) damageErrorf(format string, args ...any) error {
	if err := s.jet.Starved(); err != nil {
		return fmt.Errorf(format+" now: %w", append(args, err)...)
	}
	err := fmt.Errorf(format+": %w", append(args, events.ErrDamaged)...)
	s.firstDamage.CompareAndSwap(nil, &err)
	if s.opts.OnDamage != nil {
		s.opts.OnDamage(err)
	}
	return err
}

// observeStored notes that an event is stored at a position.
func (s *Ledger) observeStored(seq uint64) {
	s.advanceStored(seq)
	s.notifiers.observe(seq)
}

func (s *Ledger) advanceStored(seq uint64) {
	for old := s.lastStored.Load(); seq > old; old = s.lastStored.Load() {
		if s.lastStored.CompareAndSwap(old, seq) {
			return
		}
	}
}

// noKeys holds no content key.
type noKeys struct{}

func (noKeys) ContentKey(string) ([]byte, bool) { return nil, false }
