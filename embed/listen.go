package embed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"

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

func (d *Daybook) listenHTTP() error {
	if d.opts.HTTP.Addr == "" {
		return nil
	}
	if d.certificate == nil && httpapi.CheckBind(d.opts.HTTP.Addr, false) != nil {
		d.opts.Logger.Warn("tokens and everything else travel to other machines as plain text; give a TLS certificate, or put a proxy that has one in front", "http", d.opts.HTTP.Addr)
	}
	if d.listener == nil {
		err := d.openHTTP()
		if errors.Is(err, syscall.EADDRINUSE) && d.opts.HTTP.Fallback {
			host, _, splitErr := net.SplitHostPort(d.opts.HTTP.Addr)
			if splitErr != nil {
				return splitErr
			}
			d.opts.HTTP.Addr = net.JoinHostPort(host, "0")
			err = d.openHTTP()
		}
		if err != nil {
			return err
		}
	}
	d.http = httpapi.NewServer(d.listener.Addr().String(), d.handler)
	d.httpConns.Bind(d.http)
	d.httpRequests = bindRequests(d.http)
	// The server logs errors of connections that have no request yet.
	d.http.ErrorLog = slog.NewLogLogger(d.opts.Logger.Handler(), slog.LevelDebug)
	listener := d.httpConns.Listener(d.listener)
	if d.certificate != nil {
		d.http.TLSConfig = d.certificate.config() // its protocols include HTTP/2
		listener = d.httpConns.SecureListener(d.listener, d.http.TLSConfig)
	}
	go func() {
		if err := d.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.fail(fmt.Errorf("serve HTTP: %w", err))
		}
	}()
	return nil
}
