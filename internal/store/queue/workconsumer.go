package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"daybook/events"
	"daybook/internal/store/jet"
	"daybook/internal/store/stream"
)

const (
	// workPrefix is the start of the names of the consumers that deliver run requests.
	workPrefix = "runners-"
	// workSeparator is between pool and tenant. No name of a pool or a tenant contains
	// it.
	workSeparator = "="
	// maxAckPending bounds the requests of a tenant that are in flight or returned with a
	// delay at one time, over all runners of a pool.
	maxAckPending = 100_000
	// metaCreatedAt holds the last position of the volume when the consumer was created.
	// An earlier consumer may have delivered the requests up to there.
	metaCreatedAt = "daybook-created-at"
	// metaAdopted marks the former consumer of a pool once the consumers of the tenants
	// deliver its requests. It holds the number of deliveries of the former consumer.
	metaAdopted = "daybook-adopted"
)

// WorkConsumer returns the name of the durable consumer that delivers the run requests
// of a tenant in a pool.
func WorkConsumer(pool, tenant string) string {
	return workPrefix + pool + workSeparator + consumerToken(tenant)
}

// formerConsumer returns the name of the consumer that delivered the requests of all
// tenants of a pool before each tenant had its own.
func formerConsumer(pool string) string { return workPrefix + pool }

// consumerToken returns a tenant as part of the name of a consumer. The server uses the
// name for a directory, so a tenant with other characters is hashed.
func consumerToken(tenant string) string {
	for _, r := range tenant {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
		if !plain {
			return events.Hash([]byte(tenant))
		}
	}
	if len(tenant) > 64 {
		return events.Hash([]byte(tenant))
	}
	return tenant
}

func isWorkConsumer(c natsjs.ConsumerConfig) bool { return strings.HasPrefix(c.Durable, workPrefix) }

// tenantOf returns the tenant whose requests in a pool a consumer of a volume delivers.
func tenantOf(v events.Volume, pool string, c natsjs.ConsumerConfig) (tenant string, ok bool) {
	if !isWorkConsumer(c) {
		return "", false
	}
	t := strings.Split(c.FilterSubject, ".")
	if len(t) < 3 || t[2] == "*" || c.FilterSubject != stream.StoredSubject(v, events.RunSubjects(t[2], pool)) {
		return "", false
	}
	return t[2], true
}

func (s *Queue) workConfig(v stream.LiveVolume, pool, tenant string) natsjs.ConsumerConfig {
	return natsjs.ConsumerConfig{
		Durable:       WorkConsumer(pool, tenant),
		Description:   "run requests of tenant " + tenant + " in pool " + pool,
		FilterSubject: stream.StoredSubject(v.Number, events.RunSubjects(tenant, pool)),
		DeliverPolicy: natsjs.DeliverAllPolicy,
		AckPolicy:     natsjs.AckExplicitPolicy,
		AckWait:       s.opts.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: maxAckPending,
	}
}

// ensureWork returns the consumer of a tenant in a volume and creates it if it does not
// exist. A new consumer starts with the first request of the tenant in the volume, or
// with the first one that the former consumer of the pool had not acknowledged.
func (s *Queue) ensureWork(ctx context.Context, v stream.LiveVolume, pool, tenant string) (*natsjs.ConsumerInfo, error) {
	name := WorkConsumer(pool, tenant)
	for try := 0; ; try++ {
		got, err := s.jet.WorkJS.Consumer(ctx, v.Stream(), name)
		if err == nil {
			return got.CachedInfo(), nil
		}
		if !errors.Is(err, natsjs.ErrConsumerNotFound) {
			return nil, err
		}
		stream, err := s.jet.StreamInfo(ctx, v.Stream())
		if err != nil {
			return nil, err
		}
		config := s.workConfig(v, pool, tenant)
		config.Metadata = map[string]string{metaCreatedAt: strconv.FormatUint(stream.State.LastSeq, 10)}
		former, err := s.jet.WorkJS.Consumer(ctx, v.Stream(), formerConsumer(pool))
		switch {
		case err == nil && former.CachedInfo().AckFloor.Stream > 0:
			config.DeliverPolicy, config.OptStartSeq = natsjs.DeliverByStartSequencePolicy, former.CachedInfo().AckFloor.Stream+1
		case err != nil && !errors.Is(err, natsjs.ErrConsumerNotFound):
			return nil, err
		}
		created, err := s.jet.WorkJS.CreateConsumer(ctx, v.Stream(), config)
		if errors.Is(err, natsjs.ErrConsumerExists) && try == 0 {
			continue // another process created it
		}
		if ae, ok := errors.AsType[*natsjs.APIError](err); ok && ae.ErrorCode == maxConsumersReached {
			return nil, fmt.Errorf("create consumer %s of stream %s: %w: each tenant needs one; set default_max_consumers: -1 in jetstream { limits { … } } of the NATS server, or raise the limit of its account", name, v.Stream(), err)
		}
		if err != nil {
			return nil, err
		}
		return created.CachedInfo(), s.jet.Sync()
	}
}

