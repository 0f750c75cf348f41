package natsserver

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/crypto/bcrypt"
)

// The users of the service itself: its own, the one at the gate to the readers'
// account, and the one that may seal streams and remove them.
const (
	serviceUser = "daybook"
	gateUser    = "gate"
	keeperUser  = "keeper"
)

// readersAccount keeps readers apart. What a client sends may name any subject
// for the answer, and a consumer any subject to deliver to: in the ledger's own
// account both would be ways to write to it.
const readersAccount = "READERS"

// setUsers lets in the service, and with a listener also readers. A reader sees
// events that were accepted, under events.>, and may read what the streams hold
// that are offered (see Offer), by position or through consumers of its own; and history that is
// told once more, under replay.>. It cannot subscribe to where events are written, because rejected ones pass there too.
func setUsers(cfg *server.Options, opts Options, service string, reader Reader) error {
	// The passwords have 128 random bits: hashing them slowly would add nothing.
	serviceHash, err := bcrypt.GenerateFromPassword([]byte(service), bcrypt.MinCost)
	if err != nil {
		return fmt.Errorf("hash the service's password: %w", err)
	}
	cfg.Users = []*server.User{
		{Username: serviceUser, Password: string(serviceHash), Permissions: keeping(opts.ReadableStreams)},
		{Username: keeperUser, Password: string(serviceHash), Permissions: sealing()},
	}
	if opts.Listen == "" {
		return nil
	}
	readerHash, err := bcrypt.GenerateFromPassword([]byte(reader.Password), bcrypt.MinCost)
	if err != nil {
		return fmt.Errorf("hash the reader's password: %w", err)
	}
	readers := server.NewAccount(readersAccount)
	cfg.Accounts = []*server.Account{readers}
	// These hold for every stream: which ones there are to ask is a matter of
	// what is offered across the accounts.
	allow := []string{createSubject("*"), removeSubject("*")}
	for _, s := range append(general(), ofStream("*")...) {
		allow = append(allow, s.subject)
	}
	var deny []string
	for _, consumer := range opts.ReservedConsumers {
		deny = append(deny,
			"$JS.API.CONSUMER.MSG.NEXT.*."+consumer,
			"$JS.ACK.*."+consumer+".>",
			removePrefix+"*."+consumer,
		)
	}
	cfg.Users = append(cfg.Users,
		&server.User{Username: gateUser, Password: string(serviceHash), Account: readers},
		&server.User{Username: reader.User, Password: string(readerHash), Account: readers, Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{accepted, replayed, reader.InboxPrefix + ".>"}},
			Publish:   &server.SubjectPermission{Allow: allow, Deny: deny},
		}})
	return nil
}

// keeping is what the service itself may do: everything but take something away
// from what is on record, or change how it is kept. A fault in this program, or
// somebody in it, cannot do by a request what only the files' owner should.
// Streams that come later refuse to be purged by themselves.
func keeping(streams []string) *server.Permissions {
	if len(streams) == 0 {
		return nil
	}
	deny := []string{"$JS.API.ACCOUNT.PURGE.>"}
	for _, request := range []string{"DELETE", "UPDATE", "MSG.DELETE", "RESTORE", "PEER.REMOVE"} {
		deny = append(deny, "$JS.API.STREAM."+request+".*")
	}
	for _, stream := range streams {
		deny = append(deny, "$JS.API.STREAM.PURGE."+stream)
	}
	return &server.Permissions{Publish: &server.SubjectPermission{Deny: deny}}
}

// sealing is what the keeper may do: seal a stream, which is a change of how it
// is kept, and remove one.
func sealing() *server.Permissions {
	return &server.Permissions{Publish: &server.SubjectPermission{
		Allow: []string{"$JS.API.STREAM.UPDATE.*", "$JS.API.STREAM.DELETE.*", "$JS.API.STREAM.INFO.*"},
	}}
}

// accepted matches the subjects under which accepted events appear, replayed
// those under which history is told once more.
const (
	accepted = "events.>"
	replayed = "replay.>"
)

// createSubject matches requests to make a consumer.
func createSubject(stream string) string { return "$JS.API.CONSUMER.CREATE." + stream + ".>" }

// removeSubject matches requests to remove a consumer.
func removeSubject(stream string) string { return removePrefix + stream + ".*" }

const removePrefix = "$JS.API.CONSUMER.DELETE."

// service is something in the ledger's account that readers may ask.
type service struct {
	subject string
	// answers tells whether one question has one answer or many.
	answers server.ServiceRespType
}

// general are those that name no stream.
func general() []service {
	return []service{
		{"$JS.API.INFO", server.Singleton},
		{"$JS.API.STREAM.NAMES", server.Singleton},
		{"$JS.API.STREAM.LIST", server.Singleton},
	}
}

// ofStream are those about one stream.
func ofStream(stream string) []service {
	return []service{
		{"$JS.API.STREAM.INFO." + stream, server.Singleton},
		{"$JS.API.STREAM.MSG.GET." + stream, server.Singleton},
		{"$JS.API.DIRECT.GET." + stream, server.Streamed},
		{"$JS.API.DIRECT.GET." + stream + ".>", server.Singleton},
		{"$JS.API.CONSUMER.NAMES." + stream, server.Singleton},
		{"$JS.API.CONSUMER.LIST." + stream, server.Singleton},
		{"$JS.API.CONSUMER.INFO." + stream + ".*", server.Singleton},
		{"$JS.API.CONSUMER.MSG.NEXT." + stream + ".*", server.Streamed},
		{"$JS.ACK." + stream + ".>", server.Singleton},
	}
}

// connectAccounts opens the ways from the readers' account to the ledger's.
func connectAccounts(s *server.Server) error {
	readers, err := s.LookupAccount(readersAccount)
	if err != nil {
		return fmt.Errorf("set up the readers' account: %w", err)
	}
	ledger := s.GlobalAccount()
	for _, subject := range []string{accepted, replayed} {
		if err := ledger.AddStreamExport(subject, nil); err != nil {
			return fmt.Errorf("offer %s to readers: %w", subject, err)
		}
		if err := readers.AddStreamImport(ledger, subject, ""); err != nil {
			return fmt.Errorf("offer %s to readers: %w", subject, err)
		}
	}
	return offer(s, general())
}

// offer lets readers ask for something in the ledger's account.
func offer(s *server.Server, list []service) error {
	readers, err := s.LookupAccount(readersAccount)
	if err != nil {
		return fmt.Errorf("set up the readers' account: %w", err)
	}
	ledger := s.GlobalAccount()
	for _, sv := range list {
		if err := ledger.AddServiceExportWithResponse(sv.subject, sv.answers, nil); err != nil {
			return fmt.Errorf("offer %s to readers: %w", sv.subject, err)
		}
		if err := readers.AddServiceImport(ledger, sv.subject, sv.subject); err != nil {
			return fmt.Errorf("offer %s to readers: %w", sv.subject, err)
		}
	}
	return nil
}

// Offer lets readers read a stream, from now on. Offering one again does nothing.
func (s *Server) Offer(stream string) error {
	if s.gate == nil {
		return nil
	}
	s.offering.Lock()
	defer s.offering.Unlock()
	if s.offered[stream] {
		return nil
	}
	if err := offer(s.nats(), ofStream(stream)); err != nil {
		return err
	}
	if err := s.gate.open(stream); err != nil {
		return err
	}
	s.offered[stream] = true
	return nil
}
