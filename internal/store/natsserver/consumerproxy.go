package natsserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"
)

const (
	apiPrefix = "$JS.API."
	ackPrefix = "$JS.ACK."
	inbox     = "_INBOX."

	// requestTimeout bounds how long the ledger may take to answer a request.
	requestTimeout = 5 * time.Second
	// maxRequest bounds a request to a gate, in bytes.
	maxRequest = 16 << 10
	// pendingRequests and pendingBytes bound the requests that wait for a gate. Further
	// ones are dropped.
	pendingRequests, pendingBytes = 4096, 4 << 20
	// requestRate is the number of requests per second that a gate handles, and
	// deliveryRate the number of pulls, gets and acknowledgements, which cost less.
	// Further ones wait. A subscriber may send a burst of a few seconds' worth.
	requestRate, requestBurst   = 50, 200
	deliveryRate, deliveryBurst = 1000, 2000
	// pullRate and pullBurst bound the pulls that may have several answers. The server
	// keeps the return path of such a pull, about 1 KiB, for up to twice answerTimeout,
	// because it cannot detect the last answer.
	pullRate, pullBurst = 100, 500
	// answerTimeout is how long the server keeps the return path after an answer. A pull is
	// shorter. maxPull is what NATS clients request by default.
	answerTimeout = 35 * time.Second
	maxPull       = 30 * time.Second
)

// forward is a subject under which a gate forwards a request to the ledger, so that the
// ledger answers the client directly. Clients cannot publish on it.
type forward struct {
	from, to string
	answers  server.ServiceRespType
}

const (
	nextPrefix   = "gate.next."
	onePrefix    = "gate.one."
	directPrefix = "gate.direct."
	acksPrefix   = "gate.ack."
)

var forwards = []forward{
	{nextPrefix + "*.*", apiPrefix + "CONSUMER.MSG.NEXT.*.*", server.Streamed},
	// The same for a pull with one answer. Its return path ends with the answer. A server
	// has one kind of response per subject.
	{onePrefix + ">", apiPrefix + "CONSUMER.MSG.NEXT.>", server.Singleton},
	{directPrefix + "*", apiPrefix + "DIRECT.GET.*", server.Singleton}, // the return path ends with the answer
	{acksPrefix + ">", ackPrefix + ">", server.Singleton},
}

// consumerProxy is the gate of a subscriber: it handles the JetStream requests of the
// subscriber. It answers requests that read events of the tenant of the subscriber or
// concern the consumers of the tenant, and refuses all others. It encodes forwarded
// requests from scratch, so that the server cannot interpret them differently.
type consumerProxy struct {
	who  Subscriber
	view *ledgerView
	// ledger is a connection of the service that all gates share. own is a connection in
	// the account of the subscriber.
	ledger, own *nats.Conn
	// requests, deliveries and pulls with several answers have limits of their own.
	requests, deliveries, pulls *rate.Limiter
	ctx                         context.Context //nolint:containedctx // ends with the gate
	end                         context.CancelFunc
}

// ledgerView is the part of the ledger that gates know.
type ledgerView struct {
	// subjects returns a pattern for the subjects of a tenant in a stream.
	subjects func(stream, tenant string) string

	mu      sync.Mutex
	streams []string // guarded by mu

	// creating serializes the creation of consumers, so that they can be counted.
	creating sync.Mutex
}

func (v *ledgerView) add(stream string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if !slices.Contains(v.streams, stream) {
		v.streams = append(slices.Clone(v.streams), stream)
	}
}

func (v *ledgerView) list() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.streams
}

func newGate(who Subscriber, view *ledgerView, ledger, own *nats.Conn) (*consumerProxy, error) {
	g := &consumerProxy{who: who, view: view, ledger: ledger, own: own,
		requests: rate.NewLimiter(requestRate, requestBurst), deliveries: rate.NewLimiter(deliveryRate, deliveryBurst), pulls: rate.NewLimiter(pullRate, pullBurst)}
	g.ctx, g.end = context.WithCancel(context.Background())
	for subject, handle := range map[string]nats.MsgHandler{apiPrefix + ">": g.request, ackPrefix + ">": g.acknowledge} {
		sub, err := own.Subscribe(subject, handle)
		if err == nil {
			err = sub.SetPendingLimits(pendingRequests, pendingBytes)
		}
		if err != nil {
			g.close()
			return nil, fmt.Errorf("listen to subscriber %s: %w", who.ID, err)
		}
	}
	if err := own.FlushTimeout(requestTimeout); err != nil {
		g.close()
		return nil, fmt.Errorf("listen to subscriber %s: %w", who.ID, err)
	}
	return g, nil
}

func (g *consumerProxy) close() {
	g.end()
	g.own.Close()
}

// refusal is the answer to a request that is not allowed or fails.
type refusal struct {
	status  int
	errCode server.ErrorIdentifier
	text    string
}

func (r *refusal) Error() string { return r.text }

func refuse(format string, args ...any) error {
	return &refusal{status: 403, text: fmt.Sprintf(format, args...)}
}

// JetStream errors that clients know.
var (
	errNoStream   = &refusal{404, server.JSStreamNotFoundErr, "stream not found"}
	errNoConsumer = &refusal{404, server.JSConsumerNotFoundErr, "consumer not found"}
	errNoMessage  = &refusal{404, server.JSNoMessageFoundErr, "no message found"}
)

