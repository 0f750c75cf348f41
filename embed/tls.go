package embed

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is a key pair in two files that may be replaced while the server runs, as
// programs that renew certificates do.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	looked time.Time
	seen   [2]os.FileInfo
}

// certificateCheck is the minimum time between two checks of the files.
const certificateCheck = time.Second

// openCertificate reads the files. It returns an error if the certificate and the key
// do not match.
func openCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	if err := c.read(); err != nil {
		return nil, err
	}
	return c, nil
}

// config returns the configuration of a server with the certificate.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.current(), nil
		},
	}
}

// current returns the current key pair. If the files cannot be read, as between the
// replacement of one and the other, the former pair stays.
func (c *certificate) current() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= certificateCheck {
		c.looked = now
		if c.changed() {
			if err := c.read(); err != nil {
				c.log.Error("the TLS certificate changed and cannot be used; the former certificate stays in use", "err", err)
			} else {
				c.log.Info("read the TLS certificate again")
			}
		}
	}
	return c.pair
}

func (c *certificate) changed() bool {
	for i, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		if was := c.seen[i]; was == nil || !os.SameFile(was, info) || !was.ModTime().Equal(info.ModTime()) || was.Size() != info.Size() {
			return true
		}
	}
	return false
}

func (c *certificate) read() error {
	for i, path := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("read the TLS certificate: %w", err)
		}
		c.seen[i] = info // also of an unusable file, which is logged once
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("read the TLS certificate %s and key %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair = &pair
	return nil
}