// maxConsumersReached is the error code of a server that accepts no further consumer.
const maxConsumersReached natsjs.ErrorCode = 10026

// createdAt returns the last position of the volume when a consumer was created.
func createdAt(info *natsjs.ConsumerInfo) uint64 {
	seq, _ := strconv.ParseUint(info.Config.Metadata[metaCreatedAt], 10, 64) // 0 if it is missing
	return seq
}

type workKey struct{ stream, consumer string }

// Prepare ensures that a consumer exists for a request before the request is stored in
// a volume: runners that start later find the tenant by its consumer. Other events need
// none. A failure is logged.
func (s *Queue) Prepare(ctx context.Context, v stream.LiveVolume, e events.Event) {
	d, ok := e.Data.(*events.ExecutionRequested)
	if !ok || jet.CheckTokens(e.Tenant, d.Pool) != nil {
		return
	}
	if s.preparing.Swap(int64(v.Number)) != int64(v.Number) {
		s.forgetPrepared(v)
	}
	key := workKey{v.Stream(), WorkConsumer(d.Pool, e.Tenant)}
	if _, known := s.prepared.Load(key); known {
		return
	}
	if _, err := s.ensureWork(ctx, v, d.Pool, e.Tenant); err != nil {
		// A running runner learns of the tenant by the request itself.
		s.jet.Options.Logger.WarnContext(ctx, "cannot prepare the queue of a tenant", "tenant", e.Tenant, "pool", d.Pool, "volume", v.Number, "err", err)
		return
	}
	s.prepared.Store(key, struct{}{})
}

// forgetPrepared drops the consumers of other volumes from prepared: nothing is stored in
// these volumes any more.
func (s *Queue) forgetPrepared(active stream.LiveVolume) {
	s.prepared.Range(func(key, _ any) bool {
		if key.(workKey).stream != active.Stream() {
			s.prepared.Delete(key)
		}
		return true
	})
}

// PrepareWork creates the missing consumers of tenants in a pool, in every volume that
// has requests of them. A server calls it at its start for the tenants with unfinished
// runs, because a damaged file may have lost the configuration of a consumer.
func (s *Queue) PrepareWork(ctx context.Context, pool string, tenants ...string) error {
	if err := jet.CheckTokens(append([]string{pool}, tenants...)...); err != nil {
		return fmt.Errorf("prepare the queues of tenants: %w", err)
	}
	if len(tenants) == 0 {
		return nil
	}
	volumes, _ := s.ledger.Live()
	for _, v := range volumes {
		list, err := s.workConsumers(ctx, v)
		if err != nil {
			return fmt.Errorf("prepare the queues of tenants in volume %d: %w", v.Number, err)
		}
		known := byTenant(list, v, pool)
		for _, tenant := range tenants {
			if known[tenant] != nil {
				continue
			}
			_, err := s.ledger.GetIn(ctx, v.Number, jet.Request{LastBySubject: stream.StoredSubject(v.Number, events.RunSubjects(tenant, pool))})
			if errors.Is(err, events.ErrNotFound) {
				continue // its consumer is created with its first request
			}
			if err == nil {
				_, err = s.ensureWork(ctx, v, pool, tenant)
			}
			if err != nil {
				return fmt.Errorf("prepare the queue of tenant %s in volume %d: %w", tenant, v.Number, err)
			}
		}
	}
	return nil
}

