package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"daybook/proof"
)

// SetExhaustedPause changes the time that Run waits after the machine ran out of a resource. It
// MUST be called before Run.
func (l *Log) SetExhaustedPause(d time.Duration) { l.exhaustedPause = d }

// FileTree is a tree with its files, for comparison with a reference.
type FileTree struct {
	*proof.Tree
	files *tileFiles
}

// NewFileTree returns an empty tree with its files in dir.
func NewFileTree(dir string) *FileTree {
	files := &tileFiles{dir: dir}
	return &FileTree{proof.NewTree(files), files}
}

// SaveAsDurable writes all files of the tree, so that a log that is opened in the directory uses it.
func (t *FileTree) SaveAsDurable() error {
	return errors.Join(t.Save(), writeDurable(t.files.dir, durableTree{t.Size(), t.Size(), t.Root()}, false))
}

// LoadFileTree loads a tree of some size from its files.
func LoadFileTree(dir string, n uint64) (*FileTree, error) {
	files := &tileFiles{dir: dir}
	t, err := files.load(n)
	return &FileTree{t, files}, err
}

// Save writes the tiles that are not full, and removes those that they replace.
func (t *FileTree) Save() error { return errors.Join(t.files.save(t.Tree), t.files.removeReplaced()) }

// SplitNotes returns the notes in a file of checkpoints. It checks that each is at its place.
func SplitNotes(raw []byte) (notes [][]byte) {
	err := eachNote(bytes.NewReader(raw), func(at int64, length int, signed []byte) error {
		if got := append(bytes.TrimRight(bytes.Clone(raw[at:at+int64(length)]), "\n"), '\n'); !bytes.Equal(got, signed) {
			return fmt.Errorf("the note %q is not at %d: %q", signed, at, got)
		}
		notes = append(notes, signed)
		return nil
	})
	if err != nil {
		panic(err)
	}
	return notes
}

// KeepCheckpoint appends a signed note to the files of checkpoints in a directory.
var KeepCheckpoint = keepCheckpoint

// SetCheckpointsFileBytes changes the length at which the file of checkpoints is full. It MUST be called
// before Run.
func (l *Log) SetCheckpointsFileBytes(n int64) { l.checkpointsFileBytes = n }

// RunPass reads the events that are in the tree at its start once.
func (s *Scrub) RunPass(ctx context.Context) error { return s.runPass(ctx) }

// SetWitnessTimes changes the pace at which witnesses are asked. It MUST be called before Run.
func (l *Log) SetWitnessTimes(every, refresh, grace, pause time.Duration) {
	l.witnesses.every, l.witnesses.refresh, l.witnesses.grace, l.witnesses.pause = every, refresh, grace, pause
}

// SetRoundTime changes the maximum time of a round of questions to the witnesses, and of one request. It MUST
// be called before Run.
func (l *Log) SetRoundTime(d time.Duration) {
	l.witnesses.roundTime, l.witnesses.client.Timeout = d, d
}

// SetFirstAsk changes how long the first signature waits for the witnesses. It MUST be called before Run.
func (l *Log) SetFirstAsk(d time.Duration) { l.witnesses.firstAsk = d }
