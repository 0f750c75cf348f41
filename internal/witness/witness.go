package witness

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"daybook/internal/datadir"
	"daybook/proof"
)

// clockSlack is how far the clock may be behind the newest cosignature of an origin. Within it, the
// witness repeats the newer time.
const clockSlack = time.Minute

// Options configure a Witness. Dir and Logs are required.
type Options struct {
	// Dir is the state directory. Open creates it.
	Dir string
	// Name is the name of the key that Open creates. Default: a random one. If a key exists, its name
	// MUST be the same.
	Name string
	// Logs are the verification keys of the logs, in the form name+hash+base64. The name is the origin.
	// An origin may have several keys.
	Logs []string
	// Logger receives refused checkpoints that contradict cosigned ones. Default: slog.Default().
	Logger *slog.Logger
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Witness cosigns the checkpoints of its logs. It is safe for concurrent use.
type Witness struct {
	dir    string
	signer *proof.WitnessSigner
	logs   map[string]*log // by origin; never changed after Open
	lock   *datadir.Lock
	logger *slog.Logger
	now    func() time.Time
}

// log is what the witness knows of one origin.
type log struct {
	origin string
	keys   []string
	path   string

	mu sync.Mutex
	// closed is set by Close. Nothing is cosigned afterwards.
	closed bool
	// latest is the newest cosigned checkpoint. Its Note is nil if there is none; then its size is 0.
	latest proof.Checkpoint
	// at is the time of its cosignature.
	at time.Time
}

// ErrBadOption is wrapped by errors of Open about a field of Options.
var ErrBadOption = errors.New("a witness cannot start this way")

// Open takes the lock of the state directory, and reads or creates the key and the state of the given
// logs. It returns datadir.ErrLocked if another process has the directory. The caller MUST call Close.
func Open(opts Options) (*Witness, error) {
	lists, order, err := keysByOrigin(opts.Logs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadOption, err)
	}
	w := &Witness{dir: opts.Dir, logs: map[string]*log{}, logger: cmp.Or(opts.Logger, slog.Default()), now: opts.Now}
	if w.now == nil {
		w.now = time.Now
	}
	if err := w.openState(opts.Name); err != nil {
		return nil, err
	}
	for _, origin := range order {
		l := &log{origin: origin, keys: lists[origin], path: w.checkpointPath(origin)}
		if l.latest, l.at, err = w.readCheckpoint(origin); err != nil {
			return nil, errors.Join(err, w.Close())
		}
		w.logs[origin] = l
	}
	return w, nil
}

// keysByOrigin groups verification keys by their origins. order has the origins in their order.
func keysByOrigin(vkeys []string) (lists map[string][]string, order []string, err error) {
	if err := proof.CheckVKeys(vkeys); err != nil {
		return nil, nil, err
	}
	lists = map[string][]string{}
	for _, key := range vkeys {
		key = strings.TrimSpace(key)
		origin, err := proof.VKeyName(key)
		if err != nil {
			return nil, nil, err
		}
		if strings.HasPrefix(origin, proof.RootKeyPrefix) {
			return nil, nil, fmt.Errorf("the key %s is a root key, which signs no checkpoints; give the key of a server, as in the file audit/vkey", key)
		}
		if lists[origin] == nil {
			order = append(order, origin)
		}
		lists[origin] = append(lists[origin], key)
	}
	if len(order) == 0 {
		return nil, nil, errors.New("a witness needs the verification key of a log")
	}
	return lists, order, nil
}

// Close releases the state directory. A request that is still served afterwards is not cosigned: the next
// process that has the directory would not know its checkpoint.
func (w *Witness) Close() error {
	for _, l := range w.logs {
		l.mu.Lock()
		l.closed = true
		l.mu.Unlock()
	}
	return w.lock.Release()
}

// VKey returns the verification key of the witness.
func (w *Witness) VKey() string { return w.signer.Key().String() }

// refusal is the error of addCheckpoint if the witness refuses a request for what is in it.
type refusal struct {
	// Reason is what the status of the response says.
	Reason refusalReason
	// Size is the size of the newest cosigned checkpoint, with the reason conflict.
	Size uint64
	text string
}

// Error returns the reason in words.
func (r *refusal) Error() string { return r.text }

// refusalReason is why a witness refuses a request.
type refusalReason int

// Reasons of a refusal.
const (
	malformed refusalReason = iota
	unknownOrigin
	notSigned
	conflict
	inconsistent
)

func refuse(reason refusalReason, format string, args ...any) error {
	return &refusal{Reason: reason, text: fmt.Sprintf(format, args...)}
}

// request is a request to cosign a checkpoint.
type request struct {
	// Old is the size of the checkpoint that the witness cosigned last, according to the client.
	Old uint64
	// Proof is a consistency proof from there (RFC 6962).
	Proof []proof.Hash
	// Checkpoint is the signed checkpoint.
	Checkpoint []byte
}