// workConsumers returns the consumers of a volume that deliver run requests. It costs
// one request to the server per 256 consumers.
func (s *Queue) workConsumers(ctx context.Context, v stream.LiveVolume) (list []*natsjs.ConsumerInfo, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.jet.Options.TryWait)
	defer cancel()
	for offset := 0; ; {
		m, err := s.jet.WorkConn.RequestWithContext(ctx, "$JS.API.CONSUMER.LIST."+v.Stream(), fmt.Appendf(nil, `{"offset":%d}`, offset))
		if err != nil {
			return nil, fmt.Errorf("list the consumers of stream %s: %w", v.Stream(), err)
		}
		var page struct {
			Error     *natsjs.APIError       `json:"error"`
			Total     int                    `json:"total"`
			Consumers []*natsjs.ConsumerInfo `json:"consumers"`
		}
		if err := json.Unmarshal(m.Data, &page); err != nil {
			return nil, fmt.Errorf("list the consumers of stream %s: decode the server's answer: %w", v.Stream(), err)
		}
		if page.Error != nil {
			return nil, fmt.Errorf("list the consumers of stream %s: %w", v.Stream(), page.Error)
		}
		for _, info := range page.Consumers {
			if isWorkConsumer(info.Config) {
				list = append(list, info)
			}
		}
		if offset += len(page.Consumers); len(page.Consumers) == 0 || offset >= page.Total {
			return list, nil
		}
	}
}

// byTenant returns the consumers of a pool by tenant.
func byTenant(list []*natsjs.ConsumerInfo, v stream.LiveVolume, pool string) map[string]*natsjs.ConsumerInfo {
	found := map[string]*natsjs.ConsumerInfo{}
	for _, info := range list {
		if tenant, ok := tenantOf(v.Number, pool, info.Config); ok {
			found[tenant] = info
		}
	}
	return found
}

// adoptFormer creates consumers for the tenants that have unacknowledged requests in the
// former consumer of a pool in a volume. It does nothing if it has done so after the last
// delivery of the former consumer. The former consumer stays, because it determines where
// a consumer created later starts. list holds the consumers of the volume. changed reports
// whether the list is out of date.
func (s *Queue) adoptFormer(ctx context.Context, v stream.LiveVolume, pool string, list []*natsjs.ConsumerInfo) (changed bool, err error) {
	i := slices.IndexFunc(list, func(info *natsjs.ConsumerInfo) bool { return info.Name == formerConsumer(pool) })
	if i < 0 || isAdopted(list[i]) {
		return false, nil
	}
	info := list[i]
	tenants := map[string]bool{}
	for from := max(info.AckFloor.Stream+1, v.First); info.NumPending > 0 || info.NumAckPending > 0; {
		var last uint64
		r := jet.Request{Seq: from, NextBySubject: stream.StoredSubject(v.Number, events.PoolSubjects(pool)), Batch: jet.BatchMessages, MaxBytes: jet.BatchBytes}
		_, err := s.ledger.GetBatchIn(ctx, v.Number, r, func(m events.Stored) error {
			last = m.Seq
			if t := strings.Split(m.Subject, "."); len(t) > 2 {
				tenants[t[2]] = true
			}
			return nil
		})
		if err != nil && !errors.Is(err, events.ErrNotFound) {
			return false, fmt.Errorf("read the requests after position %d: %w", from-1, err)
		}
		if last == 0 {
			break
		}
		from = last + 1
	}
	for tenant := range tenants {
		if _, err := s.ensureWork(ctx, v, pool, tenant); err != nil {
			return false, err
		}
	}
	config := info.Config
	config.Metadata = map[string]string{metaAdopted: strconv.FormatUint(info.Delivered.Consumer, 10)}
	if _, err := s.jet.WorkJS.UpdateConsumer(ctx, v.Stream(), config); err != nil {
		return false, err
	}
	return true, s.jet.Sync()
}

// isAdopted reports whether the consumers of the tenants deliver the requests of a former
// consumer.
func isAdopted(former *natsjs.ConsumerInfo) bool {
	return former.Config.Metadata[metaAdopted] == strconv.FormatUint(former.Delivered.Consumer, 10)
}

// PendingWork returns the number of requests of a sealed volume that are waiting or in
// flight. A volume without a stream has none.
func (s *Queue) PendingWork(ctx context.Context, n events.Volume) (left uint64, err error) {
	if !s.ledger.IsLive(n) {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.jet.Options.TryWait)
	defer cancel()
	stream, err := s.jet.JS.Stream(ctx, n.Stream())
	if err != nil {
		return 0, fmt.Errorf("count the unfinished requests of volume %d: %w", n, err)
	}
	list := stream.ListConsumers(ctx)
	for info := range list.Info() {
		if isWorkConsumer(info.Config) && !isAdopted(info) {
			left += info.NumPending + uint64(info.NumAckPending)
		}
	}
	if err := list.Err(); err != nil {
		return 0, fmt.Errorf("count the unfinished requests of volume %d: %w", n, err)
	}
	return left, nil
}
