package embed_test

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"daybook/embed"
	"daybook/events"
)

// streamDir returns the directory of the stream of a volume.
func streamDir(dir string, v events.Volume) string {
	return filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", v.Stream())
}

// Damage is accepted although the streams of whole volumes are missing. The ledger continues, names
// their positions as lost, and starts again without the flag.
func TestAcceptDamageOfMissingVolumes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		volumes int
		remove  []events.Volume
		removed bool // the oldest volume was removed before
	}{
		"the only volume":                       {volumes: 1, remove: []events.Volume{1}},
		"the oldest volume":                     {volumes: 2, remove: []events.Volume{1}},
		"the newest volume":                     {volumes: 2, remove: []events.Volume{2}},
		"a volume in the middle":                {volumes: 3, remove: []events.Volume{2}},
		"all volumes":                           {volumes: 2, remove: []events.Volume{1, 2}},
		"the first volume after a removed one":  {volumes: 3, remove: []events.Volume{2}, removed: true},
		"the volume that records a removal":     {volumes: 3, remove: []events.Volume{3}, removed: true},
		"all volumes that record a removal":     {volumes: 2, remove: []events.Volume{2}, removed: true},
		"all volumes after a removed one, of 3": {volumes: 3, remove: []events.Volume{2, 3}, removed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts := embed.Options{DataDir: t.TempDir()}
			book := start(t, opts)
			completes(t, book, embed.Script{Code: "1"})
			for range test.volumes - 1 {
				var v volume
				ask(t, book, http.MethodPost, "/api/ledger/volumes/seal", http.StatusOK, &v)
				completes(t, book, embed.Script{Code: "2"})
			}
			if test.removed {
				removeOldest(t, book, 1)
			}
			completes(t, book, embed.Script{Code: "3"})
			key := book.AuditKey()
			closeBook(t, book)
			for _, v := range test.remove {
				if err := os.RemoveAll(streamDir(opts.DataDir, v)); err != nil {
					t.Fatal(err)
				}
			}
			plain := opts
			plain.NATS.NoSync = true
			if book, err := embed.Start(within(t), plain); err != nil { // no event is left
				wantError(t, err, "no file was changed", "--accept-damage")
			} else {
				if status, body := request(book, http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable {
					t.Errorf("without the flag, /readyz answers %d: %s", status, body)
				}
				closeBook(t, book)
			}

			accepting := opts
			accepting.Storage.AcceptDamage = true
			book = start(t, accepting)
			for range 2 {
				if err := book.Ready(within(t)); err != nil {
					t.Fatal(err)
				}
				completes(t, book, embed.Script{Code: "40 + 2"})
				if all := allEvents(t, book); len(all) == 0 {
					t.Error("no events")
				}
				if r, err := embed.Verify(within(t), embed.VerifyOptions{Server: getFrom(book), ServerURL: "here", Keys: []string{key}}); err != nil || !r.OK || len(r.Lost) == 0 {
					t.Errorf("the server: %v\n%s", err, r)
				}
				closeBook(t, book)
				if r, err := embed.Verify(within(t), embed.VerifyOptions{DataDir: opts.DataDir, Keys: []string{key}}); err != nil || !r.OK || len(r.Lost) == 0 {
					t.Errorf("the directory: %v\n%s", err, r)
				}
				book = start(t, opts) // the flag is needed once
			}
		})
	}
}
