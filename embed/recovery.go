package embed

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/durable"
	"daybook/internal/eventproof"
	"daybook/internal/lifecycle/damage"
	"daybook/internal/spans"
	"daybook/internal/store/jet"
	"daybook/internal/store/jetstream"
	"daybook/internal/store/natsserver"
	"daybook/internal/store/stream"
	"daybook/internal/store/streamfiles"
	"daybook/internal/translog"
	"daybook/projections"
	"daybook/proof"
)

// recoveryPlan describes the acceptance of a loss. It is written to a file before the
// first step, so that the next start continues an interrupted acceptance with the same
// outcome.
type recoveryPlan struct {
	Lost events.Lost `json:"lost"`
	// Volume is the number of the new volume, and First its first position.
	Volume events.Volume `json:"volume"`
	First  uint64        `json:"first"`
	// Kept is the name of the directory for the damaged files. It is empty with an
	// outside server.
	Kept   string                `json:"kept"`
	Note   string                `json:"note"`
	Signed *events.CheckpointRef `json:"signed,omitempty"`
	// Removed, if set, are the removed volumes that events still record. The events that recorded
	// later removals are lost, and so are the events that these removals kept.
	Removed *removedVolumes `json:"removed,omitempty"`
	// Blobs are the lost heaps and texts, once they are known.
	Blobs *[]events.LostBlob `json:"blobs,omitempty"`
}

// acceptanceName is the file of a data directory that holds the recovery plan until it
// is completed.
const acceptanceName = "accepting.json"

// Files and directories in the data directory.
func (d *Daybook) acceptanceFile() string { return filepath.Join(d.opts.DataDir, acceptanceName) }
func (d *Daybook) acceptedDir() string    { return filepath.Join(d.opts.DataDir, "accepted") }

// acceptDamage continues a damaged ledger after the loss, if Storage.AcceptDamage is set or
// an earlier acceptance was interrupted. It opens a new volume whose first event names every
// lost position. With the embedded server it does this in a copy of the intact records. Then it
// moves the streams as found to quarantine, and puts the copy in their place.
func (d *Daybook) acceptDamage(ctx context.Context) error {
	plan, carryOut := d.planRecovery, d.applyRecovery
	if d.opts.NATS.URL != "" {
		plan, carryOut = d.planOutsideRecovery, d.applyOutsideRecovery
	}
	var a recoveryPlan
	switch raw, err := os.ReadFile(d.acceptanceFile()); {
	case err == nil:
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("read the recovery plan %s: %w; restore the data directory from a backup, or move that file away and start with --accept-damage again", d.acceptanceFile(), err)
		}
		d.opts.Logger.WarnContext(ctx, "continuing the acceptance of damage, which was interrupted")
		if d.opts.Storage.AcceptDamage {
			if err := d.acceptDamageOfProofs(); err != nil {
				return err
			}
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case !d.opts.Storage.AcceptDamage:
		return nil
	default:
		planned, err := plan(ctx)
		if err != nil {
			return err
		}
		// Only now: if the damage cannot be accepted, the operator restores a backup, and the start
		// after that must not end the origin without asking.
		if err := d.acceptDamageOfProofs(); err != nil {
			return err
		}
		if planned == nil {
			d.opts.Logger.WarnContext(ctx, "no events are lost; a difference from what was signed ends the origin of the ledger, otherwise --accept-damage is not needed")
			return nil
		}
		a = *planned
		if err := d.writePlan(a); err != nil {
			return err
		}
	}
	if err := carryOut(ctx, a); err != nil {
		if errors.Is(err, events.ErrDamaged) && d.abandonPlan(a) {
			return fmt.Errorf("accept the damage: %w; the streams were not changed: restore the data directory from a backup", err)
		}
		return fmt.Errorf("accept the damage: %w; the next start continues", err)
	}
	attrs := []any{"volume", int(a.Volume), "position", a.First, "lost_positions", spans.Between(a.Lost, 1, a.First)}
	if a.Kept != "" {
		attrs = append(attrs, "damaged_files", filepath.Join(d.opts.DataDir, a.Kept))
	}
	d.opts.Logger.WarnContext(ctx, "the damage was accepted; the ledger continues after it", attrs...)
	return nil
}

