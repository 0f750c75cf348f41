package natsserver

import (
	"fmt"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
	"golang.org/x/crypto/bcrypt"
)

const serviceUser = "daybook"

// users are the service itself and those who only read. A reader sees events
// that were accepted, under events.>, and may fetch by position what the named
// streams hold; it cannot subscribe to where events are written, because
// rejected ones pass there too, and it cannot touch the consumers that are
// named as reserved.
func users(opts Options, service string, reader Reader) ([]*server.User, error) {
	// The passwords have 128 random bits: hashing them slowly would add nothing.
	serviceHash, err := bcrypt.GenerateFromPassword([]byte(service), bcrypt.MinCost)
	if err != nil {
		return nil, fmt.Errorf("hash the service's password: %w", err)
	}
	readerHash, err := bcrypt.GenerateFromPassword([]byte(reader.Password), bcrypt.MinCost)
	if err != nil {
		return nil, fmt.Errorf("hash the reader's password: %w", err)
	}
	allow := []string{"$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.LIST", "$JS.FC.>"}
	var deny []string
	for _, stream := range opts.ReadableStreams {
		allow = append(allow,
			"$JS.API.STREAM.INFO."+stream,
			"$JS.API.STREAM.MSG.GET."+stream,
			"$JS.API.DIRECT.GET."+stream,
			"$JS.API.DIRECT.GET."+stream+".>",
			"$JS.API.CONSUMER.CREATE."+stream,
			"$JS.API.CONSUMER.CREATE."+stream+".>",
			"$JS.API.CONSUMER.INFO."+stream+".*",
			"$JS.API.CONSUMER.MSG.NEXT."+stream+".*",
			"$JS.ACK."+stream+".>",
		)
		for _, consumer := range opts.ReservedConsumers {
			deny = append(deny,
				"$JS.API.CONSUMER.CREATE."+stream+"."+consumer,
				"$JS.API.CONSUMER.CREATE."+stream+"."+consumer+".>",
				"$JS.API.CONSUMER.MSG.NEXT."+stream+"."+consumer,
				"$JS.ACK."+stream+"."+consumer+".>",
			)
		}
	}
	return []*server.User{
		{Username: serviceUser, Password: string(serviceHash)},
		{Username: reader.User, Password: string(readerHash), Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{"events.>", reader.InboxPrefix + ".>"}},
			Publish:   &server.SubjectPermission{Allow: allow, Deny: slices.Clip(deny)},
		}},
	}, nil
}
