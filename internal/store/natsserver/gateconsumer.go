package natsserver

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Limits of the consumers of the subscribers of a tenant.
const (
	maxConsumers = 32 // per tenant, over all volumes
	// maxAckPending is the maximum number of unacknowledged deliveries of a consumer, and
	// maxWaiting that of pending pulls.
	maxAckPending  = 1000
	maxWaiting     = 128
	maxFilters     = 16
	maxMetadata    = 1024 // bytes of names and values
	maxDescription = 256  // bytes of the description
	maxBackOff     = 16
	// ephemeralIdle and durableIdle are the maximum times after which an unused consumer
	// is deleted.
	ephemeralIdle = time.Hour
	durableIdle   = 30 * 24 * time.Hour
)

var consumerForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// createConsumer creates or changes a pull consumer that is limited to the subjects of
// the tenant. rest is the name, possibly followed by a filter that the body repeats.
func (g *consumerProxy) createConsumer(stream, rest string, m *nats.Msg) (any, error) {
	name, _, _ := strings.Cut(rest, ".")
	var r server.CreateConsumerRequest
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return nil, refuse("the request cannot be read: %v", err)
	}
	c := &r.Config
	switch {
	case r.Stream != stream:
		return nil, refuse("the request names stream %q, its subject %q", clip(r.Stream), stream)
	case !consumerForm.MatchString(name):
		return nil, refuse("consumer %q: give a name of 1 to 64 letters, digits, _ and -", clip(name))
	case c.Name != "" && c.Name != name, c.Durable != "" && c.Durable != name:
		return nil, refuse("the request names a different consumer than its subject, %q", name)
	}
	config, err := g.consumerConfig(stream, c)
	if err != nil {
		return nil, err
	}
	if c.Durable != "" {
		config.Durable = g.inside(name)
	}
	config.Name = g.inside(name)
	subject := "CONSUMER.CREATE." + stream + "." + config.Name
	if config.FilterSubject != "" {
		subject += "." + config.FilterSubject
	}
	g.view.creating.Lock()
	defer g.view.creating.Unlock()
	if err := g.checkCount(stream, config.Name); err != nil {
		return nil, err
	}
	var answer server.JSApiConsumerCreateResponse
	if err := g.ask(subject, server.CreateConsumerRequest{Stream: stream, Config: config, Action: r.Action}, &answer); err != nil {
		return nil, err
	}
	g.showOutside(answer.ConsumerInfo)
	return answer, nil
}

// checkCount returns an error for a new consumer if the tenant has the maximum number.
func (g *consumerProxy) checkCount(stream, inside string) error {
	own, err := g.consumersOf(stream)
	if err != nil {
		return err
	}
	for _, known := range own {
		if known == inside {
			return nil
		}
	}
	n, err := g.countConsumers()
	if err != nil {
		return err
	}
	if n >= maxConsumers {
		return &refusal{400, server.JSMaximumConsumersLimitErr, "maximum consumers limit reached: the tenant has " + strconv.Itoa(n) + "; delete some"}
	}
	return nil
}

// consumerConfig returns the permitted settings of a consumer. A limit that is too
// large is replaced by the maximum.
func (g *consumerProxy) consumerConfig(stream string, c *server.ConsumerConfig) (config server.ConsumerConfig, err error) {
	size := 0
	for k, v := range c.Metadata {
		size += len(k) + len(v)
	}
	switch {
	case c.DeliverSubject != "" || c.DeliverGroup != "":
		return config, refuse("subscribers may create only pull consumers: leave out deliver_subject")
	case len(c.PriorityGroups) > 0 || c.PriorityPolicy != server.PriorityNone:
		return config, refuse("subscribers may not use priority groups: leave out priority_groups")
	case size > maxMetadata:
		return config, refuse("the metadata has %d bytes; the limit is %d", size, maxMetadata)
	case len(c.Description) > maxDescription:
		return config, refuse("the description has %d bytes; the limit is %d", len(c.Description), maxDescription)
	case len(c.FilterSubjects) > maxFilters:
		return config, refuse("the consumer has %d filters; the limit is %d", len(c.FilterSubjects), maxFilters)
	case len(c.BackOff) > maxBackOff:
		return config, refuse("the backoff has %d steps; the limit is %d", len(c.BackOff), maxBackOff)
	}
	for _, filter := range append([]string{c.FilterSubject}, c.FilterSubjects...) {
		if filter != "" && !g.owns(stream, filter) {
			return config, refuse("the filter %q must be below %s", clip(filter), g.view.subjects(stream, g.who.Tenant))
		}
	}
	config = server.ConsumerConfig{
		Description:   c.Description,
		DeliverPolicy: c.DeliverPolicy, OptStartSeq: c.OptStartSeq, OptStartTime: c.OptStartTime,
		AckPolicy: c.AckPolicy, AckWait: c.AckWait, MaxDeliver: c.MaxDeliver, BackOff: c.BackOff,
		FilterSubject: c.FilterSubject, FilterSubjects: c.FilterSubjects,
		ReplayPolicy: c.ReplayPolicy, HeadersOnly: c.HeadersOnly,
		MaxRequestBatch: c.MaxRequestBatch, MaxRequestExpires: c.MaxRequestExpires, MaxRequestMaxBytes: c.MaxRequestMaxBytes,
		MaxWaiting:        clampToMax(c.MaxWaiting, maxWaiting),
		InactiveThreshold: min(c.InactiveThreshold, ephemeralIdle),
		MemoryStorage:     true,
		Replicas:          1,
		Metadata:          c.Metadata,
	}
	if c.AckPolicy != server.AckNone {
		config.MaxAckPending = clampToMax(c.MaxAckPending, maxAckPending)
	}
	if c.Durable != "" { // it keeps its state across restarts
		config.MemoryStorage = false
		config.InactiveThreshold = clampToMax(c.InactiveThreshold, durableIdle)
	}
	if config.FilterSubject == "" && len(config.FilterSubjects) == 0 {
		config.FilterSubject = g.view.subjects(stream, g.who.Tenant)
	}
	return config, nil
}

