package webhook_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"daybook/events"
	"daybook/internal/webhook"
)

func listenAt(t *testing.T, address string) net.Listener {
	t.Helper()
	for late := time.After(waitTimeout); ; {
		l, err := net.Listen("tcp", address)
		if err == nil {
			return l
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
		select {
		case <-time.After(10 * time.Millisecond): // the kernel sends no notification
		case <-late:
			t.Fatal(err)
		}
	}
}

// If the service is stopped and started repeatedly during deliveries, it loses nothing
// and repeats at most the delivery that was in progress.
func TestRestart(t *testing.T) {
	t.Parallel()
	h := build(t)
	r := receive(t, nil)
	reg := h.register(r.url)
	r.expect(reg.Secret)
	var want []uint64
	const rounds = 8
	for range rounds {
		for range 5 {
			want = append(want, h.request("").Seq)
		}
		r.count(1) // anywhere between no delivery of the round and all of them
		h.stop()
		h.start()
	}
	last := h.request("")
	want = append(want, last.Seq)
	h.arrivedAt(reg.Hook.ID, last)
	got := r.sequences()
	if !slices.IsSorted(got) {
		t.Errorf("out of order: %d", got)
	}
	if repeated := len(got) - len(want); repeated > rounds {
		t.Errorf("%d repetitions in %d restarts: %d", repeated, rounds, got)
	}
	if got := slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}

// Recorded state survives a restart, with secret and dead letters. A requested retry
// that was not done is done after the start.
func TestRestartKeepsRecordedState(t *testing.T) {
	t.Parallel()
	h := build(t)
	ok := make(chan struct{})
	r := receive(t, func(_ int, _ delivery, w http.ResponseWriter, _ *http.Request) {
		select {
		case <-ok:
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	})
	reg := h.register(r.url, func(r *webhook.Registration) { r.Types, r.Session = []events.Type{events.TypeExecutionRequested}, "s" })
	r.expect(reg.Secret)
	e := h.request("s")
	h.arrivedAt(reg.Hook.ID, e)
	before, err := h.service.Get(events.DefaultTenant, reg.Hook.ID)
	if err != nil || before.DeadLetters != 1 {
		t.Fatalf("%+v, %v", before, err)
	}
	h.stop()
	// As if the process had died between the recorded request and the attempt.
	h.record(&events.WebhookRetryRequested{WebhookID: reg.Hook.ID, EventSeqs: []uint64{e.Seq}, Actor: actor})
	close(ok)
	h.start()
	after := h.until(reg.Hook.ID, func(v webhook.Hook) bool { return v.DeadLetters == 0 })
	if after.URL != before.URL || after.CreatedAt != before.CreatedAt || after.Session != "s" || !slices.Equal(after.Types, before.Types) || after.State != webhook.StateActive {
		t.Errorf("%+v, before %+v", after, before)
	}
}

// A deleted webhook gets no more deliveries and its secret is removed, also if it is
// deleted during an attempt.
func TestDelete(t *testing.T) {
	t.Parallel()
	h := build(t)
	r := receive(t, func(_ int, _ delivery, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	reg := h.register(r.url)
	r.expect(reg.Secret)
	h.request("")
	r.count(1)
	if _, err := h.service.Delete(t.Context(), events.DefaultTenant, reg.Hook.ID, actor); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(h.opts.Dir); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	h.stop()
	h.start()
	for what, err := range map[string]error{
		"get":    second(h.service.Get(events.DefaultTenant, reg.Hook.ID)),
		"delete": second(h.service.Delete(t.Context(), events.DefaultTenant, reg.Hook.ID, actor)),
		"dead":   second(h.service.DeadLetters(events.DefaultTenant, reg.Hook.ID)),
	} {
		if !errors.Is(err, events.ErrNotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := len(r.deliveries()); n != 1 {
		t.Errorf("%d attempts", n)
	}
}

func second[T any](_ T, err error) error { return err }

// The secret is only in its file, which no other user can read.
func TestSecretIsOnlyInItsFile(t *testing.T) {
	t.Parallel()
	h := build(t)
	r := receive(t, status(http.StatusInternalServerError))
	reg := h.register(r.url)
	r.expect(reg.Secret)
	h.arrivedAt(reg.Hook.ID, h.request(""))
	secret := strings.TrimPrefix(reg.Secret.Reveal(), "whsec_")
	list, err := h.store.Read(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		m, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m.Body), secret) {
			t.Errorf("%s holds the secret", e.Type)
		}
		if e.Type != events.TypeWebhookRegistered && strings.Contains(string(m.Body), "key=value") {
			t.Errorf("%s holds the URL: %s", e.Type, m.Body)
		}
	}
	if text := h.log.String(); strings.Contains(text, secret) || strings.Contains(text, "key=value") {
		t.Errorf("the log holds a secret: %s", text)
	}
	path := filepath.Join(h.opts.Dir, reg.Hook.ID+".secret")
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	h.stop()
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	h.start()
	if v, err := h.service.Get(events.DefaultTenant, reg.Hook.ID); err != nil || v.State != webhook.StateElsewhere || !strings.Contains(h.log.String(), "is accessible to other users") {
		t.Errorf("%+v, %v; log %s", v, err, h.log.String())
	}
}

// Lost, foreign and partly written files cause only repeated deliveries.
func TestFiles(t *testing.T) {
	t.Parallel()
	h := build(t)
	r := receive(t, nil)
	lost := h.register(r.url)
	r.expect(lost.Secret)
	e := h.request("")
	h.arrivedAt(lost.Hook.ID, e)
	path := filepath.Join(h.opts.Dir, lost.Hook.ID+".position")
	for name, content := range map[string]string{"empty": "", "half": "000000", "nonsense": "not a position at al\n", "beyond": "18446744073709551615\n", "before": "00000000000000000000\n"} {
		h.stop()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		h.start()
		e = h.request("")
		h.arrivedAt(lost.Hook.ID, e)
		if got := r.sequences(); got[len(got)-1] != e.Seq {
			t.Errorf("%s: the last delivery is %d, want %d", name, got[len(got)-1], e.Seq)
		}
	}
	orphan := filepath.Join(h.opts.Dir, events.NewID(time.Now())+".secret")
	foreign := filepath.Join(h.opts.Dir, "notes.txt")
	h.stop()
	for _, name := range []string{orphan, foreign} {
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(h.opts.Dir, lost.Hook.ID+".secret")); err != nil {
		t.Fatal(err)
	}
	h.start()
	if _, err := os.Stat(orphan); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the secret of no webhook is still there: %v", err)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a foreign file was removed: %v", err)
	}
	v, err := h.service.Get(events.DefaultTenant, lost.Hook.ID)
	if err != nil || v.State != webhook.StateElsewhere {
		t.Errorf("without its secret: %+v, %v", v, err)
	}
	if _, _, err := h.service.Retry(t.Context(), events.DefaultTenant, lost.Hook.ID, nil, actor); err == nil || !strings.Contains(err.Error(), "secret") {
		t.Errorf("retry without a secret: %v", err)
	}
	if _, err := h.service.Delete(t.Context(), events.DefaultTenant, lost.Hook.ID, actor); err != nil {
		t.Errorf("delete without a secret: %v", err)
	}
}
