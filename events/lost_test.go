package events_test

import (
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"daybook/events"
)

// Unreadable reports the lost positions that hold a message, and Missing leaves them out.
func TestUnreadablePositions(t *testing.T) {
	t.Parallel()
	lost := events.Lost{{From: 3, To: 4, NamedAt: 20}, {From: 7, To: 7, NamedAt: 20, Unreadable: true}}
	for position, want := range map[uint64]bool{2: false, 3: false, 6: false, 7: true, 8: false} {
		if got := lost.Unreadable(position); got != want {
			t.Errorf("position %d: %v", position, got)
		}
	}
	if missing := lost.Missing(); len(missing) != 1 || missing[0].From != 3 || len(lost) != 2 {
		t.Errorf("the positions without message are %+v of %+v", missing, lost)
	}
}

// A range with fewer or more hashes than it has parts is not valid. The time to find that does not grow with
// the number of its positions.
func TestLostWithOtherHashes(t *testing.T) {
	t.Parallel()
	hash := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for name, tt := range map[string]struct {
		to     uint64
		hashes []string
		want   bool
	}{
		"each has a hash":      {258, []string{hash, hash, hash}, true},
		"one lacks a hash":     {258, []string{hash, hash}, false},
		"one hash more":        {258, []string{hash, hash, hash, hash}, false},
		"a short hash":         {1, []string{hash[:8]}, false},
		"nearly all lack them": {1<<62 - 1, []string{hash}, false},
	} {
		if got := (events.Lost{{From: 1, To: tt.to, NamedAt: 1 << 62, Hashes: tt.hashes}}).Valid(1 << 62); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A tenant sees of an opening of an earlier version neither the lost content of other tenants nor
// the note, which names it. The recorded event is not changed.
func TestVisibleTo(t *testing.T) {
	t.Parallel()
	ours, others := events.LostBlob{Tenant: "acme", Kind: "heap", SHA256: "a"}, events.LostBlob{Tenant: "other", Kind: "text", SHA256: "b"}
	ledger := events.LostBlob{Tenant: events.LedgerTenant, Kind: "text", SHA256: "c"}
	for name, tt := range map[string]struct {
		data       events.Data
		same       bool
		want       []events.LostBlob
		keepsANote bool
	}{
		"of all tenants":        {&events.LedgerVolumeOpened{LostBlobs: []events.LostBlob{ours, others, ledger}, Note: "text b of tenant other"}, false, []events.LostBlob{ours, ledger}, false},
		"of another tenant":     {&events.LedgerVolumeOpened{LostBlobs: []events.LostBlob{others}, Note: "text b of tenant other"}, false, nil, false},
		"of the tenant alone":   {&events.LedgerVolumeOpened{LostBlobs: []events.LostBlob{ours, ledger}, Note: "n"}, true, []events.LostBlob{ours, ledger}, true},
		"without lost content":  {&events.LedgerVolumeOpened{Note: "n"}, true, nil, true},
		"another kind of event": {&events.BlobsLost{Blobs: []events.LostContent{{Kind: "heap", SHA256: "a"}}}, true, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := events.New(events.LedgerTenant, time.Time{}, tt.data)
			seen := e.VisibleTo("acme")
			if (seen.Data == e.Data) != tt.same {
				t.Fatalf("the same data: %t", !tt.same)
			}
			d, ok := seen.Data.(*events.LedgerVolumeOpened)
			if !ok {
				return
			}
			if len(d.LostBlobs) != len(tt.want) || len(tt.want) > 0 && !slices.Equal(d.LostBlobs, tt.want) || (d.Note != "") != tt.keepsANote {
				t.Errorf("a tenant sees %+v", d)
			}
		})
	}
}