// clampToMax returns given, or most if given is not positive or exceeds most.
func clampToMax[T int | time.Duration](given, most T) T {
	if given <= 0 || given > most {
		return most
	}
	return given
}

// consumersOf returns the names in the ledger of the consumers of the tenant on a
// stream.
func (g *consumerProxy) consumersOf(stream string) (own []string, err error) {
	for offset := 0; ; {
		var page server.JSApiConsumerNamesResponse
		request := server.JSApiConsumersRequest{ApiPagedRequest: server.ApiPagedRequest{Offset: offset}}
		if err := g.ask("CONSUMER.NAMES."+stream, request, &page); err != nil {
			return nil, err
		}
		for _, name := range page.Consumers {
			if strings.HasPrefix(name, g.inside("")) {
				own = append(own, name)
			}
		}
		if offset += len(page.Consumers); len(page.Consumers) == 0 || offset >= page.Total {
			return own, nil
		}
	}
}

func (g *consumerProxy) countConsumers() (n int, err error) {
	for _, stream := range g.view.list() {
		own, err := g.consumersOf(stream)
		if err != nil {
			return 0, err
		}
		n += len(own)
	}
	return n, nil
}

func (g *consumerProxy) consumerNames(stream, _ string, _ *nats.Msg) (any, error) {
	own, err := g.consumersOf(stream)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(own))
	for i, name := range own {
		names[i] = g.outside(name)
	}
	return server.JSApiConsumerNamesResponse{
		ApiResponse: server.ApiResponse{Type: server.JSApiConsumerNamesResponseType},
		ApiPaged:    server.ApiPaged{Total: len(own), Limit: maxConsumers}, Consumers: names,
	}, nil
}

func (g *consumerProxy) consumerList(stream, _ string, _ *nats.Msg) (any, error) {
	own, err := g.consumersOf(stream)
	if err != nil {
		return nil, err
	}
	answer := server.JSApiConsumerListResponse{
		ApiResponse: server.ApiResponse{Type: server.JSApiConsumerListResponseType},
		ApiPaged:    server.ApiPaged{Total: len(own), Limit: maxConsumers}, Consumers: []*server.ConsumerInfo{},
	}
	for _, name := range own {
		var one server.JSApiConsumerInfoResponse
		if err := g.ask("CONSUMER.INFO."+stream+"."+name, nil, &one); err != nil {
			continue // it was deleted since
		}
		g.showOutside(one.ConsumerInfo)
		answer.Consumers = append(answer.Consumers, one.ConsumerInfo)
	}
	return answer, nil
}

func (g *consumerProxy) consumerInfo(stream, name string, _ *nats.Msg) (any, error) {
	if !consumerForm.MatchString(name) {
		return nil, errNoConsumer
	}
	var answer server.JSApiConsumerInfoResponse
	if err := g.ask("CONSUMER.INFO."+stream+"."+g.inside(name), nil, &answer); err != nil {
		return nil, err
	}
	g.showOutside(answer.ConsumerInfo)
	return answer, nil
}

func (g *consumerProxy) deleteConsumer(stream, name string, _ *nats.Msg) (any, error) {
	if !consumerForm.MatchString(name) {
		return nil, errNoConsumer
	}
	var answer server.JSApiConsumerDeleteResponse
	if err := g.ask("CONSUMER.DELETE."+stream+"."+g.inside(name), nil, &answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// showOutside replaces the names of a consumer by those that the subscriber knows.
func (g *consumerProxy) showOutside(info *server.ConsumerInfo) {
	if info == nil {
		return
	}
	info.Name = g.outside(info.Name)
	if info.Config != nil {
		info.Config.Name, info.Config.Durable = g.outside(info.Config.Name), g.outside(info.Config.Durable)
	}
}

// next forwards a pull, and the ledger answers the client.
func (g *consumerProxy) next(stream, name string, m *nats.Msg) (any, error) {
	if !consumerForm.MatchString(name) {
		return nil, errNoConsumer
	}
	var r server.JSApiConsumerGetNextRequest
	body := strings.TrimSpace(string(m.Data))
	if strings.HasPrefix(body, "{") {
		if err := json.Unmarshal(m.Data, &r); err != nil {
			return nil, refuse("the request cannot be read: %v", err)
		}
	} else if body != "" {
		n, err := strconv.Atoi(body)
		if err != nil {
			return nil, refuse("the request cannot be read: %v", err)
		}
		r.Batch = n
	}
	r = server.JSApiConsumerGetNextRequest{Expires: r.Expires, Batch: r.Batch, MaxBytes: r.MaxBytes, NoWait: r.NoWait, Heartbeat: r.Heartbeat}
	if !r.NoWait || r.Expires > 0 {
		r.Expires = clampToMax(r.Expires, maxPull)
	}
	if r.Heartbeat > r.Expires/2 {
		r.Heartbeat = r.Expires / 2
	}
	if r.Batch <= 1 && r.Heartbeat <= 0 {
		return g.forward(onePrefix+stream+"."+g.inside(name), m.Reply, r)
	}
	if err := g.pulls.Wait(g.ctx); err != nil {
		return nil, err
	}
	return g.forward(nextPrefix+stream+"."+g.inside(name), m.Reply, r)
}
