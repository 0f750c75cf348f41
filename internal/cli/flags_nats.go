package cli

import "daybook/embed"

const defaultNATSAddr = "127.0.0.1:4222"

// natsFlags are the flags of embed.NATSOptions.
type natsFlags struct {
	NATSAddr string `name:"nats-addr" option:"NATS.Addr" help:"Listen address of NATS for subscribers, or off. Default: 127.0.0.1:4222, or a free port if it is busy; off with --auth." placeholder:"HOST:PORT"`
	NATSURL  string `name:"nats-url" option:"NATS.URL" help:"URL of an outside NATS server or cluster that stores the ledger." placeholder:"URL"`
}

// options returns the options of a server. With tokens, which separate tenants, NATS
// has a listener only on request.
func (f natsFlags) options(tokens bool) embed.NATSOptions {
	o := embed.NATSOptions{URL: f.NATSURL}
	switch {
	case f.NATSAddr == "off" || f.NATSURL != "":
	case f.NATSAddr == "" && tokens:
	case f.NATSAddr == "":
		o.Addr, o.Fallback = defaultNATSAddr, true
	default:
		o.Addr = f.NATSAddr
	}
	return o
}
