package natsserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/time/rate"
)

// Subscriber is an external client that may read the events of one tenant.
type Subscriber struct {
	// ID identifies the subscriber across changes of its key. It is one token of a
	// subject.
	ID string
	// Tenant is the tenant whose events the subscriber reads.
	Tenant string
	// PublicKey is the public nkey of the subscriber. Each of its connections must prove
	// that it has the private key.
	PublicKey string
}

const (
	// maxConnections is the maximum number of connections of the subscribers of a tenant.
	maxConnections = 16
	// maxPending is how many bytes may wait for a connection of a subscriber before it is
	// closed. The limit of nats-server also applies to connections of the service, which
	// need more.
	maxPending = 8 << 20
	// pendingInterval is the interval of that check.
	pendingInterval = 100 * time.Millisecond
)

// subscribers holds the accounts and connections of subscribers.
//
// Each subscriber has a NATS account of its own, with no streams and no subjects of
// others. The account imports the live subjects of the tenant, and the answers of the
// gate of the subscriber, which receives all JetStream requests. Requests of clients
// are therefore checked in one place, and other subjects that a client chooses reach no
// service.
type subscribers struct {
	log      *slog.Logger
	openGate func(Subscriber) (*consumerProxy, error)
	// refusals and closings limit the log messages that subscribers can cause.
	refusals, closings rate.Sometimes

	mu     sync.Mutex
	server *server.Server                 // guarded by mu
	keys   map[string]Subscriber          // by public key; guarded by mu
	conns  map[string]map[uint64]struct{} // ids of connections by public key; guarded by mu
	gates  map[string]*consumerProxy      // by Subscriber.accountName; guarded by mu

	stopWatch context.CancelFunc // of watchPending
	watchDone chan struct{}      // closed when watchPending has returned
}

// logInterval is the minimum time between two log messages of one kind about subscribers.
const logInterval = 10 * time.Second

func newSubscribers(log *slog.Logger, openGate func(Subscriber) (*consumerProxy, error)) *subscribers {
	s := &subscribers{
		log: log, openGate: openGate, refusals: rate.Sometimes{Interval: logInterval}, closings: rate.Sometimes{Interval: logInterval},
		keys: map[string]Subscriber{}, conns: map[string]map[uint64]struct{}{}, gates: map[string]*consumerProxy{}, watchDone: make(chan struct{}),
	}
	ctx, end := context.WithCancel(context.Background())
	s.stopWatch = end
	go func() {
		defer close(s.watchDone)
		s.watchPending(ctx)
	}()
	return s
}

// attach prepares a nats-server before its start. Connections to an earlier server are
// closed; gates reconnect automatically. The account of a subscriber is created with
// its first connection, because nats-server answers JetStream requests itself in
// accounts that exist when it starts.
func (s *subscribers) attach(ns *server.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server, s.conns = ns, map[string]map[uint64]struct{}{}
	if err := export(ns.GlobalAccount()); err != nil {
		return err
	}
	// With an account besides its own, nats-server leaves the recovery of the streams to
	// Server.enableStreams, whether there are subscribers or not.
	ns.LookupOrRegisterAccount("SUBSCRIBERS")
	return nil
}

// permissions returns the permissions of the connections of a subscriber in its
// account.
func permissions(tenant string) *server.Permissions {
	return &server.Permissions{
		Subscribe: &server.SubjectPermission{Allow: []string{"events." + tenant + ".>", "replay." + tenant + ".>", inbox + ">"}},
		Publish:   &server.SubjectPermission{Allow: []string{apiPrefix + ">", ackPrefix + ">"}},
	}
}

// admit authenticates a connection of a subscriber.
func (s *subscribers) admit(c server.ClientAuthentication, login *server.ClientOpts) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	who, ok := s.prove(c, login)
	if !ok {
		return false
	}
	key := who.PublicKey
	if n := s.connected(who.Tenant); n >= maxConnections {
		s.refusals.Do(func() {
			s.log.Warn("refused a NATS connection: the tenant has too many", "tenant", who.Tenant, "connections", n, "limit", maxConnections)
		})
		return false
	}
	account, err := ensureAccount(s.server, who)
	if err != nil {
		s.log.Error("refused a NATS connection", "tenant", who.Tenant, "err", err)
		return false
	}
	if s.conns[key] == nil {
		s.conns[key] = map[uint64]struct{}{}
	}
	s.conns[key][c.GetID()] = struct{}{}
	c.RegisterUser(&server.User{Username: who.ID, Account: account, Permissions: permissions(who.Tenant)})
	return true
}

// prove returns the subscriber whose key a client has, and false if the client proves no
// known key. A client with a credentials file does not name its key, because the server
// drops the token of the file before it calls Check. Each key is tried then; there are at
// most 100. The caller must hold mu.
func (s *subscribers) prove(c server.ClientAuthentication, login *server.ClientOpts) (Subscriber, bool) {
	if login.Nkey != "" {
		who, ok := s.keys[login.Nkey]
		return who, ok && provesKey(c, login.Nkey)
	}
	for key, who := range s.keys {
		if provesKey(c, key) {
			return who, true
		}
	}
	return Subscriber{}, false
}

// connected returns the number of open connections of a tenant. The caller must hold
// mu.
func (s *subscribers) connected(tenant string) (n int) {
	for key, ids := range s.conns {
		for id := range ids {
			if s.server.GetClient(id) == nil {
				delete(ids, id)
			}
		}
		if s.keys[key].Tenant == tenant {
			n += len(ids)
		}
	}
	return n
}

