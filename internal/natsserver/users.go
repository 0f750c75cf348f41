package natsserver

import (
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

const serviceUser = "daybook"

// users are the service itself and those who only read. A reader sees events
// that were accepted, under events.>, and may fetch by position what the named
// streams hold; it cannot subscribe to where events are written, because
// rejected ones pass there too, and it cannot touch the consumers that are
// named as reserved.
func users(opts Options, service string, reader Reader) []*server.User {
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
		{Username: serviceUser, Password: service},
		{Username: reader.User, Password: reader.Password, Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: []string{"events.>", reader.InboxPrefix + ".>"}},
			Publish:   &server.SubjectPermission{Allow: allow, Deny: slices.Clip(deny)},
		}},
	}
}
