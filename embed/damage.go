package embed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/lifecycle/damage"
	"daybook/internal/spans"
	"daybook/internal/store/streamfiles"
	"daybook/internal/translog"
	"daybook/ledger"
)

// marks are the high-water marks of the ledger and of the blob store. They are stored apart
// from the streams.
type marks struct{ ledger, blobs *damage.HighWaterMark }

// blobStream is the stream of heaps and texts.
const blobStream = "OBJ_BLOBS"

// Files and directories in the data directory.
func (d *Daybook) streamsDir() string       { return filepath.Join(d.opts.DataDir, "jetstream") }
func (d *Daybook) salvageDir() string       { return filepath.Join(d.opts.DataDir, "readonly") }
func (d *Daybook) streamConfigsDir() string { return filepath.Join(d.opts.DataDir, "descriptions") }

// openMarks opens the high-water marks. It resets a mark that cannot be read: the
// proofs and the projections also show whether events are missing.
func (d *Daybook) openMarks() error {
	for name, mark := range map[string]**damage.HighWaterMark{"mark": &d.marks.ledger, "mark-blobs": &d.marks.blobs} {
		m, err := damage.OpenMark(filepath.Join(d.opts.DataDir, name))
		if errors.Is(err, damage.ErrMarkUnreadable) {
			d.opts.Logger.Warn("a high-water mark cannot be read and starts again at 0", slog.Any("error", err))
			err = nil
		}
		if err != nil {
			return err
		}
		*mark = m
	}
	return nil
}

