package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"slices"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/spans"
)

// rules checks, over the events in order, what holds in every intact ledger: an execution is
// requested once and first; its attempts and its host calls are numbered without a gap; only
// pending calls are answered; it ends at most once; the recorded output matches its ending; a heap
// is collected only if an execution left it; the entries of a session are numbered without a gap,
// and each names an execution that ended as the entry states.
type rules struct {
	report *Report
	// partial is true if earlier events may be missing. Executions without a request are then
	// ignored.
	partial bool
	// off is true if any event may be missing. Only blobs are collected then.
	off bool
	// removedUntil is the time of the last event of the removed volumes, or zero.
	removedUntil time.Time
	// lost are the lost positions. A rule is not broken if lost events can be the reason.
	lost     events.Lost
	running  map[runKey]*run
	ended    map[runKey]ended
	sessions map[runKey]entries
	tenants  map[string]uint32
	// blobs are the blobs that events name, with the position of the first such event.
	blobs map[Blob]uint64
}

// Blob identifies content that is stored apart from its event.
type Blob struct {
	Tenant string
	// Heap is true for the heap of an execution, false for a text.
	Heap bool
	// SHA256 is the hash of the content, in hex.
	SHA256 string
}

// runKey is a tenant and an id. It is small because there may be millions.
type runKey struct {
	tenant uint32
	id     [16]byte
}

// entries are the index of the next entry of a session and the position of the last one.
type entries struct {
	next int64
	seen uint64
}

// run is an execution that has not ended.
type run struct {
	// seen is the position of the last event of the execution. While that event is applied, before
	// is the position of the execution's event before it. part is a lost range that may contain
	// events of the execution. Once part is set, output, calls and attempts cannot be counted.
	seen, before uint64
	part         *events.LostRange
	attempt      int
	handedBack   bool
	extent       events.Extent
	sum          hash.Hash // of the attempt's output
	sealed       bool      // some output is encrypted
	truncated    bool
	calls        int          // number so far
	pending      map[int]bool // calls without a recorded answer
}

type ended struct {
	seq    uint64
	status events.Status
}

// lostAfter returns a lost range between two positions, or nil. Events after it may depend on lost
// ones.
func (r *rules) lostAfter(seen, seq uint64) *events.LostRange {
	if l, ok := spans.After(r.lost, seen); ok && l.To < seq {
		return &l
	}
	return nil
}

// violated reports a broken rule or, if lost is not nil, a rule that cannot be checked because of
// the loss.
func (r *rules) violated(e *events.Event, lost *events.LostRange, format string, args ...any) {
	if lost != nil {
		r.report.addLossEffect(e.Seq, *lost, format, args...)
		return
	}
	r.report.addFinding(e.Seq, format, args...)
}

// wrong calls violated for a rule about an execution that has not ended.
func (r *rules) wrong(e *events.Event, run *run, format string, args ...any) {
	if run.part != nil {
		return // reported already
	}
	run.part = r.lostAfter(run.before, e.Seq)
	r.violated(e, run.part, format, args...)
}

func newRules(report *Report, partial bool) *rules {
	return &rules{
		report: report, partial: partial, running: map[runKey]*run{}, ended: map[runKey]ended{},
		sessions: map[runKey]entries{}, tenants: map[string]uint32{}, blobs: map[Blob]uint64{},
	}
}

func (r *rules) key(tenant, id string) runKey {
	n, ok := r.tenants[tenant]
	if !ok {
		n = uint32(len(r.tenants))
		r.tenants[tenant] = n
	}
	k := runKey{tenant: n}
	if events.ValidID(id) {
		if _, err := hex.Decode(k.id[:], []byte(strings.ReplaceAll(id, "-", ""))); err == nil {
			return k
		}
	}
	sum := sha256.Sum256([]byte(id))
	copy(k.id[:], sum[:])
	return k
}

