package proof_test

import (
	"testing"

	"daybook/proof"
)

func TestTilePaths(t *testing.T) {
	t.Parallel()
	for tile, want := range map[proof.Tile]string{
		{Width: 256}:                                "tile/0/000",
		{Level: 1, Index: 67, Width: 256}:           "tile/1/067",
		{Index: 1234067, Width: 8}:                  "tile/0/x001/x234/067.p/8",
		{Index: 1000, Width: 256}:                   "tile/0/x001/000",
		{Level: 63, Index: 999, Width: 255}:         "tile/63/999.p/255",
		{Entries: true, Index: 123456789, Width: 1}: "tile/entries/x123/x456/789.p/1",
	} {
		if got := tile.Path(); got != want {
			t.Errorf("%+v is at %s, want %s", tile, got, want)
		}
		if got, err := proof.ParseTilePath(want); err != nil || got != tile {
			t.Errorf("%s is %+v, %v; want %+v", want, got, err, tile)
		}
	}
	for _, path := range []string{
		"", "tile", "tile/0", "tile/0/", "tile/0/1", "tile/0/0000", "tile/0/x000/001", "tile/0/000.p/0", "tile/0/000.p/256", "tile/0/000.p/01", "tile/64/000",
		"tile/00/000", "tile/-1/000", "tile/0/001/002", "tile/0/x001/x002", "tile/0/x01/002", "/tile/0/000", "tile/0/../000", "tile/data/000", "tile/0/x999/x999/x999/x999/x999/x999/x999/999",
	} {
		if got, err := proof.ParseTilePath(path); err == nil {
			t.Errorf("%q is parsed as %+v", path, got)
		}
	}
}

func FuzzParseTilePath(f *testing.F) {
	f.Add("tile/0/x001/x234/067.p/8")
	f.Add("tile/entries/000")
	f.Fuzz(func(t *testing.T, path string) {
		if tile, err := proof.ParseTilePath(path); err == nil && tile.Path() != path {
			t.Errorf("%q is parsed as %+v, whose path is %q", path, tile, tile.Path())
		}
	})
}
