package audit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
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
// is collected only if an execution or a migration left it; the entries of a session are numbered without a gap,
// and each names an execution that ended as the entry states; a projection copy ends before its event.
type rules struct {
	report *Report
	// partial is true if earlier events may be missing. Executions without a request are then
	// ignored.
	partial bool
	// off is true if any event may be missing. Only blobs are collected then.
	off bool
	// tenant is the only tenant whose events and blobs are verified, or empty for all.
	tenant string
	// blind is true if the events that record losses are not among the verified ones. Any missing
	// event may then be lost.
	blind bool
	// removedUntil is the time of the last event of the removed volumes, or zero.
	removedUntil time.Time
	// losses are the lost positions. A rule is not broken if lost events can be the reason.
	losses   losses
	running  map[runKey]*run
	ended    endedRuns
	sessions sessionEntries
	tenants  *numbers
	// blobs are the blobs that events name, and the heaps that an event recorded as collected or lost.
	blobs *namedBlobs
	// lostRequests are the executions whose request is lost, with the lost range.
	lostRequests map[runKey]*events.LostRange
}

// Blob identifies content that is stored apart from its event.
type Blob struct {
	Tenant string
	// Heap is true for the heap of an execution, false for a text.
	Heap bool
	// SHA256 is the hash of the content, in hex.
	SHA256 string
}

// run is an execution that has not ended.
type run struct {
	attempt    int
	handedBack bool
	extent     events.Extent
	sum        hash.Hash // of the attempt's output
	sealed     bool      // some output is encrypted
	truncated  bool
	calls      int          // number so far
	pending    map[int]bool // calls without a recorded answer
	artifacts  int          // number of the newest attempt so far
	// attemptAt, outputAt, callsAt and artifactsAt are the positions of the last events that stated
	// the attempt, the extent of the output and the numbers of calls and artifacts. Only events that
	// were lost after them can explain another value.
	attemptAt, outputAt, callsAt, artifactsAt uint64
	// unknown is what lost events leave unknown, or nil if nothing is.
	unknown *unknownOfRun
}

// unknownOfRun is what is not known of an execution because events of it are lost. That they are
// lost is reported already.
type unknownOfRun struct {
	// attempt, extent, calls and artifacts are true if the next event that states the attempt, the
	// extent of the output or the number of calls or artifacts may state any.
	attempt, extent, calls, artifacts bool
	// sum is true if the hash of the attempt's output cannot be computed.
	sum bool
	// unseen are the numbers of the calls that are lost and that no recorded event answers.
	unseen []spans.Span
}

// lacks returns what is not known of a run, to be changed.
func (run *run) lacks() *unknownOfRun {
	if run.unknown == nil {
		run.unknown = &unknownOfRun{}
	}
	return run.unknown
}

// known returns what is not known of a run, to be read.
func (run *run) known() unknownOfRun {
	if run.unknown == nil {
		return unknownOfRun{}
	}
	return *run.unknown
}

// breaks reports a broken rule. If the number of events that are missing can be lost after a
// position, it reports a rule that cannot be checked because of the loss, and returns true. missing
// is 0 if lost events cannot be the reason.
func (r *rules) breaks(e *events.Event, after, missing uint64, format string, args ...any) (lost bool) {
	if l := r.losses.explain(after, e.Seq, missing); l != nil {
		r.report.addLossEffect(e.Seq, *l, format, args...)
		return true
	}
	if missing > 0 && r.blind {
		r.report.Affected++
		if len(r.report.LostEffects) < mostFindings {
			r.report.LostEffects = append(r.report.LostEffects, Finding{e.Seq, fmt.Sprintf(format, args...) + ": the selection does not show whether events are lost"})
		}
		return true
	}
	r.report.addFinding(e.Seq, format, args...)
	return false
}

// above returns by how much a number is greater than another one, or 0.
func above[N int | int64](n, than N) uint64 { return uint64(max(n-than, 0)) }

func newRules(report *Report, partial bool) *rules {
	tenants := &numbers{}
	return &rules{
		report: report, partial: partial, running: map[runKey]*run{}, ended: newEndedRuns(), sessions: newSessionEntries(),
		tenants: tenants, blobs: newNamedBlobs(tenants), lostRequests: map[runKey]*events.LostRange{},
	}
}

