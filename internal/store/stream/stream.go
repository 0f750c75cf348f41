package stream

import (
	"errors"
	"fmt"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// duplicateWindow is how long the server remembers the message ids of events.
const duplicateWindow = 2 * time.Minute

// streamConfig returns the configuration of the stream of a volume that begins at
// position first. The server removes nothing from the stream. It republishes stored
// events, and no refused ones, under events.>, without the prefix of the volume, so
// that subscribers need not know of volumes.
func (s *Ledger) streamConfig(v events.Volume, first uint64) natsjs.StreamConfig {
	if first == 1 {
		first = 0 // existing first volumes have 0
	}
	return natsjs.StreamConfig{
		Name:              v.Stream(),
		Description:       "Daybook ledger",
		Subjects:          []string{StoredSubject(v, ">")},
		FirstSeq:          first,
		Retention:         natsjs.LimitsPolicy,
		Discard:           natsjs.DiscardNew,
		Storage:           natsjs.FileStorage,
		Replicas:          s.jet.Options.Replicas,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgsPerSubject: -1,
		MaxConsumers:      -1,
		MaxMsgSize:        events.MaxEventBytes + headerBytes,
		DenyDelete:        true,
		DenyPurge:         true,
		AllowDirect:       true,
		Duplicates:        duplicateWindow,
		RePublish: &natsjs.RePublish{
			Source:      StoredSubject(v, "*.>"),
			Destination: "events.{{wildcard(1)}}.>",
		},
	}
}

// republishedSubjects matches the subjects under which the server republishes stored events.
const republishedSubjects = "events.>"

// headerBytes is the space for the headers of an event.
const headerBytes = 16 << 10

// Streams returns the names of the streams that every ledger has, for access rules: the
// stream of the first volume. Options.OnVolumeOpened reports the others.
func Streams() []string { return []string{events.Volume(1).Stream()} }

// checkConfig compares the settings that the promises of the ledger depend on.
func checkConfig(got, want natsjs.StreamConfig) error {
	var problems []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	must(slices.Equal(got.Subjects, want.Subjects), "its subjects are %v, not %v", got.Subjects, want.Subjects)
	must(got.Storage == want.Storage, "its storage is not files")
	must(got.Retention == want.Retention, "its retention is %s, not %s", got.Retention, want.Retention)
	must(got.DenyDelete && got.DenyPurge, "events can be deleted from it")
	must(!got.AllowRollup, "events can be rolled up")
	must(got.MaxMsgs <= 0 && got.MaxBytes <= 0 && got.MaxAge == 0 && got.MaxMsgsPerSubject <= 0, "its limits could remove events")
	must(got.AllowDirect, "direct gets are not allowed")
	must(got.SubjectTransform == nil, "its configuration transforms subjects")
	must(got.RePublish != nil && got.RePublish.Source == want.RePublish.Source && got.RePublish.Destination == want.RePublish.Destination && !got.RePublish.HeadersOnly,
		"%s is not republished to %s", want.RePublish.Source, want.RePublish.Destination)
	return errors.Join(problems...)
}

// StoredSubject returns the subject under which a volume stores events of a subject of
// package events: "ledger.0001.<tenant>.exec.<id>". It converts patterns of subjects
// too.
func StoredSubject(v events.Volume, subject string) string {
	return fmt.Sprintf("ledger.%04d.%s", int(v), subject)
}

// TenantSubjects returns a pattern that matches every subject of a tenant in a stream,
// or "" if the stream is no volume.
func TenantSubjects(stream, tenant string) string {
	v, ok := events.VolumeOf(stream)
	if !ok {
		return ""
	}
	return StoredSubject(v, tenant+".>")
}
