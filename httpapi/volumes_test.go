package httpapi_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"daybook/events"
	"daybook/httpapi"
	"daybook/internal/web/access"
)

// fakeVolumes is a ledger whose active volume holds events up to last.
type fakeVolumes struct {
	sealed  int
	last    uint64 // of the active volume
	removed events.Removal
}

func (s *fakeVolumes) Volumes(context.Context) ([]events.VolumeInfo, error) {
	v := events.VolumeInfo{Number: events.Volume(s.sealed + 1), First: 1}
	if s.last > 0 {
		v.Last, v.Bytes, v.Began, v.Ended = s.last, 1000, time.Unix(1, 0), time.Unix(2, 0)
	}
	return []events.VolumeInfo{v}, nil
}

func (s *fakeVolumes) SealVolume(_ context.Context, actor events.Actor) (events.VolumeInfo, error) {
	if s.sealed > 0 {
		return events.VolumeInfo{}, events.ErrEmptyVolume
	}
	s.sealed++
	return events.VolumeInfo{Number: 1, First: 1, Last: 9, Sealed: actor.Principal == "anonymous"}, nil
}

// RemoveVolume removes the first volume, once.
func (s *fakeVolumes) RemoveVolume(_ context.Context, n events.Volume, export string, actor events.Actor) (events.Removal, error) {
	if n != 1 || s.removed.UpTo() > 0 {
		return events.Removal{}, &events.NotRemovableError{Volume: n, Reasons: []string{"the volume is removed", "the volume is unknown"}}
	}
	s.removed = events.Removal{Seq: 12, At: time.Unix(0, 0), LedgerVolumeRemoved: &events.LedgerVolumeRemoved{
		Volume: 1, First: 1, Last: 9, RootHash: "r", Export: events.VolumeExport{SHA256: export}, Actor: actor,
	}}
	return s.removed, nil
}

func (s *fakeVolumes) Removed() events.Removal { return s.removed }

// TestVolumeRemoval tests the removal of a volume, and requests for its events.
func TestVolumeRemoval(t *testing.T) {
	t.Parallel()
	without := start(t)
	sum := `{"export_sha256": "` + events.Hash([]byte("an export")) + `"}`
	without.do("POST", "/api/ledger/volumes/1/remove", sum).into(t, http.StatusServiceUnavailable, nil)
	s := start(t, func(o *httpapi.Options) { o.Volumes = &fakeVolumes{} })
	s.do("POST", "/api/ledger/volumes/1/remove", `{"export_sha256": "ab"}`).into(t, http.StatusBadRequest, nil)
	s.do("POST", "/api/ledger/volumes/7/remove", sum).into(t, http.StatusConflict, nil)
	var v httpapi.RemovedVolume
	removed := s.do("POST", "/api/ledger/volumes/1/remove", sum)
	if removed.into(t, http.StatusOK, &v); v.Volume != 1 || v.Last != 9 || v.Sequence != 12 || v.ExportSHA256 != events.Hash([]byte("an export")) {
		t.Errorf("removed %+v", v)
	}
	if got := removed.Header.Get("Daybook-Sequence"); got != "12" {
		t.Errorf("the event is at %s, want 12", got)
	}
	var list struct{ Removed *httpapi.RemovedVolume }
	if s.do("GET", "/api/ledger/volumes", "").into(t, http.StatusOK, &list); list.Removed == nil || *list.Removed != v {
		t.Errorf("removed: %+v", list.Removed)
	}
	s.do("GET", "/api/events?after=3", "").into(t, http.StatusGone, nil)
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	without := start(t)
	without.do("GET", "/api/ledger/volumes", "").into(t, http.StatusServiceUnavailable, nil)
	without.do("POST", "/api/ledger/volumes/seal", "").into(t, http.StatusServiceUnavailable, nil)

	s := start(t, func(o *httpapi.Options) { o.Volumes = &fakeVolumes{} })
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

// Volumes hold events of all tenants, and keys sign them: only the default tenant may change
// them, whatever scopes the token of another tenant has.
func TestVolumesNeedOperator(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s := start(t, k.option)
	for _, path := range []string{"/api/ledger/volumes/seal", "/api/ledger/volumes/1/remove", "/api/ledger/signers", "/api/ledger/key/rotate"} {
		body := ""
		if strings.HasSuffix(path, "remove") {
			body = `{"export_sha256":"` + strings.Repeat("0", 64) + `"}`
		}
		if strings.HasSuffix(path, "signers") {
			body = "{}"
		}
		for tenant, refused := range map[string]bool{"acme": true, events.DefaultTenant: false} {
			got := s.do("POST", path, body, bearer(k.token(tenant, "admin", access.Admin))...)
			if (got.StatusCode == http.StatusForbidden) != refused {
				t.Errorf("POST %s by an administrator of %s: %d %s", path, tenant, got.StatusCode, got.body)
			}
		}
	}
}

// The size of a volume and the time of its last event show what other tenants record: they are for
// operators.
func TestVolumesHideOtherTenants(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	s := start(t, k.option, func(o *httpapi.Options) { o.Volumes = &fakeVolumes{last: 9} })
	for _, tc := range []struct {
		who, token string
		all        bool
	}{
		{"acme", k.token("acme", "ada", access.Read), false},
		{"an administrator of acme", k.token("acme", "ada", access.Read, access.Admin), false},
		{"a reader of default", k.token(events.DefaultTenant, "eve", access.Read), false},
		{"an operator", k.token(events.DefaultTenant, "ops", access.Read, access.Admin), true},
	} {
		var list struct{ Volumes []httpapi.Volume }
		s.do("GET", "/api/ledger/volumes", "", bearer(tc.token)...).into(t, http.StatusOK, &list)
		if v := list.Volumes[0]; (v.Bytes != nil) != tc.all || (v.LastAt != nil) != tc.all || v.FirstAt == nil || v.Last != 9 {
			t.Errorf("%s is answered %+v", tc.who, v)
		}
	}
}