func (r *rules) key(tenant, id string) (k runKey) {
	binary.BigEndian.PutUint32(k[:], r.tenants.number(tenant))
	if events.ValidID(id) {
		if _, err := hex.Decode(k[4:], []byte(strings.ReplaceAll(id, "-", ""))); err == nil {
			return k
		}
	}
	sum := sha256.Sum256([]byte(id))
	copy(k[4:], sum[:])
	return k
}

func (r *rules) apply(e *events.Event) {
	r.collect(e)
	if r.off {
		return
	}
	r.losses.observe(e)
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
	case *events.ExecutionReplayed:
		r.run(e, d.ExecutionID)
	case *events.ExecutionModulesLoaded:
		r.run(e, d.ExecutionID)
	case *events.HostCalled:
		r.called(e, d)
	case *events.HostReturned:
		r.returned(e, d)
	case *events.ExecutionArtifactCreated:
		r.artifact(e, d)
	case *events.SessionEntryRecorded:
		r.entry(e, d)
	case *events.LedgerProjectionsCopied:
		r.copied(e, d)
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
	if found := r.running[k]; found != nil {
		return found
	}
	if _, hasEnded := r.ended.get(k); hasEnded || r.partial || r.mayBeInRemovedVolume(id) {
		return nil
	}
	const format = "%s of execution %s, which was never requested"
	lost := r.losses.explainRequest(e, id)
	if lost == nil {
		r.report.addFinding(e.Seq, format, e.Type, id)
		return nil
	}
	r.report.addLossEffect(e.Seq, *lost, format, e.Type, id)
	before := lost.From - 1 // nothing of the execution was recorded before the request
	found := &run{attemptAt: before, outputAt: before, callsAt: before, artifactsAt: before}
	r.running[k], r.lostRequests[k] = found, lost
	r.report.Executions++
	return found
}

// endOf reports whether an execution has ended.
func (r *rules) endOf(e *events.Event, id string) (ended, bool) {
	return r.ended.get(r.key(e.Tenant, id))
}

func (r *rules) requested(e *events.Event, d *events.ExecutionRequested) {
	k := r.key(e.Tenant, d.ExecutionID)
	_, hasEnded := r.ended.get(k)
	found := r.running[k]
	if !hasEnded && found == nil {
		r.running[k] = &run{attemptAt: e.Seq, outputAt: e.Seq, callsAt: e.Seq, artifactsAt: e.Seq}
		r.report.Executions++
		return
	}
	const format = "execution %s is requested a second time"
	lost := r.lostRequests[k]
	if _, timed := events.MintedAt(d.ExecutionID); lost == nil || timed {
		r.report.addFinding(e.Seq, format, d.ExecutionID)
		return
	}
	// The client sent the request again under its idempotency key. Other events of the execution may
	// be lost, so that the runner continues after the remaining ones.
	delete(r.lostRequests, k)
	r.report.addLossEffect(e.Seq, *lost, format, d.ExecutionID)
	if found != nil {
		u := found.lacks()
		u.attempt, u.extent, u.calls, u.artifacts = true, true, true, true
	}
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
	if d.Attempt != next && !run.known().attempt {
		missing := above(d.Attempt, next)
		if d.Attempt == run.attempt {
			missing = 1 // it was handed back
		}
		r.breaks(e, run.attemptAt, missing, "attempt %d of execution %s is started, but %d is next", d.Attempt, d.ExecutionID, next)
	}
	run.attempt, run.handedBack, run.extent = d.Attempt, false, events.ExtentFrom(d)
	run.sum, run.sealed, run.truncated = nil, false, false
	run.attemptAt, run.outputAt = e.Seq, e.Seq
	run.artifacts, run.artifactsAt = 0, e.Seq
	if run.unknown != nil {
		run.unknown.attempt, run.unknown.extent, run.unknown.sum, run.unknown.artifacts = false, false, false, false
	}
}

