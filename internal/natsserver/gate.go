package natsserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// gateWait bounds how long the ledger's side may take to make a consumer.
const gateWait = 5 * time.Second

// gate makes and removes consumers for readers. It stands between the accounts because the
// right to make a consumer cannot be limited by subject: a consumer delivers to
// whatever subject its description names, with the rights of the account it is
// in. What the gate lets through is a pull consumer under a name that is free
// for readers, and the removal of one.
type gate struct {
	reserved []string
	ledger   *nats.Conn
	readers  *nats.Conn
}

func (s *Server) openGate(opts Options) (*gate, error) {
	ledger, err := s.connect("gate to the ledger", serviceUser)
	if err != nil {
		return nil, err
	}
	readers, err := s.connect("gate to the readers", gateUser)
	if err != nil {
		ledger.Close()
		return nil, err
	}
	return &gate{reserved: opts.ReservedConsumers, ledger: ledger, readers: readers}, nil
}

// open takes the requests that are about a stream.
func (g *gate) open(stream string) error {
	for subject, do := range map[string]request{createSubject(stream): g.create, removeSubject(stream): g.remove} {
		if _, err := g.readers.Subscribe(subject, func(m *nats.Msg) { answer(stream, m, do) }); err != nil {
			return fmt.Errorf("listen to readers: %w", err)
		}
	}
	if err := g.readers.FlushTimeout(gateWait); err != nil {
		return fmt.Errorf("listen to readers: %w", err)
	}
	return nil
}

func (g *gate) close() {
	if g == nil {
		return
	}
	g.readers.Close()
	g.ledger.Close()
}

// request does what a message to the gate asks for, and returns the answer.
type request func(stream, subject string, body []byte) ([]byte, error)

func answer(stream string, m *nats.Msg, do request) {
	if m.Reply == "" {
		return
	}
	answer, err := do(stream, m.Subject, m.Data)
	if err != nil {
		kind := server.JSApiConsumerCreateResponseType
		if strings.HasPrefix(m.Subject, removePrefix) {
			kind = server.JSApiConsumerDeleteResponseType
		}
		answer, err = json.Marshal(server.ApiResponse{
			Type:  kind,
			Error: &server.ApiError{Code: 403, Description: err.Error()},
		})
		if err != nil {
			return // plain data always encodes
		}
	}
	_ = m.Respond(answer) // a reader that has gone needs none
}

// create passes a request on, written anew from what was understood of it, so
// that the server cannot understand it otherwise.
func (g *gate) create(stream, subject string, body []byte) ([]byte, error) {
	var r server.CreateConsumerRequest
	if err := json.Unmarshal(body, &r); err != nil {
		return nil, fmt.Errorf("the request cannot be read: %w", err)
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(subject, "$JS.API.CONSUMER.CREATE."+stream+"."), ".")
	c := &r.Config
	switch {
	case r.Stream != stream:
		return nil, fmt.Errorf("the request names stream %q, its subject %q", r.Stream, stream)
	case c.DeliverSubject != "" || c.DeliverGroup != "":
		return nil, errors.New("readers may only make pull consumers: leave out deliver_subject")
	case c.Name != "" && c.Name != name, c.Durable != "" && c.Durable != name:
		return nil, fmt.Errorf("the request names another consumer than its subject, %q", name)
	}
	if slices.Contains(g.reserved, name) {
		return nil, fmt.Errorf("consumer %q is not for readers: choose another name", name)
	}
	c.Name = name
	clean, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	m, err := g.ledger.Request(subject, clean, gateWait)
	if err != nil {
		return nil, fmt.Errorf("make the consumer: %w", err)
	}
	return m.Data, nil
}

// remove passes on that a consumer is not needed any more.
func (g *gate) remove(stream, subject string, _ []byte) ([]byte, error) {
	name := strings.TrimPrefix(subject, removePrefix+stream+".")
	if slices.Contains(g.reserved, name) {
		return nil, fmt.Errorf("consumer %q is not for readers to remove", name)
	}
	m, err := g.ledger.Request(subject, nil, gateWait)
	if err != nil {
		return nil, fmt.Errorf("remove the consumer: %w", err)
	}
	return m.Data, nil
}
