package webhook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"daybook/internal/webhook"
)

// verify checks a delivery as the specification asks of receivers. It is independent of
// the package under test.
func verify(secret string, h http.Header, body []byte) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	id, stamp, signature := h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature")
	secs, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || time.Since(time.Unix(secs, 0)).Abs() > 5*time.Minute {
		return fmt.Errorf("timestamp %q: %v", stamp, err)
	}
	if id == "" || strings.Contains(id, ".") {
		return fmt.Errorf("id %q", id)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "." + string(body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); signature != want {
		return fmt.Errorf("signature %q, want %q", signature, want)
	}
	return nil
}

func TestVerify(t *testing.T) {
	t.Parallel()
	// Computed with the specification's JavaScript library.
	const secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", `{"test": 2432232314}`
	at := time.Unix(1614265330, 0)
	right := http.Header{"Webhook-Id": {"msg_p5jXN8AQM9LWM0D4loKWxJek"}, "Webhook-Timestamp": {"1614265330"}, "Webhook-Signature": {"v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="}}
	s, err := webhook.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		change func(http.Header)
		body   string
		at     time.Time
		ok     bool
	}{
		"right":                {nil, body, at, true},
		"one of several":       {func(h http.Header) { h.Set("Webhook-Signature", "v1,AAAA v1a,BBBB "+h.Get("Webhook-Signature")) }, body, at, true},
		"within tolerance":     {nil, body, at.Add(4 * time.Minute), true},
		"too old":              {nil, body, at.Add(6 * time.Minute), false},
		"of the future":        {nil, body, at.Add(-6 * time.Minute), false},
		"another body":         {nil, body + " ", at, false},
		"another id":           {func(h http.Header) { h.Set("Webhook-Id", "msg_other") }, body, at, false},
		"another time":         {func(h http.Header) { h.Set("Webhook-Timestamp", "1614265331") }, body, at, false},
		"no id":                {func(h http.Header) { h.Del("Webhook-Id") }, body, at, false},
		"no number":            {func(h http.Header) { h.Set("Webhook-Timestamp", "soon") }, body, at, false},
		"no signature":         {func(h http.Header) { h.Del("Webhook-Signature") }, body, at, false},
		"another version":      {func(h http.Header) { h.Set("Webhook-Signature", "v2"+h.Get("Webhook-Signature")[2:]) }, body, at, false},
		"cut":                  {func(h http.Header) { h.Set("Webhook-Signature", h.Get("Webhook-Signature")[:20]) }, body, at, false},
		"nothing at all":       {func(h http.Header) { clear(h) }, body, at, false},
		"empty body, unsigned": {nil, "", at, false},
	} {
		h := right.Clone()
		if tt.change != nil {
			tt.change(h)
		}
		if err := s.Verify(h, []byte(tt.body), tt.at); (err == nil) != tt.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretStaysSecret(t *testing.T) {
	t.Parallel()
	const text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	s, err := webhook.ParseSecret(text)
	if err != nil || s.Reveal() != text {
		t.Fatalf("%v, %v", s.Reveal(), err)
	}
	for _, shown := range []string{fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, s), fmt.Sprintf("%+v", &s), fmt.Sprintf("%x", s)} {
		if strings.Contains(shown, "MfKQ9r8GKY") || strings.Contains(shown, "31f290f6") {
			t.Errorf("printed as %s", shown)
		}
	}
	for _, bad := range []string{"", "whsec_", "whsec_!!!!", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_c2hvcnQ=", "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if _, err := webhook.ParseSecret(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func FuzzParseSecret(f *testing.F) {
	f.Add("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	f.Add("whsec_")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := webhook.ParseSecret(text)
		if err != nil {
			return
		}
		again, err := webhook.ParseSecret(s.Reveal())
		if err != nil || again.Reveal() != s.Reveal() {
			t.Errorf("%q reads as %q, then %v", text, s.Reveal(), err)
		}
	})
}