func (r *rules) output(e *events.Event, d *events.ExecutionOutput) {
	run := r.run(e, d.ExecutionID)
	if run == nil {
		return // the runner did not know yet that the execution had ended
	}
	if !run.extent.Add(d) && !r.continueOutput(e, d, run) {
		return
	}
	run.outputAt = e.Seq
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

// continueOutput checks output that does not continue the output before it. It reports whether the
// output between them is lost, so that the output continues here.
func (r *rules) continueOutput(e *events.Event, d *events.ExecutionOutput, run *run) bool {
	at, lost := run.extent, false
	switch {
	case run.known().extent && d.Attempt >= at.Attempt:
		lost = true // reported already
	case d.Attempt > at.Attempt:
		lost = r.breaks(e, run.attemptAt, above(d.Attempt, at.Attempt), "output of attempt %d of execution %s, which is at attempt %d", d.Attempt, d.ExecutionID, at.Attempt)
	case d.Attempt == at.Attempt && d.FirstByte >= at.Byte:
		missing := uint64(0)
		if d.FirstByte > at.Byte && d.FirstLine >= at.Line {
			missing = 1
		}
		lost = r.breaks(e, run.outputAt, missing, "output of execution %s continues at line %d, byte %d, but line %d, byte %d is next",
			d.ExecutionID, d.FirstLine, d.FirstByte, at.Line, at.Byte)
	}
	if !lost {
		return false
	}
	r.restate(e, run, d.Attempt)
	run.handedBack = false // it was started again
	u := run.lacks()
	u.extent, u.sum = false, true
	run.extent = events.Extent{Line: d.FirstLine, Byte: d.FirstByte, Attempt: d.Attempt}
	return run.extent.Add(d)
}

// restate sets the attempt of an execution whose events in between are lost.
func (r *rules) restate(e *events.Event, run *run, attempt int) {
	if attempt <= run.attempt {
		return
	}
	run.attempt, run.handedBack, run.attemptAt = attempt, false, e.Seq
	run.lacks().extent = true
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
	next := run.calls + 1
	switch {
	case d.Number != next && run.known().calls:
		r.restate(e, run, d.Attempt)
	case d.Number != next:
		if r.breaks(e, run.callsAt, above(d.Number, next), "call %d of execution %s follows, but %d is next", d.Number, d.ExecutionID, next) {
			run.loseCalls(next, d.Number-1)
			r.restate(e, run, d.Attempt)
		}
	case d.Attempt != run.attempt:
		if r.breaks(e, run.attemptAt, above(d.Attempt, run.attempt), "attempt %d of execution %s calls %s.%s, which is at attempt %d", d.Attempt, d.ExecutionID, d.Server, d.Tool, run.attempt) {
			r.restate(e, run, d.Attempt)
		}
	default:
		run.attemptAt = e.Seq
	}
	run.calls, run.callsAt = d.Number, e.Seq
	if run.unknown != nil {
		run.unknown.calls = false
	}
	if run.pending == nil {
		run.pending = map[int]bool{}
	}
	run.pending[d.Number] = true
}

// loseCalls notes that the events of some calls are lost. Their answers may not be.
func (run *run) loseCalls(from, to int) {
	if from > 0 && from <= to {
		u := run.lacks()
		u.unseen = append(u.unseen, spans.Span{From: uint64(from), To: uint64(to)})
	}
}

// answerLost reports whether the event of a call is lost, and notes that the call is answered.
func (run *run) answerLost(number int) bool {
	if number <= 0 || run.unknown == nil {
		return false
	}
	n, u := uint64(number), run.unknown
	i := slices.IndexFunc(u.unseen, func(s spans.Span) bool { return s.From <= n && n <= s.To })
	if i < 0 {
		return false
	}
	s := u.unseen[i]
	u.unseen = slices.Replace(u.unseen, i, i+1, spans.Without([]spans.Span{{From: n, To: n}}, s.From, s.To)...)
	return true
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
	if !run.pending[d.Number] && !run.answerLost(d.Number) {
		if r.breaks(e, run.callsAt, above(d.Number, run.calls), "call %d of execution %s is answered, which is not pending", d.Number, d.ExecutionID) {
			run.loseCalls(run.calls+1, d.Number-1)
			run.calls, run.callsAt = d.Number, e.Seq
		}
	}
	delete(run.pending, d.Number)
}

// artifact checks that the artifacts of an attempt are numbered without a gap, and that none
// follows the end of its execution.
func (r *rules) artifact(e *events.Event, d *events.ExecutionArtifactCreated) {
	run := r.run(e, d.ExecutionID)
	if run == nil {
		if end, hasEnded := r.endOf(e, d.ExecutionID); hasEnded {
			r.report.addFinding(e.Seq, "artifact %d of execution %s is created after its end at %d", d.Number, d.ExecutionID, end.seq)
		}
		return
	}
	next := run.artifacts + 1
	switch {
	case d.Attempt != run.attempt && run.known().attempt:
		r.restate(e, run, d.Attempt)
	case d.Attempt != run.attempt:
		if r.breaks(e, run.attemptAt, above(d.Attempt, run.attempt), "artifact %d is of attempt %d of execution %s, which is at attempt %d", d.Number, d.Attempt, d.ExecutionID, run.attempt) {
			r.restate(e, run, d.Attempt)
		}
	case d.Number != next && !run.known().artifacts:
		missing := above(d.Number, next)
		if d.Number < next {
			missing = 2 // the attempt was handed back and started again
		}
		r.breaks(e, run.artifactsAt, missing, "artifact %d of execution %s follows, but %d is next", d.Number, d.ExecutionID, next)
	}
	run.artifacts, run.artifactsAt = d.Number, e.Seq
	if run.unknown != nil {
		run.unknown.artifacts = false
	}
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
		missing := above(d.Attempt, run.attempt)
		if d.Attempt == run.attempt {
			missing = 1 // it was started again
		}
		if !r.breaks(e, run.attemptAt, missing, "attempt %d of execution %s is handed back, which is at attempt %d", d.Attempt, d.ExecutionID, run.attempt) {
			return
		}
		run.lacks().extent = true
	}
	run.attempt, run.handedBack, run.attemptAt = d.Attempt, true, e.Seq
}

