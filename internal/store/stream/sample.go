package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"daybook/events"
	"daybook/internal/store/jet"
)

// sampleTimeout bounds each request of Sample.
const sampleTimeout = 5 * time.Second

// Sample returns at most n stored messages, not decoded. Their positions are spread evenly
// over the existing ones from 1 to upTo. It also returns the position of the last event of
// the ledger, 0 if the server has no ledger. It does not check for damage and writes nothing.
func Sample(ctx context.Context, conn *jet.Conn, upTo uint64, n int) (list []events.Stored, last uint64, err error) {
	client, err := jet.New(conn, conn, jet.Options{TryWait: sampleTimeout, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, 0, err
	}
	s := &Ledger{jet: client}
	numbers, _, err := s.volumeNumbers(ctx)
	if err != nil {
		return nil, 0, err
	}
	type held struct {
		stream   string
		from, to uint64
	}
	var volumes []held
	var total uint64
	for _, number := range numbers {
		v, st, err := s.openVolume(ctx, number)
		if jet.IsStreamGone(err) {
			continue // another process removed it
		}
		if err != nil {
			return nil, 0, err
		}
		last = max(last, st.LastSeq, v.first-1)
		if h := (held{v.stream(), max(v.first, st.FirstSeq), min(st.LastSeq, upTo)}); h.from <= h.to {
			volumes = append(volumes, h)
			total += h.to - h.from + 1
		}
	}
	count := min(uint64(n), total)
	for i := range count {
		offset := i * (total - 1) / max(count-1, 1)
		for _, h := range volumes {
			if held := h.to - h.from + 1; offset >= held {
				offset -= held
				continue
			}
			m, err := s.jet.Get(ctx, h.stream, jet.Request{Seq: h.from + offset})
			if err != nil && !errors.Is(err, events.ErrNotFound) {
				return nil, 0, fmt.Errorf("get from stream %s: %w", h.stream, err)
			}
			if err == nil {
				list = append(list, m)
			}
			break
		}
	}
	return list, last, nil
}
