package access_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"daybook/internal/web/access"
)

func TestBearer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		headers []string
		token   string
		refused string
	}{
		"good":           {[]string{"Bearer abc.DEF-1_2~3+4/5=="}, "abc.DEF-1_2~3+4/5==", ""},
		"any case":       {[]string{"bEARER abc"}, "abc", ""},
		"more spaces":    {[]string{"Bearer   abc"}, "abc", ""},
		"none":           {nil, "", "Authorization: Bearer TOKEN"},
		"twice":          {[]string{"Bearer a", "Bearer b"}, "", "once"},
		"another scheme": {[]string{"Basic YTpi"}, "", "Bearer TOKEN"},
		"no scheme":      {[]string{"abc"}, "", "Bearer TOKEN"},
		"no token":       {[]string{"Bearer "}, "", "no token"},
		"two tokens":     {[]string{"Bearer a b"}, "", "characters"},
		"a list":         {[]string{"Bearer a,Bearer b"}, "", "characters"},
		"not ASCII":      {[]string{"Bearer ä"}, "", "characters"},
		"too long":       {[]string{"Bearer " + strings.Repeat("a", 16<<10+1)}, "", "longer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			token, err := access.Bearer(http.Header{"Authorization": test.headers})
			switch {
			case test.refused != "":
				wantTokenError(t, err, test.refused)
			case err != nil || token != test.token:
				t.Errorf("got %q, %v, want %q", token, err, test.token)
			}
		})
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	set := scopes(t, access.Admin, access.Read)
	if set.String() != "read admin" || !set.Has(access.Read) || set.Has(access.Run) || set.Has("root") || set.Has("") || !set.Has(access.Sign) {
		t.Errorf("the set is %q", set)
	}
	raw, err := json.Marshal(set)
	if err != nil || string(raw) != `["read","admin"]` {
		t.Errorf("got %s, %v", raw, err)
	}
	var back access.Scopes
	if err := json.Unmarshal(raw, &back); err != nil || back != set {
		t.Errorf("got %q, %v", back, err)
	}
	if _, err := access.NewScopes("reed"); err == nil || !strings.Contains(err.Error(), "read, run, sign and admin") {
		t.Errorf("got %v, want the list of scopes", err)
	}
}

func FuzzBearer(f *testing.F) {
	f.Add("Bearer abc")
	f.Add("bearer  a b")
	f.Fuzz(func(t *testing.T, header string) {
		token, err := access.Bearer(http.Header{"Authorization": {header}})
		if err == nil && (token == "" || strings.ContainsAny(token, " \t\r\n\x00,\"") || !strings.HasSuffix(header, token)) {
			t.Errorf("%q was taken from %q", token, header)
		}
	})
}