// closeMarks closes the marks that are open.
func (d *Daybook) closeMarks() error {
	var errs []error
	for _, m := range []*damage.HighWaterMark{d.marks.ledger, d.marks.blobs} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// syncMark syncs the mark of the ledger to disk. The signer calls it, at most once for
// each checkpoint, so no append waits for it.
func (d *Daybook) syncMark() {
	if d.opts.NATS.NoSync {
		return
	}
	if err := d.marks.ledger.Sync(); err != nil {
		d.opts.Logger.Warn("the high-water mark of the ledger could not be synced; after a power cut it may be lower than the ledger", slog.Any("error", err))
	}
}

// noteStored advances the mark of a stream to a message that this process stored.
func (d *Daybook) noteStored(stream string, seq uint64) {
	if stream == blobStream {
		d.marks.blobs.Advance(seq)
	} else if _, ok := events.VolumeOf(stream); ok {
		d.marks.ledger.Advance(seq)
	}
}

// checkFilesAtStart checks the files of the embedded NATS server before that server opens
// and silently repairs them. If the ledger is damaged, the Daybook is read-only and uses
// a salvage copy of the intact records; the files themselves are not changed. If only the
// blob store is damaged, the damaged records are moved out of it.
func (d *Daybook) checkFilesAtStart(ctx context.Context) error {
	if err := d.openMarks(); err != nil {
		return err
	}
	if d.opts.NATS.URL != "" {
		return d.acceptDamage(ctx) // the files belong to another server
	}
	if err := d.repairStreamConfigs(ctx); err != nil {
		return err
	}
	if err := d.acceptDamage(ctx); err != nil {
		return err
	}
	seen := newFileScan()
	began := time.Now()
	if d.opts.Storage.CheckBytes >= 0 {
		d.checked = readChecked(d.opts.DataDir)
	}
	streams, err := d.checked.check(ctx, d.streamsDir(), streamfiles.Options{Newest: max(0, d.opts.Storage.CheckBytes)}, seen)
	if err != nil {
		return err
	}
	reach, err := d.highestKnown()
	if err != nil {
		return err
	}
	lost, accepted := lastAccepted(streams)
	var proofs []damage.Finding
	if seen.checkpoint > accepted { // otherwise the loss of the proofs was accepted with the damage
		proofs = d.diagnoseProofs(seen)
	}
	if len(proofs) > 0 {
		origin, _, err := translog.ReadOrigin(auditDir(d.opts.DataDir), d.opts.Proof.KeyFile)
		d.proofsMissing = err == nil && origin == ""
	}
	d.warnOfProofs(proofs)
	for _, f := range append(diagnose(withRemoved(d.opts.DataDir, streams), lost, reach, d.marks.blobs.Position()), proofs...) {
		f.By = damage.FoundAtStart
		d.damage.Report(f)
		if f.Radius == damage.OfBlob {
			d.blobsSuspect = true
			d.opts.Logger.ErrorContext(ctx, "the blob store is damaged", slog.String("finding", f.String()))
		}
	}
	if d.blobsSuspect && !d.damage.Damaged() {
		if err := d.repairBlobFiles(ctx, streams); err != nil {
			return err
		}
	}
	var bytes int64
	for _, s := range streams {
		bytes += s.Bytes
		if s.Skipped > 0 {
			d.opts.Logger.InfoContext(ctx, "the start did not check the oldest files of a stream; the scrub checks them", "stream", s.Name, "files", s.Skipped)
		}
	}
	d.opts.Logger.DebugContext(ctx, "looked for damage", "bytes", bytes, "took", time.Since(began))
	if err := d.recordChecked(d.checked.next(streams, seen)); err != nil {
		d.opts.Logger.WarnContext(ctx, "the check of the stream files could not be recorded; a start after a crash repeats it", "err", err)
	}
	return os.RemoveAll(d.salvageDir())
}

// highestKnown returns the highest position that the ledger is known to have had,
// according to the proofs and the high-water mark.
func (d *Daybook) highestKnown() (uint64, error) {
	signed, err := translog.HighestKnown(auditDir(d.opts.DataDir), d.signedPath())
	if err != nil {
		return 0, fmt.Errorf("read the highest position of the proofs: %w", err)
	}
	return max(signed, d.marks.ledger.Position()), nil
}

// diagnose returns the findings about the streams of a ledger and its blob store. reach is
// the highest known position of the ledger, and blobs that of the blob store. Ranges that
// are recorded as lost are no findings.
func diagnose(streams []streamfiles.Stream, lost events.Lost, reach, blobs uint64) []damage.Finding {
	var found []damage.Finding
	report := func(stream string, first, last uint64, format string, args ...any) {
		f := damage.Finding{Radius: damage.OfLedger, Stream: stream, First: first, Last: last, What: fmt.Sprintf(format, args...)}
		if stream == blobStream {
			f.Radius = damage.OfBlob
		}
		found = append(found, f)
	}
	// gap reports the positions of a range that are not recorded as lost.
	gap := func(stream string, first, last uint64, what string) {
		for _, r := range spans.Without(lost, first, last) {
			report(stream, r.From, r.To, "%s", what)
		}
	}
	var volume events.Volume // the last volume so far
	var end uint64           // its last position
	for _, s := range streams {
		v, ledger := events.VolumeOf(s.Name)
		switch {
		case ledger:
			if v != volume+1 && (s.FirstSeq <= end+1 || !spans.Covers(lost, end+1, s.FirstSeq-1)) {
				report(s.Name, 0, 0, "volume %d of the ledger is missing", volume+1)
			} else if s.FirstSeq != end+1 && s.HasConfig {
				if s.FirstSeq <= end {
					report(s.Name, 0, 0, "the volume begins at position %d, but the volume before it ends at %d", s.FirstSeq, end)
				}
				gap(s.Name, end+1, s.FirstSeq-1, "events are missing")
			}
			if s.First > s.FirstSeq && s.Skipped == 0 && s.HasConfig {
				gap(s.Name, s.FirstSeq, s.First-1, "events are missing")
			}
			for _, g := range s.Gaps {
				gap(s.Name, g.From, g.To, "no event can be read")
			}
			volume, end = v, max(s.Last, s.FirstSeq-1)
		case s.Name == blobStream && s.Highest < blobs:
			report(s.Name, s.Highest+1, blobs, "stored blobs are missing")
		}
	}
	if blobs > 0 && !slices.ContainsFunc(streams, func(s streamfiles.Stream) bool { return s.Name == blobStream }) {
		report(blobStream, 1, blobs, "stored blobs are missing")
	}
	newest := volume.Stream()
	if volume == 0 {
		newest = events.Volume(1).Stream()
	}
	if end < reach {
		gap(newest, end+1, reach, "recorded events are missing")
	}
	for _, s := range streams {
		for _, f := range s.Faults {
			// A crash may leave an incomplete message, which was never acknowledged.
			if torn := f.IsTorn && (s.Name != newest && s.Name != blobStream || s.Name == newest && s.Last >= reach || s.Name == blobStream && s.Highest >= blobs); torn {
				continue
			}
			report(s.Name, 0, 0, "%s", f)
		}
	}
	return found
}

// lastAccepted returns the loss of the last accepted damage and the position of the
// event that records it, or 0 if there is none.
func lastAccepted(streams []streamfiles.Stream) (lost events.Lost, at uint64) {
	for _, s := range slices.Backward(streams) {
		if _, ledger := events.VolumeOf(s.Name); !ledger || s.Opening.Seq == 0 {
			continue
		}
		m := storedOf(s.Opening)
		e, err := events.Decode(m.Seq, m.Message())
		if err != nil {
			continue
		}
		if d, ok := e.Data.(*events.LedgerVolumeOpened); ok && d.Reason == events.VolumeDamaged {
			return d.Losses(m.Seq), m.Seq
		}
	}
	return nil, 0
}

// missingRanges returns the positions up to reach that no event has and that are not
// recorded as lost.
func missingRanges(streams []streamfiles.Stream, lost events.Lost, reach uint64) []spans.Span {
	var list []spans.Span
	end := uint64(0)
	for _, s := range streams {
		if _, ledger := events.VolumeOf(s.Name); !ledger || s.First == 0 {
			continue
		}
		if s.First > end+1 {
			list = append(list, spans.Without(lost, end+1, s.First-1)...)
		}
		for _, g := range s.Gaps {
			list = append(list, spans.Without(lost, max(g.From, end+1), g.To)...)
		}
		end = max(end, s.Last)
	}
	if end < reach {
		list = append(list, spans.Without(lost, end+1, reach)...)
	}
	return list
}

// makeSalvageCopy creates a salvage copy and returns its directory. A NATS server can be
// started on the copy if the streams are damaged.
func (d *Daybook) makeSalvageCopy(ctx context.Context) (string, error) {
	if err := os.RemoveAll(d.salvageDir()); err != nil {
		return "", err
	}
	if err := streamfiles.Salvage(ctx, d.streamsDir(), d.salvageDir(), d.streamConfigsDir(), streamfiles.SalvageOptions{}); err != nil {
		return "", err
	}
	return d.salvageDir(), nil
}

// unreadableError returns the error for a ledger that cannot be opened, even for reading.
// If damage is the reason, it adds the advice for a recovery.
func (d *Daybook) unreadableError(err error) error {
	switch {
	case d.damage.Damaged():
	case errors.Is(err, events.ErrDamaged):
		return fmt.Errorf("%w; %s", err, damage.RecoveryAdvice)
	default:
		return err
	}
	return fmt.Errorf("%w; the intact part cannot be opened (%w), and no file was changed; %s", d.damage.Err(), err, damage.RecoveryAdvice)
}

// backupStreamConfigs copies the configurations of the streams, from which they can be
// repaired.
func (d *Daybook) backupStreamConfigs() error {
	if d.opts.NATS.URL != "" || d.damage.Damaged() {
		return nil
	}
	d.describing.Lock()
	defer d.describing.Unlock()
	return streamfiles.BackupStreamConfigs(d.streamsDir(), d.streamConfigsDir())
}

// repairStreamConfigs completes the changes of stream and consumer configurations that a
// killed process did not finish.
func (d *Daybook) repairStreamConfigs(ctx context.Context) error {
	repaired, err := streamfiles.Repair(ctx, d.streamsDir(), d.streamConfigsDir())
	for _, r := range repaired {
		d.opts.Logger.WarnContext(ctx, "completed a change of a stream configuration that a killed process had started", "stream", r.Stream, "consumer", r.Consumer, "repair", r.What)
	}
	return err
}

// checkComplete returns an error if messages may be missing from a stream. A finding
// without a stream may be about any stream, except that of a lost key. If only the blob store is damaged,
// checkComplete returns nil: the start has moved the damaged records out of its files.
func (d *Daybook) checkComplete(stream string) error {
	if !d.damage.Damaged() {
		return nil
	}
	list, _ := d.damage.Findings()
	for _, f := range list {
		if f.IsKeyLost || f.Radius == damage.OfRun {
			continue
		}
		if f.Stream == "" || (f.Stream == blobStream) == (stream == blobStream) {
			return d.damage.Err()
		}
	}
	return nil
}

// reportDamage records damage that a reader found. Damage of a blob that the store has
// already reported is not recorded twice.
func (d *Daybook) reportDamage(err error) {
	if b, ok := errors.AsType[*events.BlobDamagedError](err); ok {
		d.blobDamaged(b.Blob, errors.New(b.Why))
		return
	}
	f := damage.Finding{What: damageText(err), By: damage.FoundOnRead, IsKeyLost: translog.IsKeyLost(err)}
	if bad, ok := errors.AsType[*events.DecodeError](err); ok {
		f.First, f.Last, f.What = bad.Seq, bad.Seq, "the event cannot be read: "+bad.Err.Error()
		f.Stream = streamOf(bad.Subject)
	}
	d.damage.Report(f)
}

// damageText returns the text of an error for a finding. Texts with findings begin with the text of
// events.ErrDamaged.
func damageText(err error) string {
	return strings.TrimPrefix(err.Error(), events.ErrDamaged.Error()+": ")
}

// streamOf returns the stream that a subject of the ledger is stored in, or an empty
// string for other subjects.
func streamOf(subject string) string {
	parts := strings.SplitN(subject, ".", 3)
	if len(parts) < 3 {
		return ""
	}
	v, err := strconv.ParseUint(parts[1], 10, 16)
	if err != nil || parts[0] != "ledger" {
		return ""
	}
	return events.Volume(v).Stream()
}

// watchDamage stops the runner if damage is found while the Daybook runs.
func (d *Daybook) watchDamage(ctx context.Context) error {
	d.watching = startTask(ctx, func(ctx context.Context) {
		select {
		case <-ctx.Done():
			return
		case <-d.damage.Found():
		}
		d.opts.Logger.Error("the ledger is read-only from now on", slog.Any("error", d.damage.Err()))
		if d.stopRunner != nil {
			d.stopRunner()
		}
	})
	return nil
}

// Damage returns the known damage: at most 100 findings about the ledger, 100 about blobs and
// 100 about executions, and the number of further ones. If any is about the ledger, the Daybook is read-only.
func (d *Daybook) Damage() (list []damage.Finding, more int) { return d.damage.Findings() }

// readableEnd returns the last position up to which the ledger can be read from its
// beginning without a missing event. last is the end of the ledger.
func (d *Daybook) readableEnd(last uint64) uint64 {
	list, _ := d.damage.Findings()
	for _, f := range list {
		if _, ledger := events.VolumeOf(f.Stream); ledger && f.First > 0 {
			last = min(last, f.First-1)
		}
	}
	return last
}

// checkAnswers makes all reads of a damaged ledger fail unless the projections have
// applied every event that is known to be recorded: an answer that omits an event would
// be wrong. last is the position at which the ledger ends.
func (d *Daybook) checkAnswers(last uint64) error {
	reach, err := d.highestKnown()
	if err != nil {
		return err
	}
	if applied, known := d.projections.Applied(), max(last, reach); applied < known && d.projections.Damage() == nil {
		d.projections.SetDamage(fmt.Errorf("%w: answers would stop at event %d of %d", events.ErrDamaged, applied, known))
	}
	return nil
}

// failOrGoReadOnly ends the Daybook with err, unless the ledger is damaged or err reports
// damage: then the intact events can still be read.
func (d *Daybook) failOrGoReadOnly(err error) {
	if errors.Is(err, events.ErrDamaged) {
		d.reportDamage(err)
		return
	}
	if d.damage.Damaged() {
		d.opts.Logger.Warn("a component stopped because the ledger is damaged", slog.Any("error", err))
		return
	}
	d.fail(err)
}

// checkFiles returns the damage of the files of a ledger that no process uses, or nil.
// It MUST be called before a NATS server opens the files, which may repair them. blobs
// reports that the blob store is damaged, which is not an error. reach is the last position that
// the proofs know. Events that are missing at the end, up to reach, are not damage: verification
// reports them. Proofs that are missing are no damage either: they are computed again from the events.
func checkFiles(ctx context.Context, dataDir, streamsDir, keyFile string) (blobs bool, reach uint64, err error) {
	seen := newFileScan()
	streams, err := streamfiles.Check(ctx, streamsDir, streamfiles.Options{OnRecord: seen.observe, OnDeleted: seen.observeDeleted})
	if err != nil {
		return false, 0, err
	}
	streams = seen.withArchives(streams)
	reach, err = translog.HighestKnown(auditDir(dataDir), translog.SignedPath(auditDir(dataDir), keyFile, ""))
	if err != nil {
		return false, 0, fmt.Errorf("read the highest position of the proofs: %w", err)
	}
	state := damage.NewState()
	lost, accepted := lastAccepted(streams)
	var proofs []damage.Finding
	if origin, _, err := translog.ReadOrigin(auditDir(dataDir), keyFile); err == nil && origin != "" && seen.checkpoint > accepted {
		proofs = newDaybook(Options{DataDir: dataDir, Proof: ProofOptions{KeyFile: keyFile}}).diagnoseProofs(seen)
	}
	for _, f := range append(diagnose(withRemoved(dataDir, streams), lost, 0, 0), proofs...) {
		state.Report(f)
	}
	return len(state.Blobs()) > 0, reach, state.Err()
}

// checkReadsComplete returns the reason why MCP clients receive no answers, or nil.
func (d *Daybook) checkReadsComplete() error {
	if err := d.projections.Damage(); err != nil {
		return &ledger.Error{
			Code:    ledger.CodeUnavailable,
			Message: fmt.Sprintf("the remaining events of the ledger are not enough for an answer: %v; %s", cmp.Or(d.damage.Err(), err), damage.RecoveryAdvice),
			Err:     err, Permanent: true,
		}
	}
	return nil
}
