package natsserver

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// accountInfo returns the limits of the tenant, and nothing about the account of the
// ledger.
func (g *consumerProxy) accountInfo() (string, any, error) {
	kind := server.JSApiAccountInfoResponseType
	n, err := g.countConsumers()
	if err != nil {
		return kind, nil, err
	}
	return kind, server.JSApiAccountInfoResponse{
		ApiResponse: server.ApiResponse{Type: kind},
		JetStreamAccountStats: &server.JetStreamAccountStats{
			JetStreamTier: server.JetStreamTier{
				Streams: len(g.view.list()), Consumers: n,
				Limits: server.JetStreamAccountLimits{MaxConsumers: maxConsumers, MaxAckPending: maxAckPending},
			},
			API: server.JetStreamAPIStats{Level: server.JSApiLevel},
		},
	}, nil
}

func (g *consumerProxy) listStreams(verb string) (string, any, error) {
	page := server.ApiPaged{Total: len(g.view.list()), Limit: len(g.view.list())}
	if verb == "STREAM.NAMES" {
		kind := server.JSApiStreamNamesResponseType
		return kind, server.JSApiStreamNamesResponse{ApiResponse: server.ApiResponse{Type: kind}, ApiPaged: page, Streams: g.view.list()}, nil
	}
	kind := server.JSApiStreamListResponseType
	answer := server.JSApiStreamListResponse{ApiResponse: server.ApiResponse{Type: kind}, ApiPaged: page}
	for _, stream := range g.view.list() {
		info, err := g.infoOf(stream)
		if err != nil {
			return kind, nil, err
		}
		answer.Streams = append(answer.Streams, info)
	}
	return kind, answer, nil
}

// streamInfo returns the state of a stream without data of other tenants. It ignores
// the filter for subjects in the request.
func (g *consumerProxy) streamInfo(stream, _ string, _ *nats.Msg) (any, error) {
	info, err := g.infoOf(stream)
	if err != nil {
		return nil, err
	}
	return server.JSApiStreamInfoResponse{ApiResponse: server.ApiResponse{Type: server.JSApiStreamInfoResponseType}, StreamInfo: info}, nil
}

func (g *consumerProxy) infoOf(stream string) (*server.StreamInfo, error) {
	var answer server.JSApiStreamInfoResponse
	if err := g.ask("STREAM.INFO."+stream, nil, &answer); err != nil {
		return nil, err
	}
	own, err := g.consumersOf(stream)
	if err != nil {
		return nil, err
	}
	config := answer.Config
	config.Subjects = []string{g.view.subjects(stream, g.who.Tenant)}
	config.RePublish = nil
	return &server.StreamInfo{
		Created: answer.Created,
		Config:  config,
		// All tenants share the positions.
		State: server.StreamState{
			Msgs:     answer.State.Msgs,
			FirstSeq: answer.State.FirstSeq, FirstTime: answer.State.FirstTime,
			LastSeq: answer.State.LastSeq, LastTime: answer.State.LastTime,
			Consumers: len(own),
		},
		TimeStamp: answer.TimeStamp,
	}, nil
}

// owns reports whether a subject of a stream, possibly with wildcards, belongs to the
// tenant.
func (g *consumerProxy) owns(stream, subject string) bool {
	prefix := strings.TrimSuffix(g.view.subjects(stream, g.who.Tenant), ">")
	return strings.HasPrefix(subject, prefix) && server.IsValidSubject(subject)
}

// parseMsgGet parses a request for one message: by position, or the next or last one on a
// subject of the tenant.
func (g *consumerProxy) parseMsgGet(stream string, body []byte) (r server.JSApiMsgGetRequest, err error) {
	var asked server.JSApiMsgGetRequest
	if err := json.Unmarshal(body, &asked); err != nil {
		return r, refuse("the request cannot be read: %v", err)
	}
	switch {
	case asked.Batch > 0 || len(asked.MultiLastFor) > 0 || asked.StartTime != nil || asked.UpToSeq > 0 || asked.UpToTime != nil:
		return r, refuse("subscribers may get one message at a time; a consumer reads many")
	case asked.LastFor != "" && !g.owns(stream, asked.LastFor), asked.NextFor != "" && !g.owns(stream, asked.NextFor):
		return r, refuse("the subject must be below %s", g.view.subjects(stream, g.who.Tenant))
	}
	return server.JSApiMsgGetRequest{Seq: asked.Seq, LastFor: asked.LastFor, NextFor: asked.NextFor, NoHeaders: asked.NoHeaders}, nil
}

// find returns a message if it belongs to the tenant.
func (g *consumerProxy) find(stream string, r server.JSApiMsgGetRequest) (answer server.JSApiMsgGetResponse, err error) {
	if err := g.ask("STREAM.MSG.GET."+stream, r, &answer); err != nil {
		return answer, err
	}
	if answer.Message == nil || !g.owns(stream, answer.Message.Subject) {
		return answer, errNoMessage
	}
	return answer, nil
}

func (g *consumerProxy) getMessage(stream, _ string, m *nats.Msg) (any, error) {
	r, err := g.parseMsgGet(stream, m.Data)
	if err != nil {
		return nil, err
	}
	answer, err := g.find(stream, r)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// directGet forwards a get by position or subject, and the ledger answers the client.
// subject is the part after the stream in the request, which then has no body.
func (g *consumerProxy) directGet(stream, subject string, m *nats.Msg) (any, error) {
	// No stream reaches this position, so the ledger answers that there is no message.
	none := server.JSApiMsgGetRequest{Seq: math.MaxInt64}
	var r server.JSApiMsgGetRequest
	var err error
	if subject != "" {
		if r.LastFor = subject; !g.owns(stream, subject) {
			r = none
		}
	} else if r, err = g.parseMsgGet(stream, m.Data); err != nil {
		r = none
	}
	if r.LastFor == "" && r.NextFor == "" {
		if _, err := g.find(stream, r); err != nil {
			r = none
		}
	}
	return g.forward(directPrefix+stream, m.Reply, r)
}