func (r *rules) apply(e *events.Event) {
	r.collect(e)
	if r.off {
		return
	}
	switch d := e.Data.(type) {
	case *events.ExecutionRequested:
		r.requested(e, d)
	case *events.ExecutionStarted:
		r.started(e, d)
	case *events.ExecutionOutput:
		r.output(e, d)
	case *events.ExecutionOutputTruncated:
		if run := r.run(e, d.ExecutionID); run != nil && d.Attempt == run.attempt {
			run.truncated = true
		}
	case *events.ExecutionHandedBack:
		r.handedBack(e, d)
	case *events.ExecutionCancelRequested:
		r.run(e, d.ExecutionID)
	case *events.HostCalled:
		r.called(e, d)
	case *events.HostReturned:
		r.returned(e, d)
	case *events.SessionEntryRecorded:
		r.entry(e, d)
	default:
		if end := events.EndingOf(e.Data); end != nil {
			r.end(e, end)
		}
	}
}

// run returns the execution with an id if it has not ended. It reports an execution that was never
// requested; the caller handles one that has ended.
func (r *rules) run(e *events.Event, id string) *run {
	k := r.key(e.Tenant, id)
	found := r.running[k]
	if found != nil {
		found.before, found.seen = found.seen, e.Seq
		return found
	}
	if _, hasEnded := r.ended[k]; hasEnded || r.partial || r.mayBeInRemovedVolume(id) {
		return nil
	}
	lost := r.lostAfter(0, e.Seq)
	r.violated(e, lost, "%s of execution %s, which was never requested", e.Type, id)
	if lost != nil { // its requested event may be lost
		found = &run{seen: e.Seq, part: lost}
		r.running[k] = found
		r.report.Executions++
	}
	return found
}

// endOf reports whether an execution has ended.
func (r *rules) endOf(e *events.Event, id string) (ended, bool) {
	end, ok := r.ended[r.key(e.Tenant, id)]
	return end, ok
}

func (r *rules) requested(e *events.Event, d *events.ExecutionRequested) {
	k := r.key(e.Tenant, d.ExecutionID)
	_, hasEnded := r.ended[k]
	if hasEnded || r.running[k] != nil {
		r.report.addFinding(e.Seq, "execution %s is requested a second time", d.ExecutionID)
		return
	}
	r.running[k] = &run{seen: e.Seq}
	r.report.Executions++
}

func (r *rules) started(e *events.Event, d *events.ExecutionStarted) {
	run := r.run(e, d.ExecutionID)
	if run == nil {
		if end, hasEnded := r.endOf(e, d.ExecutionID); hasEnded {
			r.report.addFinding(e.Seq, "execution %s is started after its end at %d", d.ExecutionID, end.seq)
		}
		return
	}
	next := run.attempt + 1
	if run.handedBack {
		next = run.attempt
	}
	if d.Attempt != next {
		r.wrong(e, run, "attempt %d of execution %s is started, but %d is next", d.Attempt, d.ExecutionID, next)
	}
	run.attempt, run.handedBack, run.extent = d.Attempt, false, events.ExtentFrom(d)
	run.sum, run.sealed, run.truncated = nil, false, false
}

func (r *rules) output(e *events.Event, d *events.ExecutionOutput) {
	run := r.run(e, d.ExecutionID)
	if run == nil {
		return // the runner did not know yet that the execution had ended
	}
	at := run.extent
	if !run.extent.Add(d) {
		switch {
		case d.Attempt > at.Attempt:
			r.wrong(e, run, "output of attempt %d of execution %s, which is at attempt %d", d.Attempt, d.ExecutionID, at.Attempt)
		case d.Attempt == at.Attempt && d.FirstByte >= at.Byte:
			r.wrong(e, run, "output of execution %s continues at line %d, byte %d, but line %d, byte %d is next",
				d.ExecutionID, d.FirstLine, d.FirstByte, at.Line, at.Byte)
		}
		return
	}
	if d.Content.Plain == nil {
		run.sealed = true
		return
	}
	if run.sum == nil {
		run.sum = sha256.New()
	}
	for _, l := range d.Content.Plain.Lines {
		run.sum.Write([]byte(l.Text))
		if !l.Continued {
			run.sum.Write([]byte{'\n'})
		}
	}
}