func (r *rules) end(e *events.Event, d *events.Ending) {
	k := r.key(e.Tenant, d.ExecutionID)
	run := r.run(e, d.ExecutionID)
	if run == nil {
		if end, hasEnded := r.ended.get(k); hasEnded {
			r.report.addFinding(e.Seq, "execution %s ends a second time, as %s; it was %s at %d", d.ExecutionID, e.Type, end.status, end.seq)
		}
		return
	}
	switch {
	case d.Attempt > run.attempt:
		r.breaks(e, run.attemptAt, above(d.Attempt, run.attempt), "attempt %d of execution %s ends, which is at attempt %d", d.Attempt, d.ExecutionID, run.attempt)
	case d.Output != nil && run.attempt == 0:
		r.breaks(e, run.attemptAt, 1, "execution %s ends with output and was never started", d.ExecutionID)
	case d.Output != nil:
		r.totals(e, d, run)
	}
	status, _ := e.Type.Status()
	delete(r.running, k)
	r.ended.put(k, ended{e.Seq, status})
	r.report.Ended++
}

// totals compares the output totals of the ending with the recorded output.
func (r *rules) totals(e *events.Event, d *events.Ending, run *run) {
	if d.Output.Truncated || run.truncated || run.known().extent {
		return // recorded in part
	}
	lines := run.extent.Line - 1
	if run.extent.Open {
		lines++
	}
	if d.Output.Lines != lines || d.Output.Bytes != run.extent.Byte {
		missing := uint64(0)
		if d.Output.Lines >= lines && d.Output.Bytes >= run.extent.Byte {
			missing = 1
		}
		r.breaks(e, run.outputAt, missing, "the recorded output of execution %s has %d lines and %d bytes; its end counts %d and %d",
			d.ExecutionID, lines, run.extent.Byte, d.Output.Lines, d.Output.Bytes)
		return
	}
	if run.sealed || d.Content.Sealed != nil || run.known().sum {
		return // encrypted, with a keyed hash; or a part is lost
	}
	sum := run.sum
	if sum == nil {
		sum = sha256.New()
	}
	if got := hex.EncodeToString(sum.Sum(nil)); d.Output.SHA256 != "" && got != d.Output.SHA256 {
		missing := uint64(0)
		if run.handedBack {
			missing = 1 // it was started again, and the hash is that of the later output
		}
		r.breaks(e, run.attemptAt, missing, "the recorded output of execution %s has the hash %s; its end says %s", d.ExecutionID, got, d.Output.SHA256)
	}
}

func (r *rules) entry(e *events.Event, d *events.SessionEntryRecorded) {
	r.report.Entries++
	if r.partial {
		return
	}
	k := r.key(e.Tenant, d.SessionID)
	so := r.sessions.get(k)
	if d.Index != so.next && !e.Kept() {
		r.breaks(e, so.seen, above(d.Index, so.next), "entry %d of session %q follows, but %d is next", d.Index, d.Session, so.next)
	}
	r.sessions.put(k, entries{d.Index + 1, e.Seq})
	end, hasEnded := r.endOf(e, d.ExecutionID)
	if !hasEnded || end.status != d.Status || end.seq != d.TerminalSeq {
		const format = "entry %d of session %q states that execution %s was %s at %d, which is not recorded"
		if l, in := spans.At(r.losses.list, d.TerminalSeq); in && l.To < e.Seq {
			r.report.addLossEffect(e.Seq, l, format, d.Index, d.Session, d.ExecutionID, d.Status, d.TerminalSeq)
		} else {
			r.report.addFinding(e.Seq, format, d.Index, d.Session, d.ExecutionID, d.Status, d.TerminalSeq)
		}
	}
}

