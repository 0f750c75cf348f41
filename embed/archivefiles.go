package embed

import (
	"cmp"
	"fmt"
	"slices"

	"daybook/events"
	"daybook/internal/spans"
	"daybook/internal/store/archive"
	"daybook/internal/store/stream"
	"daybook/internal/store/streamfiles"
)

// archiveFiles is what the files hold of the archive of a volume.
type archiveFiles struct {
	manifest *archive.Manifest // nil without one
	parts    map[string]int    // the number of records of each part; a part that was deleted may exist again
	opening  streamfiles.Record
	// whole is set instead of the others if the archive is known to be complete.
	whole *archiveSummary
}

// archiveSummary describes a complete archive.
type archiveSummary struct {
	Volume        events.Volume `json:"volume"`
	First         uint64        `json:"first"`
	Last          uint64        `json:"last"`
	RemovedVolume events.Volume `json:"removed_volume,omitempty"`
	RemovedLast   uint64        `json:"removed_last,omitempty"`
	// Opening is the first event, if it records lost positions.
	Opening *streamfiles.Record `json:"opening,omitempty"`
}

// summaries returns the archives. complete is false if one of a volume is not complete.
func (l *fileScan) summaries() (list []archiveSummary, complete bool) {
	for v, f := range l.archives {
		if f.whole != nil {
			list = append(list, *f.whole)
			continue
		}
		s := f.stream(v, false)
		if f.manifest == nil || len(s.Faults) > 0 || len(s.Gaps) > 0 || s.First != s.FirstSeq {
			return nil, false // or the archive of a volume whose stream exists
		}
		x := archiveSummary{Volume: v, First: s.FirstSeq, Last: s.Last, RemovedVolume: f.manifest.RemovedVolume, RemovedLast: f.manifest.RemovedLast}
		if f.opening.Seq > 0 {
			x.Opening = &f.opening
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b archiveSummary) int { return cmp.Compare(a.Volume, b.Volume) })
	return list, true
}

// resumeArchives adds archives whose files have not changed since they were complete.
func (l *fileScan) resumeArchives(list []archiveSummary) {
	l.forgetArchives()
	for _, x := range list {
		l.archives[x.Volume] = &archiveFiles{whole: &x}
	}
}

func (l *fileScan) forgetArchives() {
	l.archives, l.archiveParts = map[events.Volume]*archiveFiles{}, map[uint64]archivePart{}
}

// archivePart is a record of the stream of archives.
type archivePart struct {
	volume events.Volume
	name   string
}

// observeArchive receives the records of the stream of archives.
func (l *fileScan) observeArchive(r streamfiles.Record) {
	v, part, ok := stream.ArchivePart(string(r.Subject))
	if !ok {
		return
	}
	f := l.archives[v]
	if f == nil {
		f = &archiveFiles{parts: map[string]int{}}
		l.archives[v] = f
	}
	if _, known := l.archiveParts[r.Seq]; !known {
		f.parts[part]++
	}
	l.archiveParts[r.Seq] = archivePart{v, part}
	switch part {
	case archive.ManifestPart:
		if m, err := archive.DecodeManifest(r.Body); err == nil && m.Volume == v {
			f.manifest = &m
		}
	case archive.Opening:
		if list, err := archive.DecodeFrame(r.Body); err == nil {
			f.opening = recordOf(list[0])
		}
	}
}

// observeDeleted receives the positions of deleted records. A part that was deleted may have been
// stored again at another position.
func (l *fileScan) observeDeleted(from string, seq uint64) {
	part, ok := l.archiveParts[seq]
	if !ok || from != stream.ArchiveStream {
		return
	}
	delete(l.archiveParts, seq)
	f := l.archives[part.volume]
	if f.parts[part.name]--; f.parts[part.name] > 0 {
		return
	}
	if delete(f.parts, part.name); part.name == archive.ManifestPart {
		f.manifest = nil
	}
	if len(f.parts) == 0 {
		delete(l.archives, part.volume)
	}
}

// recordOf returns an event as a record of a file.
func recordOf(m events.Stored) streamfiles.Record {
	header := []byte("NATS/1.0\r\n")
	for name, values := range m.Header {
		for _, value := range values {
			header = append(header, name+": "+value+"\r\n"...)
		}
	}
	return streamfiles.Record{Seq: m.Seq, Subject: []byte(m.Subject), Header: header, Body: m.Body}
}

// frames returns the positions of the frames, in order.
func (f *archiveFiles) frames() (list []spans.Span) {
	for part := range f.parts {
		if first, last, ok := archive.FrameExtent(part); ok {
			list = append(list, spans.Span{From: first, To: last})
		}
	}
	slices.SortFunc(list, func(a, b spans.Span) int { return cmp.Compare(a.From, b.From) })
	return list
}

