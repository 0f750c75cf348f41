package translog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/durable"
	"daybook/internal/eventproof"
	"daybook/proof"
)

// A person who can write the data directory can append an event that records the removal of a volume,
// and delete the volume. Until a checkpoint covers the event, nothing proves that this server recorded
// it. Therefore the server announces each removal in a file beside the signed file before it records
// the event, and a start accepts no other removal.

// removalsSuffix is the end of the name of the file with announced removals, after the name of the
// signed file. Each line is the SHA-256 of the payload of an event, in hex, the newest last. An announced
// removal stays in the file after a checkpoint covers it: its event can be recorded only once.
const removalsSuffix = ".removals"

// maxAnnounced is the maximum number of removals in the file, far more than are recorded between two
// checkpoints.
const maxAnnounced = 1000

// AnnounceRemoval makes a start accept the event of a removal that is not recorded yet. The announcement
// is durable on return. Servers of a shared ledger accept the removals of the others, and announce
// none.
func (l *Log) AnnounceRemoval(d *events.LedgerVolumeRemoved) error {
	if l.opts.Shared {
		return nil
	}
	payload, err := removalPayload(d)
	if err != nil {
		return err
	}
	return announceRemoval(SignedPath(l.opts.Dir, l.opts.KeyFile, l.opts.SignedFile), payload, !l.opts.NoSync)
}

func announceRemoval(signedPath string, payload []byte, sync bool) error {
	list, err := readAnnounced(signedPath)
	if err != nil {
		return err
	}
	list = append(list, announcementOf(payload))
	list = list[max(0, len(list)-maxAnnounced):]
	write := durable.WriteFileUnsynced
	if sync {
		write = durable.WriteFile
	}
	if err := write(signedPath+removalsSuffix, []byte(strings.Join(list, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("announce the removal of a volume: %w", err)
	}
	return nil
}

// removalPayload returns the payload of the event that records a removal.
func removalPayload(d *events.LedgerVolumeRemoved) ([]byte, error) {
	m, err := events.Encode(events.New(events.LedgerTenant, time.Now(), d))
	return m.Body, err
}

func announcementOf(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// readAnnounced returns the lines of the file with announced removals.
func readAnnounced(signedPath string) ([]string, error) {
	raw, err := os.ReadFile(signedPath + removalsSuffix)
	if ignoreMissing(err) != nil {
		return nil, fmt.Errorf("read the announced removals of volumes: %w", err)
	}
	return strings.Fields(string(raw)), nil
}

// isAnnounced reports whether the event of a removal was announced.
func isAnnounced(signedPath string, payload []byte) (bool, error) {
	list, err := readAnnounced(signedPath)
	return slices.Contains(list, announcementOf(payload)), err
}

// checkRemoval returns a *breakError for an event that records a removal that this server did not
// announce, unless the event was signed before, or the operator accepted damage. The caller must hold mu.
func (l *Log) checkRemoval(m events.Stored) error {
	if l.opts.Shared || l.signed.Note == nil || m.Seq <= l.signed.Size || !eventproof.HasType(m, events.TypeLedgerVolumeRemoved) || l.damageAccepted() {
		return nil
	}
	announced, err := isAnnounced(SignedPath(l.opts.Dir, l.opts.KeyFile, l.opts.SignedFile), m.Body)
	if err != nil || announced {
		return err
	}
	return breakOf("an event records a removal that the server did not begin",
		"event %d records that a volume was removed, and no checkpoint covers it, but this server did not begin a removal", m.Seq)
}

// compareRemovals compares the recorded removals that are in the tree with their leaves.
func (l *Log) compareRemovals(ctx context.Context, ledger Ledger) error {
	var refused error
	err := ledger.EachStored(ctx, events.RemovalSubject(events.LedgerTenant), func(m events.Stored, _ events.Event) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		refused = l.compareStored(m)
		return refused
	})
	if refused != nil {
		return refused
	}
	if err != nil { // the ledger reports its damage where it is read
		return fmt.Errorf("read the removals of volumes: %v", err) //nolint:errorlint // it is no difference from what was signed
	}
	return nil
}

// MayDeleteRemoved reports whether the streams of removed volumes may be deleted at a start: a checkpoint
// in the signed file covers the event that records the removal, the removal was announced, or the
// operator accepted damage. Otherwise Run reports the event as damage, and the streams are left as they
// are. The arguments before the last one are the fields of Options.
func MayDeleteRemoved(dir, keyFile, signedFile string, r events.Removal) bool {
	path := SignedPath(dir, keyFile, signedFile)
	if exists(path + acceptedSuffix) {
		return true
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) { // nothing was signed
		return true
	}
	if err != nil {
		return false
	}
	if c, err := proof.ParseCheckpoint(raw); err == nil && r.Seq <= c.Size {
		return true
	}
	payload, err := removalPayload(r.LedgerVolumeRemoved)
	if err != nil {
		return false
	}
	announced, err := isAnnounced(path, payload)
	return announced && err == nil
}
