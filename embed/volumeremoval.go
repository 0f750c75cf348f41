package embed

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"daybook/events"
	"daybook/internal/durable"
	"daybook/internal/lifecycle/retention"
	"daybook/internal/store/stream"
	"daybook/internal/store/streamfiles"
	"daybook/internal/translog"
)

// preserveTimeout is the maximum time to make the hashes of a volume durable before the
// volume is removed.
const preserveTimeout = time.Minute

// removeVolume removes volume n, which must be the oldest one. The argument export is the
// hash of the file of events in an export of the volume: with it, the caller proves that it
// has the export. removeVolume computes the hash again from the ledger. It returns
// *events.NotRemovableError with the reasons if the volume cannot be removed.
func (d *Daybook) removeVolume(ctx context.Context, n events.Volume, export string, actor events.Actor) (events.Removal, error) {
	refuse := func(reasons ...string) error { return &events.NotRemovableError{Volume: n, Reasons: reasons} }
	var none events.Removal
	if d.audit == nil || d.projections == nil {
		return none, refuse("this server keeps no proofs, so nothing would show which events were removed")
	}
	v, _, err := d.store.Removable(ctx, n)
	if err != nil {
		return none, err
	}
	facts, reasons, err := d.removalBlockers(ctx, v)
	if err != nil {
		return none, err
	}
	if len(reasons) > 0 {
		return none, refuse(reasons...)
	}
	x, err := d.localProofs().VolumeExport(ctx, v.First, v.Last)
	if err != nil {
		return none, fmt.Errorf("compare the export: %w", err)
	}
	if x.SHA256 != export {
		return none, refuse(fmt.Sprintf("the file of events of its export has the SHA-256 %s, not the one given; export it with \"daybook volume export %d DIR\"", x.SHA256, n))
	}
	plan, err := retention.PlanVolume(ctx, d.store, v.Last, facts)
	if err != nil {
		return none, err
	}
	waiting, stop := context.WithTimeout(ctx, preserveTimeout)
	defer stop()
	root, err := d.audit.PersistHashes(waiting, v.Last)
	if err != nil {
		return none, fmt.Errorf("preserve the hashes: %w", err)
	}
	seq, err := d.store.Remove(ctx, stream.RemoveOptions{Volume: n, Keep: plan.Keep, RootHash: root, Export: x, Actor: actor, OnPlanned: d.audit.AnnounceRemoval, OnRecorded: d.rememberRemoval})
	if err != nil {
		return none, err
	}
	removed := d.store.Removed()
	d.opts.Logger.InfoContext(ctx, "removed a volume of the ledger", "volume", int(n), "last", v.Last, "kept_events", removed.Kept.Events, "kept_runs", plan.Kept, "event", seq)
	return removed, d.projections.Wait(ctx, seq)
}

// maxNamedExecutions is the maximum number of executions that a reason lists.
const maxNamedExecutions = 5

// removalBlockers returns the facts of the projections that decide which events of a
// volume are kept, and the reasons why the volume cannot be removed.
func (d *Daybook) removalBlockers(ctx context.Context, v events.VolumeInfo) (facts retention.VolumeFacts, reasons []string, err error) {
	last, err := d.store.LastSeq(ctx)
	if err != nil {
		return facts, nil, err
	}
	if err := d.projections.Wait(ctx, last); err != nil {
		return facts, nil, err
	}
	found, err := d.projections.Dependents(ctx, v.Last)
	if err != nil {
		return facts, nil, err
	}
	for _, part := range []struct {
		into *[]retention.ExecutionKey
		from [][2]string
	}{{&facts.Running, found.Running}, {&facts.Later, found.LaterEvents}, {&facts.FirstProducers, found.Producers}} {
		for _, pair := range part.from {
			*part.into = append(*part.into, retention.ExecutionKey{Tenant: pair[0], ExecutionID: pair[1]})
		}
	}
	for _, pair := range found.MigratedHeaps {
		facts.MigratedHeaps = append(facts.MigratedHeaps, retention.HeapKey{Tenant: pair[0], Heap: pair[1]})
	}
	if n := len(facts.Running); n > 0 {
		var names []string
		for _, r := range facts.Running[:min(n, maxNamedExecutions)] {
			names = append(names, r.ExecutionID)
		}
		reasons = append(reasons, fmt.Sprintf("%d executions requested in it, or before, have not ended: %s", n, strings.Join(names, ", ")))
	}
	if left, err := d.store.PendingWork(ctx, v.Number); err != nil {
		return facts, nil, err
	} else if left > 0 && len(facts.Running) == 0 {
		reasons = append(reasons, fmt.Sprintf("runners hold %d of its requests; try again when these runs have ended", left))
	}
	if d.webhooks != nil {
		reasons = append(reasons, d.webhooks.Undelivered(v.Last)...)
	}
	return facts, reasons, nil
}

