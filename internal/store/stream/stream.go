package stream

import (
	"errors"
	"fmt"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// duplicates is how long the server remembers the ids of control events.
const duplicates = 2 * time.Minute

// streamConfig is how the stream of a volume that begins at a position is set
// up: nothing is ever removed, and what was accepted, never what was refused,
// appears under events.>, where the volume's prefix has given way, so that
// subscribers need not know of volumes.
func (s *Ledger) streamConfig(v events.Volume, first uint64) natsjs.StreamConfig {
	if first == 1 {
		first = 0 // as the first volume has always been made
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
		Duplicates:        duplicates,
		RePublish: &natsjs.RePublish{
			Source:      StoredSubject(v, "*.>"),
			Destination: "events.{{wildcard(1)}}.>",
		},
	}
}

// accepted matches the subjects under which accepted events appear live.
const accepted = "events.>"

// headerBytes is room for the headers of an event.
const headerBytes = 16 << 10

// Streams names the streams that every ledger has, for access rules: that of the
// first volume. Options.Opened tells of others.
func Streams() []string { return []string{events.Volume(1).Stream()} }

// checkConfig compares what the ledger's promises rest on.
func checkConfig(got, want natsjs.StreamConfig) error {
	var problems []error
	must := func(ok bool, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf(format, args...))
		}
	}
	must(slices.Equal(got.Subjects, want.Subjects), "it stores %v, not %v", got.Subjects, want.Subjects)
	must(got.Storage == want.Storage, "it is not kept in files")
	must(got.Retention == want.Retention, "its retention is %s, not %s", got.Retention, want.Retention)
	must(got.DenyDelete && got.DenyPurge, "events can be deleted from it")
	must(!got.AllowRollup, "events can be rolled up")
	must(got.MaxMsgs <= 0 && got.MaxBytes <= 0 && got.MaxAge == 0 && got.MaxMsgsPerSubject <= 0, "it has limits, past which it forgets events")
	must(got.AllowDirect, "it does not allow direct gets")
	must(got.SubjectTransform == nil, "it changes subjects")
	must(got.RePublish != nil && got.RePublish.Source == want.RePublish.Source && got.RePublish.Destination == want.RePublish.Destination && !got.RePublish.HeadersOnly,
		"it does not republish %s to %s", want.RePublish.Source, want.RePublish.Destination)
	return errors.Join(problems...)
}
