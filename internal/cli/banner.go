package cli

import (
	"net/url"

	"daybook/embed"
)

// printBanner prints the addresses of a server. It names a busy default port, because
// clients look for the server there. It prints no secret: terminals are shared and
// logged.
func printBanner(out *screen, book *embed.Daybook, opts embed.Options) {
	out.printf("Daybook %s\n", version())
	out.printf("  data     %s\n", book.DataDir())
	out.printf("  http     %s   (REST at /api, documentation at /docs)\n", book.URL())
	out.printf("  mcp      %s/mcp\n", book.URL())
	switch at := book.NATSURL(); {
	case at == "":
	case opts.NATS.URL != "":
		out.printf("  events   %s\n", withoutPassword(at))
	case book.SubscriberCredentials() == "":
		out.printf("  events   %s   (NATS, to read; \"daybook nats credentials\" creates and lists credentials)\n", at)
	default:
		out.printf("  events   %s   (NATS, to read: nats --server %s --creds %s sub 'events.default.>')\n", at, at, book.SubscriberCredentials())
	}
	if at := book.URL(); opts.HTTP.Fallback && at != "" && hostOf(at) != opts.HTTP.Addr {
		out.printf("Another program uses %s, the default HTTP address: clients need --server %s.\n", opts.HTTP.Addr, at)
	}
	if at := book.NATSURL(); opts.NATS.Fallback && at != "" && hostOf(at) != opts.NATS.Addr {
		out.printf("Another program uses %s, the default NATS address: subscribers need %s.\n", opts.NATS.Addr, at)
	}
}

func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}

// withoutPassword returns a URL that can be shown.
func withoutPassword(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "an outside NATS server"
	}
	return u.Redacted()
}
