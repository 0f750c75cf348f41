package httpapi_test

import (
	"context"
	"net/http"
	"testing"

	"daybook/events"
	"daybook/httpapi"
)

// stretches is a ledger of volumes that are only counted.
type stretches struct{ sealed int }

func (s *stretches) Volumes(context.Context) ([]httpapi.Volume, error) {
	return []httpapi.Volume{{Volume: s.sealed + 1, Stream: events.Volume(s.sealed + 1).Stream(), First: 1}}, nil
}

func (s *stretches) SealVolume(_ context.Context, actor events.Actor) (httpapi.Volume, error) {
	if s.sealed > 0 {
		return httpapi.Volume{}, httpapi.ErrNothingToSeal
	}
	s.sealed++
	return httpapi.Volume{Volume: 1, First: 1, Last: 9, Sealed: actor.Principal == "anonymous"}, nil
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	without := start(t)
	without.do("GET", "/api/ledger/volumes", "").into(t, http.StatusServiceUnavailable, nil)
	without.do("POST", "/api/ledger/volumes/seal", "").into(t, http.StatusServiceUnavailable, nil)

	s := start(t, func(o *httpapi.Options) { o.Volumes = &stretches{} })
	var v httpapi.Volume
	sealed := s.do("POST", "/api/ledger/volumes/seal", "")
	if sealed.into(t, http.StatusOK, &v); v.Volume != 1 || v.Last != 9 || !v.Sealed {
		t.Errorf("sealed %+v", v)
	}
	if got := sealed.Header.Get("Daybook-Sequence"); got != "10" {
		t.Errorf("the opening of the next volume is at %s, want 10", got)
	}
	s.do("POST", "/api/ledger/volumes/seal", "").into(t, http.StatusConflict, nil)
	var list struct{ Volumes []httpapi.Volume }
	s.do("GET", "/api/ledger/volumes", "").into(t, http.StatusOK, &list)
	if len(list.Volumes) != 1 || list.Volumes[0].Stream != "LEDGER-0002" || list.Volumes[0].FirstAt != nil {
		t.Errorf("volumes %+v", list.Volumes)
	}
}
