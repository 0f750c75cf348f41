package translog

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"daybook/internal/durable"
	"daybook/proof"
)

// The file "durable" describes the last tree whose files are all on disk: its size, the position of
// its last event that is not a checkpoint, and its tree hash. After a crash, the leaves after this
// size are computed again. durableVersion is the first line of the file.
const durableVersion = "daybook-tree-v1"

// durableTree is the content of the file "durable". lastNonCheckpoint has the meaning of the field
// of Log.
type durableTree struct {
	size, lastNonCheckpoint uint64
	root                    proof.Hash
}

func readDurable(dir string) (d durableTree, err error) {
	path := filepath.Join(dir, fileDurable)
	raw, err := os.ReadFile(path)
	if err != nil {
		return d, err
	}
	lines := strings.Split(string(raw), "\n")
	if len(lines) != 5 || lines[0] != durableVersion || lines[4] != "" {
		return d, fmt.Errorf("%s is malformed", path)
	}
	for i, n := range []*uint64{&d.size, &d.lastNonCheckpoint} {
		if *n, err = strconv.ParseUint(lines[i+1], 10, 63); err != nil {
			return d, fmt.Errorf("%s: %w", path, err)
		}
	}
	if d.lastNonCheckpoint > d.size {
		return d, fmt.Errorf("%s is malformed", path)
	}
	if d.root, err = proof.DecodeHash(lines[3]); err != nil {
		return d, fmt.Errorf("%s: %w", path, err)
	}
	return d, nil
}

func writeDurable(dir string, d durableTree, sync bool) error {
	text := fmt.Sprintf("%s\n%d\n%d\n%s\n", durableVersion, d.size, d.lastNonCheckpoint, proof.EncodeHash(d.root))
	return replaceFile(filepath.Join(dir, fileDurable), []byte(text), 0o644, sync)
}

// makeDurable writes the tiles that are not full, syncs the files of the tree to disk, writes the
// file "durable", and removes the files that only the previous tree needed. If the process ends
// before makeDurable returns, load can read the previous tree or the new one. makeDurable does
// nothing if the tree has not grown, or if some leaves are not confirmed yet.
func (l *Log) makeDurable() error {
	l.filesMu.Lock()
	defer l.filesMu.Unlock()
	if err := l.saveSigners(); err != nil {
		return err
	}
	l.mu.Lock()
	size, last, root := l.tree.Size(), l.lastNonCheckpoint, l.tree.Root()
	if size == l.durable || len(l.confirm) > 0 {
		l.mu.Unlock()
		return nil
	}
	err := l.file.save(l.tree)
	l.mu.Unlock()
	if err == nil && !l.opts.NoSync {
		err = durable.SyncFileSystem(l.opts.Dir)
	}
	if err == nil {
		err = writeDurable(l.opts.Dir, durableTree{size, last, root}, !l.opts.NoSync)
	}
	if err == nil {
		err = l.file.removeReplaced()
	}
	if err != nil {
		return fmt.Errorf("save the tree of hashes: %w", err)
	}
	l.mu.Lock()
	l.durable = size
	l.mu.Unlock()
	return nil
}
