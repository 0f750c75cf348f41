package natsserver

import (
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/crypto/bcrypt"
)

// The users of the service itself: its own, and the one at the gate to the
// readers' account.
const (
	serviceUser = "daybook"
	gateUser    = "gate"
)

// readersAccount keeps readers apart. What a client sends may name any subject
// for the answer, and a consumer any subject to deliver to: in the ledger's own
// account both would be ways to write to it.
const readersAccount = "READERS"

// setUsers lets in the service, and with a listener also readers. A reader sees
// events that were accepted, under events.>, and may read what the named
// streams hold, by position or through consumers of its own; and history that is
// told once more, under replay.>. It cannot subscribe to where events are written, because rejected ones pass there too.
func setUsers(cfg *server.Options, opts Options, service string, reader Reader) error {
	// The passwords have 128 random bits: hashing them slowly would add nothing.
	serviceHash, err := bcrypt.GenerateFromPassword([]byte(service), bcrypt.MinCost)
	if err != nil {
		return fmt.Errorf("hash the service's password: %w", err)
	}
	cfg.Users = []*server.User{{Username: serviceUser, Password: string(serviceHash), Permissions: keeping(opts.ReadableStreams)}}
	if opts.Listen == "" {
		return nil
	}
	readerHash, err := bcrypt.GenerateFromPassword([]byte(reader.Password), bcrypt.MinCost)
	if err != nil {
		return fmt.Errorf("hash the reader's password: %w", err)
	}
	readers := server.NewAccount(readersAccount)
	cfg.Accounts = []*server.Account{readers}
	var allow, deny []string
	for _, s := range services(opts.ReadableStreams) {
		allow = append(allow, s.subject)
	}
	for _, stream := range opts.ReadableStreams {
		allow = append(allow, createSubject(stream), removeSubject(stream))
		for _, consumer := range opts.ReservedConsumers {
			deny = append(deny,
				"$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer,
				"$JS.ACK."+stream+"."+consumer+".>",
				removePrefix+stream+"."+consumer,
			)
		}
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
func keeping(streams []string) *server.Permissions {
	var deny []string
	for _, stream := range streams {
		for _, request := range []string{"DELETE", "PURGE", "UPDATE", "MSG.DELETE", "RESTORE", "PEER.REMOVE"} {
			deny = append(deny, "$JS.API.STREAM."+request+"."+stream)
		}
	}
	if deny == nil {
		return nil
	}
	return &server.Permissions{Publish: &server.SubjectPermission{Deny: append(deny, "$JS.API.ACCOUNT.PURGE.>")}}
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

func services(streams []string) []service {
	list := []service{
		{"$JS.API.INFO", server.Singleton},
		{"$JS.API.STREAM.NAMES", server.Singleton},
		{"$JS.API.STREAM.LIST", server.Singleton},
	}
	for _, stream := range streams {
		list = append(list,
			service{"$JS.API.STREAM.INFO." + stream, server.Singleton},
			service{"$JS.API.STREAM.MSG.GET." + stream, server.Singleton},
			service{"$JS.API.DIRECT.GET." + stream, server.Streamed},
			service{"$JS.API.DIRECT.GET." + stream + ".>", server.Singleton},
			service{"$JS.API.CONSUMER.NAMES." + stream, server.Singleton},
			service{"$JS.API.CONSUMER.LIST." + stream, server.Singleton},
			service{"$JS.API.CONSUMER.INFO." + stream + ".*", server.Singleton},
			service{"$JS.API.CONSUMER.MSG.NEXT." + stream + ".*", server.Streamed},
			service{"$JS.ACK." + stream + ".>", server.Singleton},
		)
	}
	return list
}

// connectAccounts opens the ways from the readers' account to the ledger's.
func connectAccounts(s *server.Server, streams []string) error {
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
	for _, sv := range services(streams) {
		if err := ledger.AddServiceExportWithResponse(sv.subject, sv.answers, nil); err != nil {
			return fmt.Errorf("offer %s to readers: %w", sv.subject, err)
		}
		if err := readers.AddServiceImport(ledger, sv.subject, sv.subject); err != nil {
			return fmt.Errorf("offer %s to readers: %w", sv.subject, err)
		}
	}
	return nil
}