// removedVolumes is the newest removed volume and its last position. It is stored apart
// from the streams, because the absence of the removed streams must not count as damage
// before the ledger can be read.
type removedVolumes struct {
	Volume events.Volume `json:"volume"`
	Last   uint64        `json:"last"`
}

func removedFile(dataDir string) string { return filepath.Join(dataDir, "removed.json") }

// rememberRemoval records a removal before the stream is deleted.
func (d *Daybook) rememberRemoval(r *events.LedgerVolumeRemoved) error {
	if d.opts.NATS.URL != "" {
		return nil
	}
	return writeRemoved(d.opts.DataDir, removedVolumes{r.Volume, r.Last})
}

// mayDeleteRemoved reports whether the start may delete the streams of removed volumes; see
// translog.MayDeleteRemoved. Before that, it records the removal apart from the streams, which a
// crash may have prevented.
func (d *Daybook) mayDeleteRemoved(newest events.Removal) bool {
	if d.opts.NATS.URL != "" {
		return true
	}
	if !d.opts.Proof.Off && !translog.MayDeleteRemoved(auditDir(d.opts.DataDir), d.opts.Proof.KeyFile, d.opts.Proof.SignedFile, newest) {
		return false
	}
	if readRemoved(d.opts.DataDir).Volume >= newest.Volume {
		return true
	}
	if err := d.rememberRemoval(newest.LedgerVolumeRemoved); err != nil {
		d.opts.Logger.Warn("the streams of a removed volume stay until the next start", "volume", int(newest.Volume), "err", err)
		return false
	}
	return true
}

func writeRemoved(dataDir string, r removedVolumes) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := durable.WriteFile(removedFile(dataDir), append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("record the removed volumes: %w", err)
	}
	return nil
}

// readRemoved returns a zero value if no volume is known to be removed.
func readRemoved(dataDir string) (r removedVolumes) {
	raw, err := os.ReadFile(removedFile(dataDir))
	if err != nil || json.Unmarshal(raw, &r) != nil {
		return removedVolumes{}
	}
	return r
}

// withRemoved prepends removed volumes to the existing streams, as if they existed and
// were intact.
//
// If the file is missing or cannot be read, no volume counts as removed.
func withRemoved(dataDir string, streams []streamfiles.Stream) []streamfiles.Stream {
	return readRemoved(dataDir).prependTo(streams)
}

// prependTo is withRemoved for known removed volumes.
func (r removedVolumes) prependTo(streams []streamfiles.Stream) []streamfiles.Stream {
	if r.Volume == 0 {
		return streams
	}
	var list []streamfiles.Stream
	for v := events.Volume(1); v <= r.Volume; v++ {
		s := streamfiles.Stream{Name: v.Stream(), HasConfig: true, FirstSeq: 1}
		if v == r.Volume {
			s.First, s.Last, s.Highest = 1, r.Last, r.Last
		}
		list = append(list, s)
	}
	// A crash may leave the stream of a removed volume. It is deleted later and not checked.
	return append(list, slices.DeleteFunc(slices.Clone(streams), func(s streamfiles.Stream) bool {
		v, ok := events.VolumeOf(s.Name)
		return ok && v <= r.Volume
	})...)
}
