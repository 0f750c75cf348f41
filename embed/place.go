package embed

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"daybook/events"
	"daybook/internal/datadir"
	"daybook/internal/durable"
	"daybook/internal/lifecycle/damage"
	"daybook/internal/store/jet"
	"daybook/internal/store/stream"
	"daybook/internal/store/streamfiles"
	"daybook/internal/translog"
)

// outsideFile is the file of a data directory that records the outside NATS server of
// its ledger: HOST:PORT, without credentials.
const outsideFile = "outside-server"

// place describes where the ledger of a data directory is. Both booleans are false for
// a new directory.
type place struct {
	dir string
	// own reports that the directory holds a ledger of its own: there are streams, or stream
	// configurations, which remain if the streams are lost, or an acceptance of damage was
	// interrupted.
	own bool
	// outside reports that the ledger is on an outside NATS server. server is the
	// recorded address of that server, or empty if none is recorded.
	outside bool
	server  string
}

// placeOf determines where the ledger of a data directory is. It writes nothing. Earlier
// versions did not record the address of an outside server. A directory without an address
// counts as one of an outside ledger if it has a high-water mark or checkpoints, but
// neither streams nor stream configurations: an embedded server always leaves some of
// these.
func placeOf(dir string) (place, error) {
	p := place{dir: dir}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return p, nil //nolint:nilerr // the step that creates the directory reports the error
	}
	streams, err := streamfiles.Names(filepath.Join(dir, "jetstream"))
	if err != nil {
		return p, err
	}
	described, err := os.ReadDir(filepath.Join(dir, "descriptions"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, fmt.Errorf("read where the ledger is: %w", err)
	}
	p.own = len(streams) > 0 || len(described) > 0 || isQuarantining(dir)
	switch raw, err := os.ReadFile(filepath.Join(dir, outsideFile)); {
	case err == nil:
		p.outside, p.server = true, serverName(strings.TrimSpace(string(raw)))
		return p, nil
	case !errors.Is(err, fs.ErrNotExist):
		return p, fmt.Errorf("read where the ledger is: %w", err)
	case p.own:
		return p, nil
	}
	reach, err := highestKnownIn(dir)
	p.outside = reach > 0
	return p, err
}

// highestKnownIn returns the highest position that the ledger of a data directory is
// known to have had. It writes nothing.
func highestKnownIn(dir string) (uint64, error) {
	marked, err := damage.ReadMark(filepath.Join(dir, "mark"))
	if err != nil {
		return 0, err
	}
	signed, err := translog.HighestKnown(auditDir(dir), translog.SignedPath(auditDir(dir), "", ""))
	if err != nil {
		return 0, fmt.Errorf("read the highest position of the proofs: %w", err)
	}
	return max(marked, signed), nil
}

// isQuarantining reports whether an acceptance of damage of a ledger in the directory was
// interrupted. Between two steps of it, the directory of the streams does not exist.
func isQuarantining(dir string) bool {
	raw, err := os.ReadFile(filepath.Join(dir, acceptanceName))
	var a recoveryPlan
	return err == nil && json.Unmarshal(raw, &a) == nil && a.Kept != ""
}

// location describes the server that the ledger is on.
func (p place) location() string {
	if p.server == "" {
		return "an outside NATS server, whose address is not recorded"
	}
	return "the NATS server at " + p.server
}

// check returns an error for a command that would not find the ledger of the directory,
// or would mix it with another one. natsURL is Options.NATS.URL.
func (p place) check(command, natsURL string) error {
	switch {
	case p.outside && p.own:
		return fmt.Errorf("%s holds a ledger of its own, and its file %s names one on %s: delete that file if the ledger was moved into the directory; else move the folders jetstream and descriptions away and start with --nats-url", p.dir, outsideFile, p.location())
	case natsURL == "" && p.outside:
		return fmt.Errorf("%s belongs to a ledger on %s: start \"daybook %s\" with --nats-url and the address of that server, or name another --data-dir%s", p.dir, p.location(), command, p.restoreAdvice())
	case natsURL != "" && p.own:
		return fmt.Errorf("%s holds a ledger of its own, and --nats-url names another one: start \"daybook %s\" without --nats-url, or name another --data-dir; if the ledger was moved to that server, move the folders jetstream and descriptions away", p.dir, command)
	}
	return nil
}

// restoreAdvice returns the advice for a directory that lost all files of its own
// ledger, which looks like a directory of an outside ledger.
func (p place) restoreAdvice() string {
	if p.server != "" {
		return ""
	}
	return "; if the ledger was in this directory, its files are lost: restore the directory from a backup"
}

// checkPlace is the step of a start that refuses a directory with another ledger. It
// precedes every write and the takeover from a background owner.
func (d *Daybook) checkPlace(context.Context) error { return d.opts.checkPlace("serve") }

func (o Options) checkPlace(command string) error {
	p, err := placeOf(o.DataDir)
	if err != nil {
		return ofField("DataDir", err)
	}
	return p.check(command, o.NATS.URL)
}

// comparedAtStart is the number of events that a start compares with their hashes.
const comparedAtStart = 16