// acceptDamageOfProofs lets this start or a later one end the origin of the ledger, if that cannot
// be continued.
func (d *Daybook) acceptDamageOfProofs() error {
	if d.opts.Proof.Off {
		return nil
	}
	if err := translog.AcceptDamage(auditDir(d.opts.DataDir), d.opts.Proof.KeyFile, d.opts.Proof.SignedFile); err != nil {
		return fmt.Errorf("accept damage of the proofs: %w", err)
	}
	return nil
}

// abandonPlan removes a plan that cannot be carried out, with the permission to end the origin, and
// reports whether it did. It does not if the streams were replaced already.
func (d *Daybook) abandonPlan(a recoveryPlan) bool {
	if a.Kept == "" {
		return false // an outside ledger
	}
	if _, err := os.Stat(filepath.Join(d.opts.DataDir, a.Kept)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	return errors.Join(
		translog.RefuseDamage(auditDir(d.opts.DataDir), d.opts.Proof.KeyFile, d.opts.Proof.SignedFile),
		os.RemoveAll(d.acceptedDir()), ignoreMissing(os.Remove(d.acceptanceFile())),
	) == nil
}

// writePlan replaces the file with the recovery plan.
func (d *Daybook) writePlan(a recoveryPlan) error {
	raw, err := json.Marshal(a)
	if err == nil {
		err = durable.WriteFile(d.acceptanceFile(), raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the recovery plan: %w", err)
	}
	return nil
}

// planRecovery returns the plan, or nil if nothing is damaged. It reads the complete
// ledger and compares each event with the hash that was taken when it was recorded.
func (d *Daybook) planRecovery(ctx context.Context) (*recoveryPlan, error) {
	known := translog.OpenProvenLeaves(auditDir(d.opts.DataDir), d.signedPath())
	look := newFileScan()
	compared := comparison{known: known}
	streams, err := streamfiles.Check(ctx, d.streamsDir(), streamfiles.Options{IsValid: leafMatcher(&compared), OnRecord: look.observe, OnDeleted: look.observeDeleted})
	if err != nil {
		return nil, err
	}
	streams = look.withArchives(streams)
	if err := compared.checkSameLedger(auditDir(d.opts.DataDir)); err != nil {
		return nil, err
	}
	reach, err := d.highestKnown()
	if err != nil {
		return nil, err
	}
	reach = max(reach, projections.AppliedIn(ctx, d.projectionsFile()))
	removed := readRemoved(d.opts.DataDir)
	removalLost := removed.Volume > look.removed.Volume
	if removalLost {
		removed = look.removed
	}
	streams = removed.prependTo(streams)
	before, accepted := lastAccepted(streams)
	found := diagnose(streams, before, reach, d.marks.blobs.Position())
	if look.checkpoint > accepted {
		found = append(found, d.diagnoseProofs(look)...)
	}
	found = append(found, d.readBlobDamage()...)
	if len(found) == 0 {
		return nil, d.resetUnproven(ctx, compared, readRemoved(d.opts.DataDir).Last)
	}
	for _, f := range found {
		f.By = damage.FoundAtStart
		d.opts.Logger.WarnContext(ctx, "damage", "what", f.String())
	}
	highest := reach
	for _, s := range streams {
		if _, ledger := events.VolumeOf(s.Name); ledger {
			highest = max(highest, s.Highest, s.FirstSeq-1)
		}
	}
	for _, r := range before {
		highest = max(highest, r.To)
	}
	last, err := d.lastVolume(streams)
	if err != nil {
		return nil, err
	}
	a := &recoveryPlan{Volume: max(last, readRemoved(d.opts.DataDir).Volume) + 1, First: highest + 1, Kept: asideName(), Note: summarizeFindings(found)}
	if removalLost {
		a.Removed = &removed
	}
	a.Lost = slices.Clone(before)
	budget := events.MaxLostHashes
	for _, r := range before {
		budget -= len(r.Hashes)
	}
	for _, g := range missingRanges(streams, before, highest) {
		a.Lost = append(a.Lost, known.Ranges(g.From, g.To, a.First, &budget)...)
	}
	slices.SortFunc(a.Lost, func(a, b events.LostRange) int { return int(a.From) - int(b.From) })
	if c, ok := translog.NewestCheckpoint(auditDir(d.opts.DataDir)); ok {
		a.Signed = &events.CheckpointRef{Size: c.Size, RootHash: base64.StdEncoding.EncodeToString(c.Root[:])}
	}
	return a, nil
}

// summarizeFindings formats findings as one human-readable line. It counts those about heaps
// and texts, because all tenants can read the line.
func summarizeFindings(found []damage.Finding) string {
	const most = 20
	var parts []string
	isBlob := func(f damage.Finding) bool { return f.Blob != nil }
	all := len(found)
	found = slices.DeleteFunc(slices.Clone(found), isBlob)
	if blobs := all - len(found); blobs > 0 {
		parts = append(parts, fmt.Sprintf("%d damaged heaps and texts", blobs))
	}
	for i, f := range found {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(found)-most))
			break
		}
		parts = append(parts, f.String())
	}
	return strings.Join(parts, "; ")
}

