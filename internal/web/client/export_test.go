package client

import (
	"io"
	"net/http"
	"reflect"
)

// RequiredMembers returns the members that the client requires in an answer of the type of
// body.
func RequiredMembers(body any) []string { return requiredMembers[reflect.TypeOf(body)] }

// ReadMessages reads a stream of server-sent events.
func ReadMessages(r io.Reader, each func(id, name, data string)) error {
	return readMessages(r, maxAnswer, func(m message) bool {
		each(m.id, m.name, m.data)
		return true
	})
}

// ReadMessagesWithin reads a stream of messages of at most a size, in bytes.
func ReadMessagesWithin(r io.Reader, most int64) error {
	return readMessages(r, most, func(message) bool { return true })
}

// CloseIdle closes the connections that the client keeps.
func (c *Client) CloseIdle() { c.opts.HTTP.(*http.Client).CloseIdleConnections() }