// addCheckpoint verifies a checkpoint and returns the cosignature as a line of a note. The checkpoint is
// durable on return. An error other than a *refusal means that the witness could not decide or store it:
// the request may be sent again.
func (w *Witness) addCheckpoint(ctx context.Context, r request) (string, error) {
	c, err := proof.ParseCheckpoint(r.Checkpoint)
	if err != nil {
		return "", refuse(malformed, "%v", err)
	}
	l := w.logs[c.Origin]
	if l == nil {
		return "", refuse(unknownOrigin, "the witness does not follow this origin")
	}
	if c, err = proof.OpenCheckpoint(r.Checkpoint, l.keys...); err != nil {
		return "", refuse(notSigned, "%v", err)
	}
	if r.Old > c.Size {
		return "", refuse(malformed, "the old size %d is larger than the checkpoint of %d", r.Old, c.Size)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return "", errors.New("the witness is closed")
	}
	if r.Old != l.latest.Size {
		return "", &refusal{Reason: conflict, Size: l.latest.Size, text: fmt.Sprintf("the newest cosigned checkpoint has size %d", l.latest.Size)}
	}
	if err := w.extends(ctx, l.latest, c, r.Proof); err != nil {
		return "", err
	}
	return w.cosign(l, c)
}

// emptyRoot is the hash of a tree without leaves: the SHA-256 of nothing.
var emptyRoot = proof.Hash(sha256.Sum256(nil))

// extends verifies that a checkpoint extends the newest cosigned one.
func (w *Witness) extends(ctx context.Context, latest, c proof.Checkpoint, hashes []proof.Hash) error {
	switch {
	case c.Size == 0 && c.Root != emptyRoot:
		return refuse(inconsistent, "a checkpoint of size 0 does not have the hash of the empty tree")
	case latest.Size == 0 && len(hashes) > 0:
		return refuse(inconsistent, "a consistency proof from size 0 has no hashes")
	case latest.Size == 0:
		return nil
	}
	if c.Size == latest.Size && c.Root != latest.Root {
		w.logger.ErrorContext(ctx, "a log signed two checkpoints of one size that contradict each other", "origin", c.Origin, "cosigned", string(latest.Note), "refused", string(c.Note))
		return refuse(inconsistent, "another checkpoint of size %d is cosigned", c.Size)
	}
	if err := (proof.Consistency{From: latest.Size, To: c.Size, FromRoot: latest.Root, ToRoot: c.Root, Hashes: hashes}).Check(); err != nil {
		w.logger.WarnContext(ctx, "a signed checkpoint does not come with a proof that it extends the cosigned one", "origin", c.Origin, "cosigned", string(latest.Note), "refused", string(c.Note))
		return refuse(inconsistent, "the consistency proof from %d to %d is wrong", latest.Size, c.Size)
	}
	return nil
}

// cosign signs a checkpoint, makes it durable, and returns the cosignature. The caller must hold the
// mutex of l.
func (w *Witness) cosign(l *log, c proof.Checkpoint) (string, error) {
	now := w.now().Truncate(time.Second)
	switch {
	case now.Before(l.at.Add(-clockSlack)):
		return "", fmt.Errorf("the clock of the witness is behind its newest cosignature, which is of %s", l.at.Format(time.RFC3339))
	case now.Before(l.at):
		now = l.at
	}
	n, err := proof.ParseNote(c.Note)
	if err != nil {
		return "", err
	}
	if now.Equal(l.at) && c.Size == l.latest.Size { // the cosignature exists, unless the extension lines differ
		stored, err := proof.ParseNote(l.latest.Note)
		if err != nil {
			return "", err
		}
		if stored.Text == n.Text {
			return stored.Signatures[len(stored.Signatures)-1].Line(), nil
		}
	}
	s, err := w.signer.Cosign(n.Text, now)
	if err != nil {
		return "", err
	}
	// Signatures of unknown keys are not kept: the state has a bounded size.
	signed := proof.Note{Text: n.Text, Signatures: append(signaturesOf(n, l.keys), s)}
	stored := proof.Checkpoint{Origin: c.Origin, Size: c.Size, Root: c.Root, Note: signed.Encode()}
	if _, err := proof.ParseNote(stored.Note); err != nil { // the next start could not read it
		return "", refuse(malformed, "the checkpoint leaves no space for a cosignature: %v", err)
	}
	if err := w.writeCheckpoint(l.path, stored.Note); err != nil {
		return "", fmt.Errorf("store the checkpoint: %w", err)
	}
	l.latest, l.at = stored, now
	return s.Line(), nil
}

// signaturesOf returns the signatures of known keys, one of each.
func signaturesOf(n proof.Note, vkeys []string) []proof.Signature {
	var list []proof.Signature
	for _, key := range vkeys {
		for _, s := range n.Signatures {
			if proof.IsOf(s, key) {
				list = append(list, s)
				break
			}
		}
	}
	return list
}

// newest returns the newest cosigned checkpoint of the origin with a hash, as in the path of the
// HTTP interface. It reports false if there is none.
func (w *Witness) newest(originHash string) ([]byte, bool) {
	for _, l := range w.logs {
		if OriginHash(l.origin) == originHash {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.latest.Note, l.latest.Note != nil
		}
	}
	return nil, false
}