// leafMatcher returns a function that compares records of the ledger with their known
// hashes.
func leafMatcher(c *comparison) func(name string, r streamfiles.Record) bool {
	return func(name string, r streamfiles.Record) bool {
		if name == stream.ArchiveStream {
			return c.isIntactPart(r)
		}
		if _, ledger := events.VolumeOf(name); !ledger {
			return true
		}
		return c.isIntact(storedOf(r))
	}
}

// comparison compares messages of the ledger with their known hashes.
type comparison struct {
	known *translog.ProvenLeaves
	// same counts the readable events that match their known hash, and changed those
	// that do not. unproven counts those whose hash the files of the tree contain, but do
	// not prove.
	same, changed, unproven int
}

// isIntact reports whether a message is an event that matches its hash, or whose hash is
// not known. It also counts events for checkSameLedger. A message that is no event may have
// a hash too: messages are hashed before they are decoded.
func (c *comparison) isIntact(m events.Stored) bool {
	if _, err := events.Decode(m.Seq, m.Message()); err != nil {
		return false
	}
	want, ok := c.known.Leaf(m.Seq)
	if !ok {
		if m.Seq <= c.known.Size() {
			c.unproven++
		}
		return true
	}
	if got, err := proof.LeafHash(eventproof.RecordOf(m)); err != nil || got != want {
		c.changed++
		return false
	}
	c.same++
	return true
}

// checkSameLedger returns an error if the hashes contradict more events than they
// confirm: then the hashes belong to another ledger, and no event was changed.
func (c *comparison) checkSameLedger(dir string) error {
	if c.changed <= c.same {
		return nil
	}
	return fmt.Errorf("accept damage: the proofs in %s contradict %d of %d intact events, so they are of another ledger; restore that directory from a backup of this ledger, or move it away: its files are made again, and without the signing key the ledger gets a new one", dir, c.changed, c.changed+c.same)
}

// resetUnproven makes the next Log compute the tree again if a file of it contradicts the
// hash over it: the events may have been changed together with the file. The Log then
// compares the events with what was signed. The tree keeps its first keep leaves.
func (d *Daybook) resetUnproven(ctx context.Context, c comparison, keep uint64) error {
	if c.unproven == 0 {
		return nil
	}
	d.opts.Logger.WarnContext(ctx, "the files of the tree do not prove the hashes of some events; the tree is computed again from the events", "events", c.unproven)
	if err := translog.ResetTree(auditDir(d.opts.DataDir), keep); err != nil {
		return fmt.Errorf("compute the tree again: %w", err)
	}
	return nil
}

