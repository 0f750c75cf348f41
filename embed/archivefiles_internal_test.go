package embed

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/internal/store/archive"
	"daybook/internal/store/stream"
	"daybook/internal/store/streamfiles"
)

// scanned passes the parts that it stores to a scan of files.
type scanned struct {
	t      *testing.T
	scan   *fileScan
	volume string
	seq    *uint64
	parts  map[string]uint64
}

func (s scanned) Put(_ context.Context, name string, part []byte) error {
	*s.seq++
	s.parts[name] = *s.seq
	s.scan.observe(stream.ArchiveStream, streamfiles.Record{Seq: *s.seq, Subject: []byte("archive." + s.volume + "." + name), Body: part})
	return nil
}

func (s scanned) Get(context.Context, string) ([]byte, error) { return nil, events.ErrNotFound }

// archiveOf stores an archive of positions first to last.
func archiveOf(t *testing.T, scan *fileScan, seq *uint64, v events.Volume, first, last uint64) map[string]uint64 {
	t.Helper()
	parts := scanned{t: t, scan: scan, volume: v.Stream()[len("LEDGER-"):], seq: seq, parts: map[string]uint64{}}
	w := archive.NewWriter(parts, archive.Info{Volume: v, First: first, Last: last, Began: time.Now(), Ended: time.Now()})
	defer w.Close()
	for at := first; at <= last; at++ {
		if err := w.Add(t.Context(), events.Stored{Seq: at, Subject: "ledger.0001.t.exec.a", Body: make([]byte, 100<<10)}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := w.Finish(t.Context())
	if err == nil {
		err = archive.Commit(t.Context(), parts, m)
	}
	if err != nil {
		t.Fatal(err)
	}
	return parts.parts
}

// The positions of archives are those of streams, whatever was deleted or not read.
func TestArchivesAsStreams(t *testing.T) {
	t.Parallel()
	live := func(v events.Volume, first, last uint64) streamfiles.Stream {
		return streamfiles.Stream{Name: v.Stream(), HasConfig: true, FirstSeq: first, First: first, Last: last, Highest: last}
	}
	blobs := streamfiles.Stream{Name: blobStream}
	type part struct {
		volume events.Volume
		name   string
	}
	for name, test := range map[string]struct {
		deleted  []part
		skipped  int
		lost     []part // that were not read
		stored   bool   // a second time after they were deleted
		findings []string
	}{
		"everything is there":                   {},
		"a part was deleted and stored again":   {deleted: []part{{1, "index.0"}, {2, "frame.14-16"}, {2, "manifest"}}, stored: true},
		"a frame is missing":                    {deleted: []part{{2, "frame.14-16"}}, findings: []string{"LEDGER-0002, positions 14 to 16: no event can be read"}},
		"the last frame is missing":             {deleted: []part{{1, "frame.10-10"}}, findings: []string{"LEDGER-0001, position 10: no event can be read"}},
		"the manifest is missing":               {deleted: []part{{1, "manifest"}}, findings: []string{"the manifest is missing"}},
		"the index is missing":                  {deleted: []part{{1, "index.0"}}, findings: []string{"the part index.0 is missing"}},
		"everything was skipped":                {lost: []part{{1, ""}, {2, ""}, {3, ""}}, skipped: 3},
		"the first ones were skipped":           {lost: []part{{1, ""}, {2, ""}}, skipped: 3},
		"one was skipped":                       {lost: []part{{2, ""}}, skipped: 1},
		"frames were skipped, not the manifest": {lost: []part{{1, "frame.1-3"}}, skipped: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scan := newFileScan()
			seq := uint64(0)
			volumes := map[events.Volume][2]uint64{1: {1, 10}, 2: {11, 20}, 3: {21, 30}}
			for v := events.Volume(1); v <= 3; v++ {
				skip := slices.ContainsFunc(test.lost, func(p part) bool { return p.volume == v && p.name == "" })
				if skip {
					continue
				}
				parts := archiveOf(t, scan, &seq, v, volumes[v][0], volumes[v][1])
				for _, p := range test.deleted {
					if p.volume != v {
						continue
					}
					if parts[p.name] == 0 {
						t.Fatalf("volume %d has the parts %v", v, parts)
					}
					if test.stored {
						archiveOf(t, scan, &seq, v, volumes[v][0], volumes[v][1])
					}
					scan.observeDeleted(stream.ArchiveStream, parts[p.name])
				}
				for _, p := range test.lost {
					if p.volume == v {
						scan.observeDeleted(stream.ArchiveStream, parts[p.name])
					}
				}
			}
			streams := []streamfiles.Stream{{Name: stream.ArchiveStream, HasConfig: true, Skipped: test.skipped}, live(4, 31, 35), blobs}
			streams = scan.withArchives(streams)
			var got []string
			for _, f := range diagnose(streams, nil, 35, 0) {
				got = append(got, f.String())
			}
			if len(got) != len(test.findings) {
				t.Fatalf("findings %q, want %q", got, test.findings)
			}
			for i, f := range got {
				if !strings.Contains(f, test.findings[i]) {
					t.Errorf("finding %q, want %q", f, test.findings[i])
				}
			}
			missing := missingRanges(streams, nil, 35)
			want := []spans.Span(nil)
			switch name {
			case "a frame is missing":
				want = []spans.Span{{From: 14, To: 16}}
			case "the last frame is missing":
				want = []spans.Span{{From: 10, To: 10}}
			}
			if diff := cmp.Diff(want, missing); diff != "" {
				t.Error(diff)
			}
		})
	}
}
