package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
)

// message is one message of a stream of server-sent events.
type message struct{ id, name, data string }

// maxBroken is the number of connections in a row that may break before a message with
// an id arrives.
const maxBroken = 5

// follow reads a stream of server-sent events until the caller ends the loop. If the
// connection breaks, follow reconnects and continues after the last message with an id. The
// error of the last pair is that of the server, ErrNoServer, or that of ctx.
func (c *Client) follow(ctx context.Context, path string) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		last := ""
		for broken := 0; ; {
			header := []string{"Accept", "text/event-stream"}
			if last != "" {
				header = append(header, "Last-Event-ID", last)
			}
			resp, err := c.Send(ctx, http.MethodGet, path, nil, header...)
			if err != nil {
				yield(message{}, err)
				return
			}
			ended := false
			err = readMessages(resp.Body, maxAnswer, func(m message) bool {
				if m.id != "" {
					last, broken = m.id, 0
				}
				ended = !yield(m, nil)
				return !ended
			})
			resp.Body.Close()
			switch {
			case ended:
				return
			case ctx.Err() != nil:
				err = ctx.Err()
			case errors.Is(err, errTooLarge):
				err = noServer(ctx, fmt.Errorf("read the server's answer: %w", err))
			case broken == maxBroken:
				err = noServer(ctx, fmt.Errorf("the server closed %s without finishing it", path))
			default:
				broken++
				continue
			}
			yield(message{}, err)
			return
		}
	}
}

// readMessages calls each with every complete message of a stream until each returns
// false or the stream ends. It returns the error that ended the stream. most is the
// maximum size of a message, in bytes.
func readMessages(r io.Reader, most int64, each func(message) bool) error {
	body := &limited{r, most}
	in := bufio.NewReaderSize(body, 64<<10)
	var m message
	var data []string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimRight(line, "\r\n")
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				m.data = strings.Join(data, "\n")
				if !each(m) {
					return nil
				}
			}
			m, data = message{}, nil
			body.left = most
		case field == "id":
			m.id = value
		case field == "event":
			m.name = value
		case field == "data":
			data = append(data, value)
		}
	}
}