// storedOf returns a record as the ledger would deliver it.
func storedOf(r streamfiles.Record) events.Stored {
	return events.Stored{Seq: r.Seq, Subject: string(r.Subject), Header: r.Fields(), Body: r.Body}
}

// lastVolume returns the highest number of a volume that exists, or that existed when
// the stream configurations were backed up.
func (d *Daybook) lastVolume(streams []streamfiles.Stream) (last events.Volume, err error) {
	for _, s := range streams {
		if v, ok := events.VolumeOf(s.Name); ok {
			last = max(last, v)
		}
	}
	list, err := os.ReadDir(d.streamConfigsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, e := range list {
		if v, ok := events.VolumeOf(e.Name()); ok {
			last = max(last, v)
		}
	}
	return last, nil
}

// applyRecovery performs the plan. Each step detects whether an interrupted acceptance has
// done it before.
func (d *Daybook) applyRecovery(ctx context.Context, a recoveryPlan) error {
	kept := filepath.Join(d.opts.DataDir, a.Kept)
	switch _, err := os.Stat(kept); {
	case errors.Is(err, fs.ErrNotExist):
		if err := d.salvageAccepted(ctx); err != nil {
			return err
		}
		stored, err := d.recordLoss(ctx, a, d.acceptedDir())
		if err != nil {
			return err
		}
		if err := d.swapAccepted(kept); err != nil {
			return err
		}
		d.marks.ledger.Advance(stored)
	case err != nil:
		return err
	default: // the acceptance was interrupted after its first move
		if err := d.swapAccepted(kept); err != nil {
			return err
		}
		stored, err := d.recordLoss(ctx, a, d.streamsDir())
		if err != nil {
			return err
		}
		d.marks.ledger.Advance(stored)
	}
	keep := readRemoved(d.opts.DataDir).Last
	if a.Removed != nil {
		keep = a.Removed.Last
	}
	// State that was derived from lost events is derived again from the remaining ones.
	for _, remove := range []func() error{
		d.removeProjections,
		func() error { return translog.ResetTree(auditDir(d.opts.DataDir), keep) },
		func() error { return d.forgetRemovals(a.Removed) },
		func() error { return d.resetMark("mark-blobs", &d.marks.blobs) },
		func() error { return os.RemoveAll(d.streamConfigsDir()) },
		func() error { return ignoreMissing(os.Remove(d.blobDamageFile())) },
	} {
		if err := remove(); err != nil {
			return err
		}
	}
	if err := durable.SyncDir(d.opts.DataDir); err != nil {
		return err
	}
	return os.Remove(d.acceptanceFile())
}

// forgetRemovals replaces the removed volumes by those that events still record. It does nothing if
// that is nil.
func (d *Daybook) forgetRemovals(r *removedVolumes) error {
	switch {
	case r == nil:
		return nil
	case r.Volume == 0:
		return ignoreMissing(os.Remove(removedFile(d.opts.DataDir)))
	}
	return writeRemoved(d.opts.DataDir, *r)
}

// resetMark resets a high-water mark.
func (d *Daybook) resetMark(name string, mark **damage.HighWaterMark) error {
	path := filepath.Join(d.opts.DataDir, name)
	err := errors.Join((*mark).Close(), ignoreMissing(os.Remove(path)))
	if err != nil {
		return err
	}
	*mark, err = damage.OpenMark(path)
	return err
}

// salvageAccepted makes the directory that replaces the streams: their intact records. The streams
// as found are not changed.
func (d *Daybook) salvageAccepted(ctx context.Context) error {
	if err := os.RemoveAll(d.acceptedDir()); err != nil {
		return err
	}
	how := streamfiles.SalvageOptions{
		IsValid: leafMatcher(&comparison{known: translog.OpenProvenLeaves(auditDir(d.opts.DataDir), d.signedPath())}),
		// Only files of volumes may be hard links: these volumes are not written again.
		CopyOnly: func(stream string) bool { _, ledger := events.VolumeOf(stream); return !ledger },
	}
	return streamfiles.Salvage(ctx, d.streamsDir(), d.acceptedDir(), d.streamConfigsDir(), how)
}

// swapAccepted moves the streams as found to the directory kept, unless that exists, and puts the
// directory with the intact records in their place, unless it is there.
func (d *Daybook) swapAccepted(kept string) error {
	if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
		// The name of the directory must be on disk too: without it, the next start
		// would find an empty ledger.
		if err := errors.Join(durable.SyncTree(d.acceptedDir()), durable.SyncDir(d.opts.DataDir)); err != nil {
			return err
		}
		err := os.Rename(d.streamsDir(), kept)
		if errors.Is(err, fs.ErrNotExist) {
			err = os.Mkdir(kept, 0o700)
		}
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	if err := os.Rename(d.acceptedDir(), d.streamsDir()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(d.opts.DataDir)
}

// recordLoss creates the new volume in the streams in dir, and appends the event that names the
// loss and those that follow it. It returns the last position that it stored an event at, or 0.
func (d *Daybook) recordLoss(ctx context.Context, a recoveryPlan, dir string) (stored uint64, err error) {
	if err := d.openKeys(); err != nil {
		return 0, err
	}
	server, err := natsserver.Start(ctx, natsserver.Options{StoreDir: dir, NoSync: d.opts.NATS.NoSync, Logger: d.opts.Logger})
	if err != nil {
		return 0, err
	}
	defer server.Close()
	publish, err := server.Conn("accept damage")
	if err != nil {
		return 0, err
	}
	defer publish.Close()
	consume, err := server.Conn("accept damage")
	if err != nil {
		return 0, err
	}
	defer consume.Close()
	// The mark is not advanced before these streams are those of the ledger.
	var last atomic.Uint64
	note := func(stream string, seq uint64) {
		if _, ledger := events.VolumeOf(stream); ledger {
			for before := last.Load(); seq > before && !last.CompareAndSwap(before, seq); before = last.Load() {
			}
		}
	}
	store, err := jetstream.Open(ctx, publish, consume, jetstream.Options{
		Client: jet.Options{Sync: server.Sync, OnStored: note, Logger: d.opts.Logger},
		Keys:   d.storeKeys(), Exclusive: true, OpenAdminConn: server.AdminConn,
		Accept: &stream.AcceptedLoss{Lost: a.Lost, Volume: a.Volume, First: a.First},
	})
	if err != nil {
		return 0, fmt.Errorf("open the intact part of the ledger: %w", err)
	}
	if a.Blobs == nil { // the plan keeps them, because a text that was dropped counts as removed
		list, err := lostBlobs(ctx, store)
		if err != nil {
			return 0, err
		}
		a.Blobs = &list
		if err := d.writePlan(a); err != nil {
			return 0, err
		}
	}
	// Every tenant can read the opening, so that it names texts of the ledger alone.
	var own, others []events.LostBlob
	for _, l := range *a.Blobs {
		if l.Tenant == events.LedgerTenant && len(own) < events.MaxLostBlobs {
			own = append(own, l)
		} else if l.Tenant != events.LedgerTenant {
			others = append(others, l)
		}
	}
	opening := &events.LedgerVolumeOpened{Lost: a.Lost, LostBlobs: own, Signed: a.Signed, Kept: a.Kept, Note: a.Note, Actor: systemActor}
	if err := store.RecordLoss(ctx, opening); err != nil {
		return 0, err
	}
	if err := store.RecordLostBlobs(ctx, others, systemActor); err != nil {
		return 0, err
	}
	err = store.DropLostBlobs(ctx, *a.Blobs)
	return last.Load(), err
}

// lostBlobs reads every heap and text that events reference. It returns those that
// cannot be read.
func lostBlobs(ctx context.Context, store *jetstream.Store) ([]events.LostBlob, error) {
	list := []events.LostBlob{}
	named, err := audit.ReferencedBlobs(ctx, store)
	if err != nil {
		return nil, fmt.Errorf("list the heaps and texts that events name: %w", err)
	}
	for _, b := range named {
		l := events.LostBlob{Tenant: b.Tenant, Kind: "text", SHA256: b.SHA256}
		if b.Heap {
			l.Kind = "heap"
			_, err = store.VerifyHeap(ctx, b.Tenant, b.SHA256)
		} else {
			_, err = store.Text(ctx, b.Tenant, b.SHA256)
		}
		switch {
		case err == nil, errors.Is(err, events.ErrRemoved), errors.Is(err, events.ErrShredded):
		case !errors.Is(err, events.ErrNotFound) && !errors.Is(err, events.ErrDamaged):
			return nil, fmt.Errorf("look for lost heaps and texts: %w", err)
		default:
			list = append(list, l)
		}
	}
	return list, nil
}

// fileScan collects facts besides damage while the files are checked.
type fileScan struct {
	// checkpoint is the position of the newest recorded checkpoint, and origin the origin
	// of that checkpoint.
	checkpoint uint64
	origin     string
	// removed are the removed volumes according to the newest event that records a removal.
	removed removedVolumes
	// archives are the archives of volumes, and archiveParts their parts by position.
	archives     map[events.Volume]*archiveFiles
	archiveParts map[uint64]archivePart
}

func newFileScan() *fileScan {
	return &fileScan{archives: map[events.Volume]*archiveFiles{}, archiveParts: map[uint64]archivePart{}}
}

// observe receives every record.
func (l *fileScan) observe(from string, r streamfiles.Record) {
	if from == stream.ArchiveStream {
		l.observeArchive(r)
	}
	v, ledger := events.VolumeOf(from)
	if !ledger {
		return
	}
	switch string(r.Subject) {
	case stream.StoredSubject(v, events.CheckpointSubject(events.LedgerTenant)):
		var c events.LedgerCheckpointed
		if r.Seq > l.checkpoint && json.Unmarshal(r.Body, &c) == nil {
			l.checkpoint, l.origin = r.Seq, c.Origin
		}
	case stream.StoredSubject(v, events.RemovalSubject(events.LedgerTenant)):
		var d events.LedgerVolumeRemoved
		if json.Unmarshal(r.Body, &d) == nil && d.Volume > l.removed.Volume {
			l.removed = removedVolumes{d.Volume, d.Last}
		}
	}
}

// diagnoseProofs returns a finding if the ledger holds checkpoints, and the directory of
// the proofs is missing or of another ledger. Without the finding, the server would sign
// with another key and not report it.
func (d *Daybook) diagnoseProofs(l *fileScan) []damage.Finding {
	if d.opts.Proof.Off || l.checkpoint == 0 {
		return nil
	}
	dir := auditDir(d.opts.DataDir)
	origin, ended, err := translog.ReadOrigin(dir, d.opts.Proof.KeyFile)
	if err != nil || origin == l.origin || ended == l.origin { // a successor may have signed nothing yet
		return nil // after an error: the step that opens the key reports it
	}
	what := "are missing"
	if origin != "" {
		what = "are of " + origin
	}
	return []damage.Finding{{What: fmt.Sprintf("the proofs in %s %s, but the ledger holds checkpoints signed as %s, the last at position %d", dir, what, l.origin, l.checkpoint)}}
}

// warnOfProofs logs the findings of diagnoseProofs.
func (d *Daybook) warnOfProofs(found []damage.Finding) {
	for _, f := range found {
		d.opts.Logger.Error("the proofs of the ledger are lost", slog.String("what", f.What))
	}
}

// lostAfter returns the position of the event that records the first lost range that ends
// after seq.
func (d *Daybook) lostAfter(seq uint64) (namedAt uint64, lost bool) {
	r, lost := spans.After(d.store.Lost(), seq)
	return r.NamedAt, lost
}
