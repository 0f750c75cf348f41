package natsserver

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/nats-io/nats-server/v2/server"
)

// Subscriber is somebody outside who may read the events of one tenant.
type Subscriber struct {
	// ID identifies the subscriber while its key changes. It is one token of a
	// subject.
	ID string
	// Tenant is the tenant whose events the subscriber reads.
	Tenant string
	// PublicKey is the nkey that the subscriber's connections must prove.
	PublicKey string
}

// maxConnections is how many connections the subscribers of a tenant may hold.
const maxConnections = 16

// subscribers holds the accounts and connections of subscribers.
//
// Each subscriber has a NATS account of its own, which holds nothing: neither
// streams nor subjects of others. Into it come the live subjects of the tenant, by
// import, and the answers of the subscriber's gate, which takes all requests to
// JetStream. So what a client sends is checked in one place, and a subject that a
// client makes up leads nowhere.
type subscribers struct {
	log      *slog.Logger
	openGate func(Subscriber) (*gate, error)

	mu     sync.Mutex
	server *server.Server                 // guarded by mu
	keys   map[string]Subscriber          // by public key; guarded by mu
	conns  map[string]map[uint64]struct{} // ids of connections by public key; guarded by mu
	gates  map[string]*gate               // by id of the subscriber; guarded by mu
}

func newSubscribers(log *slog.Logger, openGate func(Subscriber) (*gate, error)) *subscribers {
	return &subscribers{log: log, openGate: openGate, keys: map[string]Subscriber{}, conns: map[string]map[uint64]struct{}{}, gates: map[string]*gate{}}
}

// attach makes the accounts on a nats-server that is not started yet. Connections to
// an earlier one are gone; gates connect again by themselves.
func (s *subscribers) attach(ns *server.Server) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server, s.conns = ns, map[string]map[uint64]struct{}{}
	if err := export(ns.GlobalAccount()); err != nil {
		return err
	}
	// With an account besides its own, nats-server leaves it to Server.enableStreams to
	// recover the streams, whether there are subscribers or not.
	ns.LookupOrRegisterAccount("SUBSCRIBERS")
	for _, who := range s.keys {
		if err := makeAccount(ns, who); err != nil {
			return err
		}
	}
	return nil
}

// permissions are those of a subscriber's connections in its account.
func permissions(tenant string) *server.Permissions {
	return &server.Permissions{
		Subscribe: &server.SubjectPermission{Allow: []string{"events." + tenant + ".>", "replay." + tenant + ".>", inbox + ">"}},
		Publish:   &server.SubjectPermission{Allow: []string{apiPrefix + ">", ackPrefix + ">"}},
	}
}

// admit lets a connection of a subscriber in.
func (s *subscribers) admit(c server.ClientAuthentication, login *server.ClientOpts) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	who, ok := s.prove(c, login)
	if !ok {
		return false
	}
	key := who.PublicKey
	if n := s.connected(who.Tenant); n >= maxConnections {
		s.log.Warn("refused a NATS connection: the tenant has too many", "tenant", who.Tenant, "connections", n, "limit", maxConnections)
		return false
	}
	account, err := s.server.LookupAccount(accountOf(who))
	if err != nil {
		return false
	}
	if s.conns[key] == nil {
		s.conns[key] = map[uint64]struct{}{}
	}
	s.conns[key][c.GetID()] = struct{}{}
	c.RegisterUser(&server.User{Username: who.ID, Account: account, Permissions: permissions(who.Tenant)})
	return true
}

// prove returns the subscriber whose key a client possesses. A client that uses a
// credentials file does not name its key: the server drops the token of the file
// before it asks. So each key is tried, of which there are at most a hundred. The
// caller must hold mu.
func (s *subscribers) prove(c server.ClientAuthentication, login *server.ClientOpts) (Subscriber, bool) {
	if login.Nkey != "" {
		who, ok := s.keys[login.Nkey]
		return who, ok && proves(c, login.Nkey)
	}
	for key, who := range s.keys {
		if proves(c, key) {
			return who, true
		}
	}
	return Subscriber{}, false
}

// connected counts the open connections of a tenant. The caller must hold mu.
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

// admitGate lets in the connection of a gate.
func (s *subscribers) admitGate(c server.ClientAuthentication, id string) bool {
	s.mu.Lock()
	ns := s.server
	s.mu.Unlock()
	account, err := ns.LookupAccount(accountOf(Subscriber{ID: id}))
	if err != nil {
		return false
	}
	c.RegisterUser(&server.User{Username: gateUser + id, Account: account})
	return true
}

func accountOf(who Subscriber) string { return "SUBSCRIBER-" + who.ID }

// set replaces the subscribers. It returns once the connections of those that are
// no longer in the list are closed.
func (s *subscribers) set(list []Subscriber) error {
	for _, who := range list {
		if err := s.prepare(who); err != nil {
			return fmt.Errorf("admit subscriber %s of tenant %s: %w", who.ID, who.Tenant, err)
		}
	}
	keys := map[string]Subscriber{}
	for _, who := range list {
		keys[who.PublicKey] = who
	}
	s.mu.Lock()
	s.keys = keys
	var ended []uint64
	for key, ids := range s.conns {
		if _, ok := keys[key]; !ok {
			for id := range ids {
				ended = append(ended, id)
			}
			delete(s.conns, key)
		}
	}
	var idle []*gate
	for id, g := range s.gates {
		if !slices.ContainsFunc(list, func(who Subscriber) bool { return who.ID == id }) {
			idle = append(idle, g)
			delete(s.gates, id)
		}
	}
	ns := s.server
	s.mu.Unlock()
	for _, id := range ended {
		_ = ns.DisconnectClientByID(id) // an error says that it is closed
	}
	for _, g := range idle {
		g.close()
	}
	return nil
}

// prepare makes the account of a subscriber and opens its gate.
func (s *subscribers) prepare(who Subscriber) error {
	s.mu.Lock()
	_, ok := s.gates[who.ID]
	ns := s.server
	s.mu.Unlock()
	if ok {
		return nil
	}
	if err := makeAccount(ns, who); err != nil {
		return err
	}
	g, err := s.openGate(who)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gates[who.ID] = g
	return nil
}

// makeAccount makes the account of a subscriber, unless the server has it.
func makeAccount(ns *server.Server, who Subscriber) error {
	account, isNew := ns.LookupOrRegisterAccount(accountOf(who))
	if !isNew {
		return nil
	}
	ledger := ns.GlobalAccount()
	for _, subject := range []string{"events." + who.Tenant + ".>", "replay." + who.Tenant + ".>"} {
		if err := account.AddStreamImport(ledger, subject, ""); err != nil {
			return fmt.Errorf("import %s: %w", subject, err)
		}
	}
	for _, f := range forwards {
		if err := account.AddServiceImport(ledger, f.from, f.to); err != nil {
			return fmt.Errorf("import %s: %w", f.to, err)
		}
	}
	return nil
}

func (s *subscribers) close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.gates {
		g.close()
	}
	s.gates = map[string]*gate{}
}

// export lets the subscribers' accounts import from the ledger's account what they
// need.
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
		if err := ledger.SetServiceExportResponseThreshold(f.to, answerWait); err != nil {
			return fmt.Errorf("export %s to subscribers: %w", f.to, err)
		}
	}
	return nil
}