// called checks that the calls of an execution are numbered without a gap over all its attempts.
func (r *rules) called(e *events.Event, d *events.HostCalled) {
	run := r.run(e, d.ExecutionID)
	if run == nil {
		if end, hasEnded := r.endOf(e, d.ExecutionID); hasEnded {
			r.report.addFinding(e.Seq, "execution %s calls %s.%s after its end at %d", d.ExecutionID, d.Server, d.Tool, end.seq)
		}
		return
	}
	switch {
	case d.Number != run.calls+1:
		r.wrong(e, run, "call %d of execution %s follows, but %d is next", d.Number, d.ExecutionID, run.calls+1)
	case d.Attempt != run.attempt:
		r.wrong(e, run, "attempt %d of execution %s calls %s.%s, which is at attempt %d", d.Attempt, d.ExecutionID, d.Server, d.Tool, run.attempt)
	}
	run.calls = d.Number
	if run.pending == nil {
		run.pending = map[int]bool{}
	}
	run.pending[d.Number] = true
}

// returned checks that an answer belongs to a pending call.
func (r *rules) returned(e *events.Event, d *events.HostReturned) {
	run := r.run(e, d.ExecutionID)
	if run == nil {
		if end, hasEnded := r.endOf(e, d.ExecutionID); hasEnded {
			r.report.addFinding(e.Seq, "call %d of execution %s is answered after its end at %d", d.Number, d.ExecutionID, end.seq)
		}
		return
	}
	if !run.pending[d.Number] {
		r.wrong(e, run, "call %d of execution %s is answered, which is not pending", d.Number, d.ExecutionID)
	}
	delete(run.pending, d.Number)
}

func (r *rules) handedBack(e *events.Event, d *events.ExecutionHandedBack) {
	run := r.run(e, d.ExecutionID)
	if run == nil {
		if end, hasEnded := r.endOf(e, d.ExecutionID); hasEnded {
			r.report.addFinding(e.Seq, "execution %s is handed back after its end at %d", d.ExecutionID, end.seq)
		}
		return
	}
	if d.Attempt != run.attempt || run.handedBack {
		r.wrong(e, run, "attempt %d of execution %s is handed back, which is at attempt %d", d.Attempt, d.ExecutionID, run.attempt)
		return
	}
	run.handedBack = true
}

func (r *rules) end(e *events.Event, d *events.Ending) {
	k := r.key(e.Tenant, d.ExecutionID)
	run := r.run(e, d.ExecutionID)
	if run == nil {
		if end, hasEnded := r.ended[k]; hasEnded {
			r.report.addFinding(e.Seq, "execution %s ends a second time, as %s; it was %s at %d", d.ExecutionID, e.Type, end.status, end.seq)
		}
		return
	}
	switch {
	case d.Attempt > run.attempt:
		r.wrong(e, run, "attempt %d of execution %s ends, which is at attempt %d", d.Attempt, d.ExecutionID, run.attempt)
	case d.Output != nil && run.attempt == 0:
		r.wrong(e, run, "execution %s ends with output and was never started", d.ExecutionID)
	case d.Output != nil:
		r.totals(e, d, run)
	}
	status, _ := e.Type.Status()
	delete(r.running, k)
	r.ended[k] = ended{e.Seq, status}
	r.report.Ended++
}

// totals compares the output totals of the ending with the recorded output.
func (r *rules) totals(e *events.Event, d *events.Ending, run *run) {
	if d.Output.Truncated || run.truncated {
		return // recorded in part
	}
	lines := run.extent.Line - 1
	if run.extent.Open {
		lines++
	}
	if d.Output.Lines != lines || d.Output.Bytes != run.extent.Byte {
		r.wrong(e, run, "the output of execution %s on record has %d lines and %d bytes; its end counts %d and %d",
			d.ExecutionID, lines, run.extent.Byte, d.Output.Lines, d.Output.Bytes)
		return
	}
	if run.sealed || d.Content.Sealed != nil {
		return // encrypted, with a keyed hash
	}
	sum := run.sum
	if sum == nil {
		sum = sha256.New()
	}
	if got := hex.EncodeToString(sum.Sum(nil)); d.Output.SHA256 != "" && got != d.Output.SHA256 {
		r.wrong(e, run, "the output of execution %s on record has the hash %s; its end says %s", d.ExecutionID, got, d.Output.SHA256)
	}
}