// withArchives adds archived volumes to the streams as if they were streams with the positions of
// the frames. A volume with a stream is left as it is. What is missing of an archive becomes a gap
// or a fault.
func (l *fileScan) withArchives(streams []streamfiles.Stream) []streamfiles.Stream {
	has := map[events.Volume]bool{}
	newest, begin := events.Volume(0), uint64(0) // the newest archived volume, and the first position of the oldest stream
	skipped := false
	for _, s := range streams {
		if v, ledger := events.VolumeOf(s.Name); ledger {
			if has[v] = true; begin == 0 {
				begin, newest = s.FirstSeq, v-1
			}
		}
		skipped = skipped || s.Name == stream.ArchiveStream && s.Skipped > 0
	}
	var list []streamfiles.Stream
	end := uint64(0)
	for v := events.Volume(1); v <= max(newest, l.lastArchive()); v++ {
		f := l.archives[v]
		switch {
		case has[v]:
			i := slices.IndexFunc(streams, func(s streamfiles.Stream) bool { return s.Name == v.Stream() })
			end = max(streams[i].Last, streams[i].FirstSeq-1)
		case f != nil && (f.whole != nil || f.manifest != nil || !skipped):
			s := f.stream(v, skipped)
			list, end = append(list, s), s.Last
			var removed removedVolumes
			if f.whole != nil {
				removed = removedVolumes{f.whole.RemovedVolume, f.whole.RemovedLast}
			} else if f.manifest != nil {
				removed = removedVolumes{f.manifest.RemovedVolume, f.manifest.RemovedLast}
			}
			if removed.Volume > l.removed.Volume {
				l.removed = removed
			}
		case skipped && begin > end:
			// Its records were not read. All positions before the next known one are taken as its own.
			next := begin
			for n := v + 1; n <= newest; n++ {
				if g := l.archives[n]; g != nil && g.manifest != nil {
					next = g.manifest.First
					break
				}
			}
			s := streamfiles.Stream{Name: v.Stream(), HasConfig: true, FirstSeq: end + 1}
			if next > end+1 {
				s.First, s.Last, s.Highest, end = end+1, next-1, next-1, next-1
			}
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return streams
	}
	list = append(list, streams...)
	slices.SortStableFunc(list, func(a, b streamfiles.Stream) int {
		v, first := events.VolumeOf(a.Name)
		w, second := events.VolumeOf(b.Name)
		switch {
		case first && second:
			return int(v - w)
		case first:
			return -1
		case second:
			return 1
		}
		return 0
	})
	return list
}

func (l *fileScan) lastArchive() (last events.Volume) {
	for v := range l.archives {
		last = max(last, v)
	}
	return last
}

// stream returns an archive as a stream. skipped reports that some of its records were not read.
func (f *archiveFiles) stream(v events.Volume, skipped bool) streamfiles.Stream {
	s := streamfiles.Stream{Name: v.Stream(), HasConfig: true, Opening: f.opening}
	if w := f.whole; w != nil {
		s.FirstSeq, s.First, s.Last, s.Highest = w.First, w.First, w.Last, w.Last
		if w.Opening != nil {
			s.Opening = *w.Opening
		}
		return s
	}
	frames := f.frames()
	fault := func(what string) {
		s.Faults = append(s.Faults, streamfiles.Corruption{File: fmt.Sprintf("the archive of volume %d", v), What: what})
	}
	if f.manifest == nil {
		fault("the manifest is missing")
		if len(frames) > 0 {
			s.FirstSeq, s.Highest = frames[0].From, frames[len(frames)-1].To
		}
	} else {
		s.FirstSeq, s.Highest = f.manifest.First, f.manifest.Last
		if skipped {
			s.First, s.Last = s.FirstSeq, s.Highest
			return s
		}
		for _, part := range f.manifest.Parts() {
			if _, _, isFrame := archive.FrameExtent(part); !isFrame && f.parts[part] == 0 {
				fault("the part " + part + " is missing")
			}
		}
	}
	for _, frame := range frames {
		if s.First == 0 {
			s.First = frame.From
		} else if frame.From > s.Last+1 {
			s.Gaps = append(s.Gaps, spans.Span{From: s.Last + 1, To: frame.From - 1})
		}
		s.Last = frame.To
	}
	if s.Last > 0 && s.Last < s.Highest {
		s.Gaps = append(s.Gaps, spans.Span{From: s.Last + 1, To: s.Highest})
		s.Last = s.Highest
	}
	return s
}

// isIntactPart reports whether a part of an archive can be decoded and its events match their
// known hashes.
func (c *comparison) isIntactPart(r streamfiles.Record) bool {
	v, part, ok := stream.ArchivePart(string(r.Subject))
	if !ok {
		return true
	}
	if _, _, isFrame := archive.FrameExtent(part); !isFrame && part != archive.Opening {
		return archive.CheckPart(v, part, r.Body) == nil
	}
	list, err := archive.DecodeFrame(r.Body)
	return err == nil && !slices.ContainsFunc(list, func(m events.Stored) bool { return !c.isIntact(m) })
}