// copied checks that a projection copy has the form of one, and only events before it. It can be
// verified without its file, which only its server has.
func (r *rules) copied(e *events.Event, d *events.LedgerProjectionsCopied) {
	switch {
	case d.Position == 0 || d.Position >= e.Seq:
		r.report.addFinding(e.Seq, "the projections are copied as of %d, which is not before the event", d.Position)
	case !events.ValidHash(d.SHA256):
		r.report.addFinding(e.Seq, "the projections are copied with the hash %.80q, which is none", d.SHA256)
	}
}

// collect records the blobs that an event names.
func (r *rules) collect(e *events.Event) {
	switch d := e.Data.(type) {
	case *events.ExecutionRequested:
		r.blob(e, d.Content.Value().Source.Blob)
		r.body(e, d.Content.Value().Globals)
		r.body(e, d.Content.Value().Files)
	case *events.ExecutionModulesLoaded:
		r.body(e, d.Content.Value().Bundle)
	case *events.ModuleAdmitted:
		for i := range d.Packages {
			r.blob(e, &d.Packages[i].Tarball)
		}
	case *events.ExecutionStarted:
		r.body(e, d.Callable)
		for i := range d.WASMModules {
			r.blob(e, &d.WASMModules[i].Module)
		}
	case *events.HostCalled:
		r.body(e, d.Content.Value().Arguments)
	case *events.HostReturned:
		r.body(e, d.Content.Value().Result)
	case *events.ExecutionArtifactCreated:
		if content := d.Content.Plain; content != nil {
			r.named(e, Blob{Tenant: e.Tenant, SHA256: content.Blob})
		}
	case *events.HeapMigrated:
		if d.NewHeap != "" {
			r.named(e, Blob{Tenant: e.Tenant, Heap: true, SHA256: d.NewHeap})
		}
	case *events.HeapCollected:
		r.collected(e, d)
		return
	case *events.LedgerVolumeRemoved:
		if d.Kept.SHA256 != "" && r.tenant == "" { // it holds events of all tenants
			r.named(e, Blob{Tenant: events.LedgerTenant, SHA256: d.Kept.SHA256})
		}
		return
	case *events.LedgerVolumeOpened:
		r.lost(e, d.LostBlobs)
		return
	case *events.BlobsLost:
		r.lost(e, d.Of(e.Tenant))
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
	before := r.blobs.get(b)
	if (before.kind == blobUnnamed || before.kind == heapCollected) && !r.partial && !r.off && r.removedUntil.IsZero() {
		r.breaks(e, before.seq, 1, "heap %s is collected, but no run has left it, or it was collected before", d.Heap)
	}
	r.blobs.put(b, blobState{heapCollected, e.Seq})
}

// lost removes lost blobs from the expected ones until another event names them.
func (r *rules) lost(e *events.Event, list []events.LostBlob) {
	for _, l := range list {
		b := Blob{Tenant: l.Tenant, Heap: l.Kind == "heap", SHA256: l.SHA256}
		switch {
		case r.blobs.get(b).kind != blobNamed:
		case b.Heap:
			r.blobs.put(b, blobState{heapLost, e.Seq})
		default:
			r.blobs.put(b, blobState{})
		}
	}
}

func (r *rules) blob(e *events.Event, ref *events.BlobRef) {
	if ref != nil {
		r.named(e, Blob{Tenant: e.Tenant, SHA256: ref.SHA256})
	}
}

func (r *rules) named(e *events.Event, b Blob) {
	if r.blobs.get(b).kind != blobNamed {
		r.blobs.put(b, blobState{blobNamed, e.Seq})
	}
}

// ReferencedBlobs returns the heaps and texts that the events of a ledger name, without removed
// ones, ordered by the position of the first event that names them. It skips messages that are not
// events.
func ReferencedBlobs(ctx context.Context, stream Stream) ([]Blob, error) {
	named := newRules(&Report{}, true)
	named.off = true
	defer named.close()
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
	type place struct {
		Blob
		seq uint64
	}
	var places []place
	err := named.blobs.each(func(b Blob, seq uint64) error {
		places = append(places, place{b, seq})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.SHA256, b.SHA256))
	})
	list := make([]Blob, len(places))
	for i, p := range places {
		list[i] = p.Blob
	}
	return list, nil
}
