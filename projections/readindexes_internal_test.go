package projections

import (
	"database/sql/driver"
	"path/filepath"
	"testing"
)

// No statement that a rebuild uses without the readIndexes reads a complete table.
func TestApplyingUsesNoReadIndex(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "projections.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.dropIndexes(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := &recorder{dsn: dsn(s.opts.Path, "_busy_timeout=10000"), seen: map[string]bool{}}
	conn, err := r.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	applies, err := prepare(t.Context(), conn.(driver.ConnPrepareContext))
	if err != nil {
		t.Fatal(err)
	}
	defer applies.close()
	for _, p := range (&removalStatements{}).queries() {
		delete(r.seen, p.query) // see needsIndexes
	}
	for query := range r.seen {
		for _, step := range plan(t, s.reader, query) {
			if !isHarmless(step, query) {
				t.Errorf("%s\n\t%s", query, step)
			}
		}
	}
}