// watchPending closes connections whose client does not read, until ctx is done.
func (s *subscribers) watchPending(ctx context.Context) {
	tick := time.NewTicker(pendingInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.mu.Lock()
		ns, open := s.server, map[uint64]bool{}
		for _, ids := range s.conns {
			for id := range ids {
				open[id] = true
			}
		}
		s.mu.Unlock()
		if len(open) == 0 {
			continue
		}
		list, err := ns.Connz(&server.ConnzOptions{Limit: math.MaxInt32})
		if err != nil {
			continue // the server is stopping
		}
		for _, c := range list.Conns {
			if open[c.Cid] && c.Pending > maxPending {
				s.closings.Do(func() {
					s.log.Warn("closed the NATS connection of a subscriber that does not read", "name", c.Name, "pending_bytes", c.Pending)
				})
				_ = ns.DisconnectClientByID(c.Cid) // an error means that it is closed
			}
		}
	}
}

// admitGate authenticates the connection of a gate. name is the accountName of its
// subscriber.
func (s *subscribers) admitGate(c server.ClientAuthentication, name string) bool {
	id, tenant, _ := strings.Cut(name, "~")
	s.mu.Lock()
	defer s.mu.Unlock()
	account, err := ensureAccount(s.server, Subscriber{ID: id, Tenant: tenant})
	if err != nil {
		return false
	}
	c.RegisterUser(&server.User{Username: gateUser + name, Account: account})
	return true
}

// accountName identifies a subscriber of a tenant across changes of its key. Neither part
// contains a tilde.
func (s Subscriber) accountName() string { return s.ID + "~" + s.Tenant }

// SetSubscribers replaces the list of subscribers that may connect. It returns after it
// closed the connections of subscribers that are not in the list, or have another key
// there. After an error some new subscribers may be unable to connect; the caller calls
// it again. Without a listener it does nothing.
func (s *Server) SetSubscribers(list []Subscriber) error {
	if s.subscribers == nil {
		return nil
	}
	s.reopening.Lock()
	defer s.reopening.Unlock()
	return s.subscribers.set(list)
}

// set replaces the subscribers. It returns after it closed the connections of those
// that are not in the list. After an error some new ones may be refused.
func (s *subscribers) set(list []Subscriber) error {
	s.removeOthers(list)
	var errs []error
	for _, who := range list {
		if err := s.open(who); err != nil {
			errs = append(errs, fmt.Errorf("admit subscriber %s of tenant %s: %w", who.ID, who.Tenant, err))
		}
	}
	return errors.Join(errs...)
}

// removeOthers refuses keys that are not in a list, closes their connections, and closes
// the gates that no subscriber in the list needs.
func (s *subscribers) removeOthers(list []Subscriber) {
	stay, kept := map[string]Subscriber{}, map[string]bool{}
	for _, who := range list {
		stay[who.PublicKey], kept[who.accountName()] = who, true
	}
	s.mu.Lock()
	var ended []uint64
	for key, who := range s.keys {
		if stay[key] == who {
			continue
		}
		for id := range s.conns[key] {
			ended = append(ended, id)
		}
		delete(s.keys, key)
		delete(s.conns, key)
	}
	var idle []*consumerProxy
	for name, g := range s.gates {
		if !kept[name] {
			idle = append(idle, g)
			delete(s.gates, name)
		}
	}
	ns := s.server
	s.mu.Unlock()
	for _, id := range ended {
		_ = ns.DisconnectClientByID(id) // an error means that it is closed
	}
	for _, g := range idle {
		g.close()
	}
}

// open opens the gate of a subscriber unless it is open, and accepts its key.
func (s *subscribers) open(who Subscriber) error {
	s.mu.Lock()
	g, ok := s.gates[who.accountName()]
	s.mu.Unlock()
	if !ok {
		var err error
		if g, err = s.openGate(who); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates[who.accountName()], s.keys[who.PublicKey] = g, who
	return nil
}

// ensureAccount returns the account of a subscriber. It creates the account unless the
// server has it. Calls MUST NOT run concurrently.
func ensureAccount(ns *server.Server, who Subscriber) (*server.Account, error) {
	account, isNew := ns.LookupOrRegisterAccount("SUBSCRIBER-" + who.accountName())
	if !isNew {
		return account, nil
	}
	ledger := ns.GlobalAccount()
	for _, subject := range []string{"events." + who.Tenant + ".>", "replay." + who.Tenant + ".>"} {
		if err := account.AddStreamImport(ledger, subject, ""); err != nil {
			return nil, fmt.Errorf("import %s: %w", subject, err)
		}
	}
	for _, f := range forwards {
		if err := account.AddServiceImport(ledger, f.from, f.to); err != nil {
			return nil, fmt.Errorf("import %s: %w", f.to, err)
		}
	}
	return account, nil
}

func (s *subscribers) close() {
	if s == nil {
		return
	}
	s.stopWatch()
	<-s.watchDone
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gates {
		g.close()
	}
	s.gates = map[string]*consumerProxy{}
}

// export lets the accounts of subscribers import live subjects and gates from the account
// of the ledger.
func export(ledger *server.Account) error {
	for _, subject := range []string{"events.>", "replay.>"} {
		if err := ledger.AddStreamExport(subject, nil); err != nil {
			return fmt.Errorf("export %s to subscribers: %w", subject, err)
		}
	}
	for _, f := range forwards {
		if err := ledger.AddServiceExportWithResponse(f.to, f.answers, nil); err != nil {
			return fmt.Errorf("export %s to subscribers: %w", f.to, err)
		}
		if err := ledger.SetServiceExportResponseThreshold(f.to, answerTimeout); err != nil {
			return fmt.Errorf("export %s to subscribers: %w", f.to, err)
		}
	}
	return nil
}
