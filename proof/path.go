package proof

import (
	"fmt"
	"strconv"
	"strings"
)

// TileHeight is the height of a tile. TileWidth is the number of hashes in a full tile.
const (
	TileHeight = 8
	TileWidth  = 1 << TileHeight
)

// Tile identifies a tile of the tree: Width hashes, from number 256*Index on, of the subtrees that
// cover 256^Level leaves each. With Entries set it identifies an entry bundle: records instead of
// hashes.
type Tile struct {
	Level   int
	Entries bool
	Index   uint64
	Width   int
}

// maxLevel exceeds every level that 2^63 leaves need.
const maxLevel = 63

// Path returns the path of the tile as specified by C2SP tlog-tiles, such as
// "tile/0/x001/x234/067.p/8".
func (t Tile) Path() string {
	var b strings.Builder
	b.WriteString("tile/")
	if t.Entries {
		b.WriteString("entries")
	} else {
		b.WriteString(strconv.Itoa(t.Level))
	}
	digits := strconv.FormatUint(t.Index, 10)
	digits = strings.Repeat("0", (3-len(digits)%3)%3) + digits
	for ; len(digits) > 3; digits = digits[3:] {
		b.WriteString("/x" + digits[:3])
	}
	b.WriteString("/" + digits)
	if t.Width != TileWidth {
		b.WriteString(".p/" + strconv.Itoa(t.Width))
	}
	return b.String()
}

// ParseTilePath parses the path of a tile or of an entry bundle. It accepts only paths that Path
// returns.
func ParseTilePath(path string) (Tile, error) {
	bad := fmt.Errorf("%q is not the path of a tile, such as tile/0/x001/234 or tile/entries/000.p/7", path)
	rest, ok := strings.CutPrefix(path, "tile/")
	level, rest, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 || len(rest) > 64 {
		return Tile{}, bad
	}
	t := Tile{Width: TileWidth, Entries: level == "entries"}
	var err error
	if !t.Entries {
		if t.Level, err = strconv.Atoi(level); err != nil || t.Level < 0 || t.Level > maxLevel {
			return Tile{}, bad
		}
	}
	if index, width, partial := strings.Cut(rest, ".p/"); partial {
		rest = index
		if t.Width, err = strconv.Atoi(width); err != nil || t.Width < 1 || t.Width >= TileWidth {
			return Tile{}, bad
		}
	}
	digits := strings.ReplaceAll(strings.ReplaceAll(rest, "/", ""), "x", "")
	if t.Index, err = strconv.ParseUint(digits, 10, 64); err != nil || t.Path() != path {
		return Tile{}, bad
	}
	return t, nil
}
