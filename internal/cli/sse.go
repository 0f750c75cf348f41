package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// sseEvent is one message of a stream of server-sent events.
type sseEvent struct{ id, name, data string }

// follow reads a stream of server-sent events until the stream ends or fn is done or
// returns an error. If the connection breaks, it reconnects and continues after the
// last message.
func (f clientFlags) follow(ctx context.Context, path string, fn func(sseEvent) (done bool, err error)) error {
	last := ""
	for broken := 0; ; {
		resp, err := f.stream(ctx, path, last)
		if err != nil {
			return err
		}
		done, err := readEvents(resp.Body, func(e sseEvent) (bool, error) {
			if e.id != "" {
				last, broken = e.id, 0
			}
			return fn(e)
		})
		resp.Body.Close()
		switch {
		case err != nil:
			return err
		case done:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if broken++; broken > 5 {
			return asUnavailable(ctx, fmt.Errorf("the server closed %s without finishing it", path))
		}
	}
}

func (f clientFlags) stream(ctx context.Context, path, last string) (*http.Response, error) {
	header := []string{"Accept", "text/event-stream"}
	if last != "" {
		header = append(header, "Last-Event-ID", last)
	}
	return f.send(ctx, http.MethodGet, path, nil, header...)
}

func readEvents(r io.Reader, fn func(sseEvent) (bool, error)) (done bool, err error) {
	in := bufio.NewReaderSize(r, 64<<10)
	var e sseEvent
	var data []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return false, nil //nolint:nilerr // the stream broke; follow resumes it
		}
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				e.data = strings.Join(data, "\n")
				if done, err := fn(e); done || err != nil {
					return done, err
				}
			}
			e, data = sseEvent{}, nil
		case field == "id":
			e.id = value
		case field == "event":
			e.name = value
		case field == "data":
			data = append(data, value)
		}
	}
}
