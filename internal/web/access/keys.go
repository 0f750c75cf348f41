package access

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	fetchTimeout = 5 * time.Second
	// fetchPause is the minimum time between two requests to the issuer. Clients can
	// invent any number of tokens with unknown keys, which must not cause as many requests.
	fetchPause = 10 * time.Second
	// keysFresh is the age from which keys are renewed in the background. keysDue is
	// the age up to which they are used during a renewal while the issuer answers.
	// keysStale is the age up to which they are used while the issuer does not answer.
	keysFresh = 5 * time.Minute
	keysDue   = 10 * time.Minute
	keysStale = time.Hour
	// keyTimeout bounds how long a request waits for the issuer, maxKeyWaiters how many
	// requests wait.
	keyTimeout    = 2 * time.Second
	maxKeyWaiters = 256
	// maxAnswerBytes bounds an answer of the issuer, in bytes. maxKeys bounds the number of
	// keys of an issuer.
	maxAnswerBytes = 1 << 20
	maxKeys        = 64
	// minRSABits is the minimum length of RSA keys.
	minRSABits = 2048
)

// keys fetches and caches the public keys of an issuer.
type keys struct {
	issuer string
	client *http.Client
	now    func() time.Time
	log    *slog.Logger
	// keyTimeout bounds how long a request waits for the issuer. Default: keyTimeout.
	keyTimeout time.Duration

	mu          sync.Mutex
	list        []jose.JSONWebKey
	fetched     time.Time     // time at which list was fetched
	lastFetchAt time.Time     // time of the last request to the issuer
	err         error         // result of that request
	fetching    chan struct{} // closed when the running request has ended; nil if none runs
	waiting     int           // callers that wait for the running request
}

// signature verifies the signature of one token. It keeps the error of keys, because the
// error of the oidc verifier has only the text of that error.
type signature struct {
	keys *keys
	err  error
}

// VerifySignature returns the payload of a token that is signed with one of the
// issuer's keys.
func (s *signature) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	var payload []byte
	payload, s.err = s.keys.verify(ctx, token)
	return payload, s.err
}

var errSignature = errors.New("no key of the issuer has signed this")

func (k *keys) verify(ctx context.Context, token string) ([]byte, error) {
	algs := make([]jose.SignatureAlgorithm, len(algorithms))
	for i, a := range algorithms {
		algs[i] = jose.SignatureAlgorithm(a)
	}
	jws, err := jose.ParseSignedCompact(token, algs)
	if err != nil {
		return nil, fmt.Errorf("read the token: %w", err)
	}
	header := jws.Signatures[0].Protected
	candidates, err := k.find(ctx, header.KeyID)
	if err != nil {
		return nil, err
	}
	for _, key := range candidates {
		if !isUsable(key, header.Algorithm) {
			continue
		}
		if payload, err := jws.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errSignature
}

// isUsable reports whether a key may be used with an algorithm.
func isUsable(key jose.JSONWebKey, algorithm string) bool {
	if !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" || key.Algorithm != "" && key.Algorithm != algorithm {
		return false
	}
	if r, ok := key.Key.(*rsa.PublicKey); ok && r.N.BitLen() < minRSABits {
		return false
	}
	return true
}

// find returns the keys with an id, or all keys if id is empty. It renews keys older
// than keysFresh in the background and returns the known ones meanwhile. A caller waits
// for the issuer, for at most keyTimeout, if no known key has the id, if the keys are
// older than keysDue although the issuer answers, or if there are no keys.
func (k *keys) find(ctx context.Context, id string) ([]jose.JSONWebKey, error) {
	waited := false
	for {
		k.mu.Lock()
		now := k.now()
		found, age := k.withID(id), now.Sub(k.fetched)
		usable := k.list != nil && age < keysStale
		fresh := usable && len(found) > 0 && age < keysFresh
		if k.fetching == nil && !fresh && k.mayFetch(now) {
			k.fetching, k.lastFetchAt = make(chan struct{}), now
			go k.renew(context.WithoutCancel(ctx), k.fetching)
		}
		asking, err := k.fetching, k.err
		known := usable && len(found) > 0 && (age < keysDue || err != nil || asking == nil || waited)
		crowded := !known && asking != nil && k.waiting >= maxKeyWaiters
		if !known && asking != nil && !crowded && !waited {
			k.waiting++
		}
		k.mu.Unlock()
		switch {
		case known:
			return found, nil
		case asking == nil && usable:
			return nil, nil // the issuer was asked recently and has no such key
		case asking == nil, crowded, waited:
			return nil, &UnavailableError{Reason: "tokens cannot be checked now: the server has no usable key of the issuer; try again in some seconds", Err: err}
		}
		if err := k.wait(ctx, asking); err != nil {
			return nil, err
		}
		waited = true
	}
}

