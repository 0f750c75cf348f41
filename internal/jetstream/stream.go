package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
)

// duplicates is how long the server remembers the ids of control events.
const duplicates = 2 * time.Minute

// streamConfig is how a volume's stream is set up: nothing is ever removed, and
// what was accepted, never what was refused, appears under events.>.
func (s *Store) streamConfig() natsjs.StreamConfig {
	return natsjs.StreamConfig{
		Name:              volume.Stream(),
		Description:       "Daybook ledger",
		Subjects:          []string{volume.Subjects()},
		Retention:         natsjs.LimitsPolicy,
		Discard:           natsjs.DiscardNew,
		Storage:           natsjs.FileStorage,
		Replicas:          s.opts.Replicas,
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
			Source:      republishSource,
			Destination: republishDestination,
		},
	}
}

// Where accepted events appear: the volume's prefix gives way, so that
// subscribers need not know of volumes.
var (
	republishSource      = "ledger." + volumeToken + ".*.>"
	republishDestination = "events.{{wildcard(1)}}.>"
	volumeToken          = fmt.Sprintf("%04d", int(volume))
)

// accepted matches the subjects under which accepted events appear live.
const accepted = "events.>"

// headerBytes is room for the headers of an event.
const headerBytes = 16 << 10

// Streams names the streams of the ledger, for access rules.
func Streams() []string { return []string{volume.Stream()} }

// openStream binds the ledger's stream, made if it does not exist, and checks
// that it is whole.
func (s *Store) openStream(ctx context.Context) (made bool, err error) {
	want := s.streamConfig()
	s.stream, err = s.js.Stream(ctx, want.Name)
	if errors.Is(err, natsjs.ErrStreamNotFound) && !s.opts.Existing {
		made = true
		s.stream, err = s.js.CreateStream(ctx, want)
	}
	if err != nil {
		return false, fmt.Errorf("open stream %s: %w", want.Name, err)
	}
	info, err := s.stream.Info(ctx)
	if err != nil {
		return false, fmt.Errorf("open stream %s: %w", want.Name, err)
	}
	if err := checkConfig(info.Config, want); err != nil {
		return false, fmt.Errorf("stream %s is not set up as a ledger: %w; it was not changed", want.Name, err)
	}
	if info.Config.Replicas != want.Replicas {
		s.log.WarnContext(ctx, "the stream keeps its number of copies", "stream", want.Name, "copies", info.Config.Replicas, "asked", want.Replicas)
	}
	if err := s.checkState(want.Name, info.State); err != nil {
		return false, err
	}
	s.sawStored(info.State.LastSeq)
	return made, nil
}

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

// checkState looks for signs of lost messages: nothing is ever removed, so there
// is one message for each position from 1 to the last.
func (s *Store) checkState(name string, st natsjs.StreamState) error {
	switch {
	case st.LastSeq == 0 && st.Msgs == 0:
		return nil
	case st.FirstSeq != 1:
		return s.damaged("stream %s begins at position %d, not 1", name, st.FirstSeq)
	case st.NumDeleted != 0:
		return s.damaged("stream %s lacks %d of its %d messages", name, st.NumDeleted, st.LastSeq)
	case st.Msgs != st.LastSeq:
		return s.damaged("stream %s holds %d messages but ends at position %d", name, st.Msgs, st.LastSeq)
	}
	return nil
}

// LastSeq is the position of the last event in the ledger, 0 when it is empty.
func (s *Store) LastSeq(ctx context.Context) (uint64, error) {
	st, err := s.state(ctx)
	return st.LastSeq, err
}

func (s *Store) state(ctx context.Context) (natsjs.StreamState, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.TryWait)
	defer cancel()
	info, err := s.stream.Info(ctx)
	if err != nil {
		return natsjs.StreamState{}, fmt.Errorf("read the state of stream %s: %w", volume.Stream(), err)
	}
	return info.State, nil
}
