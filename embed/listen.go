package embed

import (
	"context"
	"fmt"
	"net"

	"daybook/httpapi"
	"daybook/internal/owner"
	"daybook/internal/store/natsserver"
)

// openListeners checks the options of the listeners and opens explicit addresses before
// another process releases the data directory for this one. Addresses with a fallback
// are opened later, after that process has closed its own.
func (d *Daybook) openListeners(ctx context.Context) error {
	if d.opts.NATS.Addr != "" {
		err := owner.WhenReleased(ctx, d.opts.DataDir, d.opts.Owner.TakeOver, func() error {
			return ofField("NATS.Addr", natsserver.CheckListen(d.opts.NATS.Addr, d.opts.NATS.Fallback))
		})
		if err != nil {
			return err
		}
	}
	if d.opts.HTTP.Addr == "" {
		return nil
	}
	if err := httpapi.CheckBind(d.opts.HTTP.Addr, d.auth != nil); err != nil {
		return ofField("HTTP.Addr", err)
	}
	if d.opts.HTTP.CertFile != "" {
		var err error
		if d.certificate, err = openCertificate(d.opts.HTTP.CertFile, d.opts.HTTP.KeyFile, d.opts.Logger); err != nil {
			return ofField("HTTP.CertFile", err)
		}
	}
	if d.opts.HTTP.Fallback {
		return nil
	}
	return owner.WhenReleased(ctx, d.opts.DataDir, d.opts.Owner.TakeOver, d.openHTTP)
}

func (d *Daybook) openHTTP() error {
	var err error
	if d.listener, err = net.Listen("tcp", d.opts.HTTP.Addr); err != nil {
		return fmt.Errorf("listen for HTTP: %w; choose another --http-addr", err)
	}
	return nil
}