func (r *rules) entry(e *events.Event, d *events.SessionEntryRecorded) {
	r.report.Entries++
	if r.partial {
		return
	}
	k := r.key(e.Tenant, d.SessionID)
	so := r.sessions[k]
	if d.Index != so.next && !e.Kept() {
		r.violated(e, r.lostAfter(so.seen, e.Seq), "entry %d of session %q follows, but %d is next", d.Index, d.Session, so.next)
	}
	r.sessions[k] = entries{d.Index + 1, e.Seq}
	end, hasEnded := r.endOf(e, d.ExecutionID)
	if !hasEnded || end.status != d.Status || end.seq != d.TerminalSeq {
		var lost *events.LostRange
		if l, in := spans.At(r.lost, d.TerminalSeq); in {
			lost = &l
		}
		r.violated(e, lost, "entry %d of session %q states that execution %s was %s at %d, which is not recorded", d.Index, d.Session, d.ExecutionID, d.Status, d.TerminalSeq)
	}
}

// collect records the blobs that an event names.
func (r *rules) collect(e *events.Event) {
	switch d := e.Data.(type) {
	case *events.ExecutionRequested:
		r.blob(e, d.Content.Value().Source.Blob)
		r.body(e, d.Content.Value().Globals)
	case *events.ExecutionStarted:
		r.body(e, d.Callable)
	case *events.HostCalled:
		r.body(e, d.Content.Value().Arguments)
	case *events.HostReturned:
		r.body(e, d.Content.Value().Result)
	case *events.HeapCollected:
		r.collected(e, d)
		return
	case *events.LedgerVolumeRemoved:
		if d.Kept.SHA256 != "" {
			r.named(e, Blob{Tenant: events.LedgerTenant, SHA256: d.Kept.SHA256})
		}
		return
	case *events.LedgerVolumeOpened:
		for _, l := range d.LostBlobs {
			delete(r.blobs, Blob{Tenant: l.Tenant, Heap: l.Kind == "heap", SHA256: l.SHA256})
		}
		return
	}
	end := events.EndingOf(e.Data)
	if end == nil {
		return
	}
	content := end.Content.Value()
	r.body(e, content.Result)
	r.body(e, content.Error)
	if end.Heap != nil {
		r.named(e, Blob{Tenant: e.Tenant, Heap: true, SHA256: end.Heap.SHA256})
	}
}

// body records the blob of a text that is stored apart.
func (r *rules) body(e *events.Event, b *events.Body) {
	if b != nil {
		r.blob(e, b.Blob)
	}
}

// collected removes a heap from the expected blobs until another event names it.
func (r *rules) collected(e *events.Event, d *events.HeapCollected) {
	b := Blob{Tenant: e.Tenant, Heap: true, SHA256: d.Heap}
	if _, named := r.blobs[b]; !named && !r.partial && !r.off && r.removedUntil.IsZero() {
		r.violated(e, r.lostAfter(0, e.Seq), "heap %s is collected, but no run has left it, or it was collected before", d.Heap)
	}
	delete(r.blobs, b)
}

func (r *rules) blob(e *events.Event, ref *events.BlobRef) {
	if ref != nil {
		r.named(e, Blob{Tenant: e.Tenant, SHA256: ref.SHA256})
	}
}

func (r *rules) named(e *events.Event, b Blob) {
	if _, known := r.blobs[b]; !known {
		r.blobs[b] = e.Seq
	}
}

// ReferencedBlobs returns the heaps and texts that the events of a ledger name, without removed
// ones, ordered by the position of the first event that names them. It skips messages that are not
// events.
func ReferencedBlobs(ctx context.Context, stream Stream) ([]Blob, error) {
	named := newRules(&Report{}, true)
	named.off = true
	for after := uint64(0); ; {
		batch, err := stream.ReadRaw(ctx, after, readAtOnce)
		if err != nil {
			return nil, err
		}
		if len(batch) == 0 {
			break
		}
		for _, m := range batch {
			if e, err := events.Decode(m.Seq, m.Message()); err == nil {
				named.apply(&e)
			}
		}
		after = batch[len(batch)-1].Seq
	}
	list := make([]Blob, 0, len(named.blobs))
	for b := range named.blobs {
		list = append(list, b)
	}
	slices.SortFunc(list, func(a, b Blob) int {
		return cmp.Or(cmp.Compare(named.blobs[a], named.blobs[b]), cmp.Compare(a.SHA256, b.SHA256))
	})
	return list, nil
}
