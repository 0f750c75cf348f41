package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"time"

	"daybook/httpapi"
	"daybook/internal/datadir"
	"daybook/internal/store/natsserver"
)

// openListeners checks the options of the listeners and opens explicit addresses before
// another process releases the data directory for this one. Addresses with a fallback
// are opened later, after that process has closed its own.
func (d *Daybook) openListeners(ctx context.Context) error {
	if d.opts.NATS.Addr != "" {
		err := d.whenReleased(ctx, func() error {
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
	return d.whenReleased(ctx, d.openHTTP)
}

func (d *Daybook) openHTTP() error {
	var err error
	if d.listener, err = net.Listen("tcp", d.opts.HTTP.Addr); err != nil {
		return fmt.Errorf("listen for HTTP: %w; choose another --http-addr", err)
	}
	return nil
}

// whenReleased calls open. While the address is in use and the owner of the data directory
// is ending, it calls open again: the owner may use the address. It returns ErrLocked if the
// owner does not hand over the directory.
func (d *Daybook) whenReleased(ctx context.Context, open func() error) error {
	for deadline := time.Now().Add(takeOverWait); ; {
		err := open()
		if !errors.Is(err, syscall.EADDRINUSE) || !datadir.IsLocked(d.opts.DataDir) {
			return err
		}
		background, asked := isBackground(ctx, d.opts.DataDir)
		switch {
		case asked == nil && background:
			return err
		case asked == nil || !d.opts.Owner.TakeOver:
			if locked := datadir.Probe(d.opts.DataDir); errors.Is(locked, ErrLocked) {
				return locked
			}
			return err
		case !errors.Is(asked, ErrNotServing) || time.Now().After(deadline):
			return err
		}
		select {
		case <-time.After(ownerPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// isBackground asks an owner whether it hands over its directory on request.
func isBackground(ctx context.Context, dir string) (bool, error) {
	client := http.Client{Timeout: helloWait, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dialSocket(ctx, dir) },
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+handOverPath, nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, fmt.Errorf("ask the owner of %s for its kind: %w", dir, err)
	}
	defer resp.Body.Close()
	var kind ownerKind
	if err := json.NewDecoder(resp.Body).Decode(&kind); err != nil {
		return false, fmt.Errorf("ask the owner of %s for its kind: %w", dir, err)
	}
	return kind.Background, nil
}

// ownerKind is the answer to isBackground.
type ownerKind struct {
	Background bool `json:"background"`
}

// ownerKind answers the request of isBackground.
func (d *Daybook) ownerKind(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(ownerKind{d.opts.Owner.Background}) // a client that has left needs no answer
}