// wait waits until the running request to the issuer has ended, for at most k.keyTimeout.
func (k *keys) wait(ctx context.Context, asking <-chan struct{}) error {
	defer func() {
		k.mu.Lock()
		k.waiting--
		k.mu.Unlock()
	}()
	timer := time.NewTimer(k.keyTimeout)
	defer timer.Stop()
	select {
	case <-asking:
	case <-timer.C:
	case <-ctx.Done():
		return &UnavailableError{Reason: "the request ended before its token was checked", Err: ctx.Err()}
	}
	return nil
}

// mayFetch reports whether fetchPause has passed since the last request. The caller must
// hold mu.
func (k *keys) mayFetch(now time.Time) bool {
	return k.lastFetchAt.IsZero() || now.Sub(k.lastFetchAt) >= fetchPause || now.Before(k.lastFetchAt)
}

// withID returns the keys with an id, or all for an empty id. The caller must hold mu.
func (k *keys) withID(id string) []jose.JSONWebKey {
	if id == "" {
		return k.list
	}
	var found []jose.JSONWebKey
	for _, key := range k.list {
		if key.KeyID == id {
			found = append(found, key)
		}
	}
	return found
}

// renew fetches the keys for all waiting callers.
func (k *keys) renew(ctx context.Context, asking chan struct{}) {
	ctx, stop := context.WithTimeout(ctx, fetchTimeout)
	defer stop()
	list, err := k.fetch(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	defer close(asking)
	k.fetching = nil
	// The pause starts after the request, however long that took.
	k.lastFetchAt = k.now()
	if err != nil {
		if k.err == nil {
			k.log.WarnContext(ctx, "cannot fetch the keys of the token issuer; known keys stay in use until they are one hour old", "issuer", k.issuer, "err", err)
		}
		k.err = err
		return
	}
	if k.err != nil {
		k.log.InfoContext(ctx, "fetched the keys of the token issuer again", "issuer", k.issuer)
	}
	k.list, k.fetched, k.err = list, k.now(), nil
}

// check returns the reason why tokens cannot be verified now, or nil.
func (k *keys) check(ctx context.Context) error {
	_, err := k.find(ctx, "")
	if err != nil {
		return fmt.Errorf("the issuer %s: %w", k.issuer, errors.Join(err, errors.Unwrap(err)))
	}
	return nil
}

// fetch reads the issuer's configuration and then its keys.
func (k *keys) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	var about struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	if err := k.get(ctx, strings.TrimSuffix(k.issuer, "/")+"/.well-known/openid-configuration", &about); err != nil {
		return nil, err
	}
	if about.Issuer != k.issuer {
		return nil, fmt.Errorf("the configuration of the issuer names another issuer: %q", clip(about.Issuer))
	}
	u, err := url.Parse(about.Keys)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, fmt.Errorf("the issuer's key address %q is not an https URL", clip(about.Keys))
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := k.get(ctx, about.Keys, &set); err != nil {
		return nil, err
	}
	list := []jose.JSONWebKey{}
	for _, raw := range set.Keys[:min(len(set.Keys), maxKeys)] {
		var key jose.JSONWebKey
		// Skip keys of unknown kinds.
		if json.Unmarshal(raw, &key) == nil && key.IsPublic() {
			list = append(list, key)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the issuer has no usable keys")
	}
	return list, nil
}

func (k *keys) get(ctx context.Context, address string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return fmt.Errorf("request %s: %w", address, err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := k.client.Do(req)
	if err != nil {
		return err // contains the address
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", address, resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", address, err)
	}
	if len(raw) > maxAnswerBytes {
		return fmt.Errorf("%s answered more than %d bytes", address, maxAnswerBytes)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return fmt.Errorf("read %s: %w", address, err)
	}
	return nil
}