// checkLedger is the step of a start that refuses an outside server with another ledger
// than that of the directory. It runs before the directory is taken, and again
// afterwards if a process owned the directory. It writes nothing.
func (d *Daybook) checkLedger(ctx context.Context) error {
	dir, server := d.opts.DataDir, serverName(d.opts.NATS.URL)
	if d.opts.NATS.URL == "" || d.ledgerChecked {
		return nil
	}
	locked := d.lock == nil && datadir.IsLocked(dir)
	if locked && !d.opts.Owner.TakeOver {
		return nil // the next step names the owner
	}
	p, err := placeOf(dir)
	if err != nil || !p.outside {
		return err
	}
	reach, err := highestKnownIn(dir)
	if err != nil {
		return err
	}
	compared := comparison{known: translog.OpenProvenLeaves(auditDir(dir), d.signedPath())}
	conn, err := jet.Connect(d.opts.NATS.URL, "daybook start", d.opts.Logger)
	if err != nil {
		return d.connectFailed(err)
	}
	defer conn.Close()
	list, last, err := stream.Sample(ctx, conn, compared.known.Size(), comparedAtStart)
	if err != nil {
		return fmt.Errorf("read the ledger on the NATS server at %s: %w", server, err)
	}
	for _, m := range list {
		compared.isIntact(m)
	}
	if err := p.checkFound(server, compared, last, reach); err != nil {
		return asOption(err)
	}
	if last == 0 && reach > 0 && d.opts.Storage.AcceptDamage {
		return restoreOutside(fmt.Errorf("the NATS server at %s holds no ledger, and %d events were recorded: %w", server, reach, events.ErrDamaged))
	}
	d.ledgerChecked = !locked
	return nil
}

// checkFound returns an error if the ledger on a server is not that of the directory.
// The ledger on the server ends at position last; that of the directory is known to have
// had position reach. At the recorded address, or if no address is recorded, missing
// events are damage and not an error of checkFound.
func (p place) checkFound(server string, compared comparison, last, reach uint64) error {
	other := compared.changed > 0 && compared.same == 0
	moved := p.server != "" && p.server != server
	const advice = "start with --nats-url and the recorded address, or name another --data-dir"
	switch {
	case other && moved:
		return fmt.Errorf("%s belongs to a ledger on %s, and the NATS server at %s holds another ledger: %s", p.dir, p.location(), server, advice)
	case other:
		return fmt.Errorf("the proofs in %s contradict each event compared (%d) of the NATS server at %s, so they are of another ledger: name another --data-dir, or restore the directory, or the streams of that server, from a backup", auditDir(p.dir), compared.changed, server)
	case moved && last < reach:
		found := "holds no ledger"
		if last > 0 {
			found = fmt.Sprintf("holds one that ends at event %d of %d", last, reach)
		}
		return fmt.Errorf("%s belongs to a ledger on %s, and the NATS server at %s %s: %s; if the ledger was moved and lost its end, delete the file %s", p.dir, p.location(), server, found, advice, filepath.Join(p.dir, outsideFile))
	}
	return nil
}

// readableIn returns an error if the ledger of a directory cannot be read without a
// server: there is no ledger, or the ledger is on an outside NATS server. In both cases the
// error is ErrLocked while a process owns the directory, because that process can be asked.
// readableIn writes nothing.
func readableIn(dir string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return asOption(fmt.Errorf("%s is a file; name the data directory of a server", dir))
	}
	p, err := placeOf(dir)
	if err != nil {
		return err
	}
	switch {
	case p.own:
		return nil
	case datadir.IsLocked(dir):
		return datadir.LockedError(dir, datadir.OwnerPID(dir))
	case !p.outside:
		return noLedgerIn(dir)
	}
	return asOption(fmt.Errorf("%s belongs to a ledger on %s: start \"daybook serve\" with --nats-url, and ask it with --server%s", dir, p.location(), p.restoreAdvice()))
}

func noLedgerIn(dir string) error {
	return asOption(fmt.Errorf("there is no ledger in %s: name the data directory of a server; \"daybook serve\" prints it when it starts", dir))
}

// recordPlace records the outside server on which the ledger was found. A server may
// move: a new address replaces the old one, unless the ledger is damaged there. A
// failure is logged, and the next start tries again.
func (d *Daybook) recordPlace(ctx context.Context) error {
	if d.opts.NATS.URL == "" {
		return nil
	}
	p, err := placeOf(d.opts.DataDir)
	server := serverName(d.opts.NATS.URL)
	if err == nil && (p.server == server || p.server != "" && d.damage.Damaged()) {
		return nil
	}
	if err == nil {
		err = durable.WriteFile(filepath.Join(d.opts.DataDir, outsideFile), []byte(server+"\n"), 0o600)
	}
	if err != nil {
		d.opts.Logger.WarnContext(ctx, "the address of the NATS server is not recorded", slog.Any("error", err))
		return nil
	}
	d.opts.Logger.InfoContext(ctx, "recorded the NATS server of the ledger", "server", server, "before", cmp.Or(p.server, "none"))
	return nil
}