// request answers a request to the JetStream API.
func (g *consumerProxy) request(m *nats.Msg) {
	// An answer to another subject would let the client publish there.
	if !strings.HasPrefix(m.Reply, inbox) {
		return
	}
	limit := g.requests
	for _, cheap := range []string{"CONSUMER.MSG.NEXT.", "STREAM.MSG.GET.", "DIRECT.GET."} {
		if strings.HasPrefix(m.Subject, apiPrefix+cheap) {
			limit = g.deliveries
		}
	}
	if limit.Wait(g.ctx) != nil {
		return
	}
	kind, answer, err := g.answer(m)
	if err != nil {
		r := &refusal{status: 503, text: err.Error()}
		errors.As(err, &r)
		answer = server.ApiResponse{Type: kind, Error: &server.ApiError{Code: r.status, ErrCode: uint16(r.errCode), Description: r.text}}
	}
	if answer == nil {
		return // it was forwarded
	}
	raw, err := json.Marshal(answer)
	if err != nil {
		return // plain data can always be encoded
	}
	_ = g.own.Publish(m.Reply, raw) // a client that has left needs no answer
}

// answer returns the answer to a request and its type. The answer is nil if the ledger
// answers the client.
func (g *consumerProxy) answer(m *nats.Msg) (kind string, answer any, err error) {
	if len(m.Data) > maxRequest {
		return "", nil, refuse("the request has %d bytes; the limit is %d", len(m.Data), maxRequest)
	}
	verb := strings.TrimPrefix(m.Subject, apiPrefix)
	switch verb {
	case "INFO":
		return g.accountInfo()
	case "STREAM.NAMES", "STREAM.LIST":
		return g.listStreams(verb)
	}
	for _, r := range requests {
		rest, ok := strings.CutPrefix(verb, r.verb+".")
		if !ok {
			continue
		}
		stream, rest, _ := strings.Cut(rest, ".")
		if !slices.Contains(g.view.list(), stream) {
			return r.kind, nil, errNoStream
		}
		answer, err = r.do(g, stream, rest, m)
		return r.kind, answer, err
	}
	return "", nil, refuse("subscribers may not request %s: they read events, through pull consumers of their own or by position", clip(verb))
}

func clip(s string) string { return s[:min(len(s), 100)] }

// requests are the permitted requests about a stream. rest is the part of the subject
// after the stream.
var requests = []struct {
	verb, kind string
	do         func(g *consumerProxy, stream, rest string, m *nats.Msg) (any, error)
}{
	{"STREAM.INFO", server.JSApiStreamInfoResponseType, (*consumerProxy).streamInfo},
	{"STREAM.MSG.GET", server.JSApiMsgGetResponseType, (*consumerProxy).getMessage},
	{"DIRECT.GET", "", (*consumerProxy).directGet},
	{"CONSUMER.CREATE", server.JSApiConsumerCreateResponseType, (*consumerProxy).createConsumer},
	{"CONSUMER.DELETE", server.JSApiConsumerDeleteResponseType, (*consumerProxy).deleteConsumer},
	{"CONSUMER.INFO", server.JSApiConsumerInfoResponseType, (*consumerProxy).consumerInfo},
	{"CONSUMER.NAMES", server.JSApiConsumerNamesResponseType, (*consumerProxy).consumerNames},
	{"CONSUMER.LIST", server.JSApiConsumerListResponseType, (*consumerProxy).consumerList},
	{"CONSUMER.MSG.NEXT", "", (*consumerProxy).next},
}

// ask sends a request to the ledger and decodes the answer. It returns the error in the
// answer.
func (g *consumerProxy) ask(subject string, body, answer any) error {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	m, err := g.ledger.Request(apiPrefix+subject, raw, requestTimeout)
	if err != nil {
		return fmt.Errorf("ask the ledger: %w; try again in a few seconds", err)
	}
	var failed server.ApiResponse
	if err := json.Unmarshal(m.Data, &failed); err != nil {
		return fmt.Errorf("read the ledger's answer: %w", err)
	}
	if e := failed.Error; e != nil {
		return &refusal{e.Code, server.ErrorIdentifier(e.ErrCode), g.outside(e.Description)}
	}
	if err := json.Unmarshal(m.Data, answer); err != nil {
		return fmt.Errorf("read the ledger's answer: %w", err)
	}
	return nil
}

// forward passes a request on. The ledger answers the client.
func (g *consumerProxy) forward(subject, reply string, body any) (any, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return nil, g.own.PublishRequest(subject, reply, raw)
}

// acknowledge passes an acknowledgement on if it is for a consumer of the tenant.
func (g *consumerProxy) acknowledge(m *nats.Msg) {
	rest := strings.TrimPrefix(m.Subject, ackPrefix)
	stream, after, _ := strings.Cut(rest, ".")
	consumer, _, _ := strings.Cut(after, ".")
	if !slices.Contains(g.view.list(), stream) || !strings.HasPrefix(consumer, g.inside("")) || len(m.Data) > maxRequest ||
		m.Reply != "" && !strings.HasPrefix(m.Reply, inbox) || g.deliveries.Wait(g.ctx) != nil {
		return
	}
	if m.Reply == "" {
		_ = g.own.Publish(acksPrefix+rest, m.Data) // a lost acknowledgement causes another delivery
		return
	}
	_ = g.own.PublishRequest(acksPrefix+rest, m.Reply, m.Data)
}

// inside returns the name in the ledger of a consumer that subscribers of the tenant know
// as name. No consumer of the service has a tilde in its name.
func (g *consumerProxy) inside(name string) string { return "subscriber~" + g.who.Tenant + "~" + name }

// outside removes the prefix of inside from names in a text.
func (g *consumerProxy) outside(text string) string {
	return strings.ReplaceAll(text, g.inside(""), "")
}
