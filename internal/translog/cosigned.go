package translog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"daybook/proof"
)

// The file "cosigned" contains the newest checkpoint that enough witnesses of the policy have cosigned,
// and "witness-policy" the policy. When the policy changes, the last checkpoint under the policy
// before is kept as "cosigned-<size>-<time>", with the time of the change in seconds.

// readPolicy reads and parses a policy file.
func readPolicy(path string) (*proof.Policy, []byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if info.Size() > proof.MaxPolicyBytes {
		return nil, nil, fmt.Errorf("the policy %s has %d bytes, more than 1 MiB", path, info.Size())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	p, err := proof.ParsePolicy(raw)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, raw, nil
}

// usePolicy stores the policy in an audit directory. If it is another one than before, usePolicy keeps
// the cosigned checkpoint under another name first.
func usePolicy(dir string, policy []byte, sync bool) error {
	path := filepath.Join(dir, filePolicy)
	before, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && bytes.Equal(before, policy) {
		return nil
	}
	if err := keepCosigned(dir, sync); err != nil {
		return err
	}
	return replaceFile(path, policy, 0o644, sync)
}

// keepCosigned gives the file of the cosigned checkpoint another name.
func keepCosigned(dir string, sync bool) error {
	raw, err := Dir(dir).Cosigned()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c, parseErr := proof.ParseCheckpoint(raw); err == nil && parseErr == nil {
		kept := filepath.Join(dir, fmt.Sprintf("%s-%d-%d", fileCosigned, c.Size, time.Now().Unix()))
		if err := replaceFile(kept, raw, 0o644, sync); err != nil {
			return err
		}
	}
	return removeIfThere(dir, fileCosigned)
}

// Cosigned reads the newest checkpoint that enough witnesses cosigned, unverified. The error is
// fs.ErrNotExist if there is none.
func (d Dir) Cosigned() ([]byte, error) { return os.ReadFile(filepath.Join(string(d), fileCosigned)) }

// readCosigned returns the stored cosigned checkpoint if it satisfies the policy and a key of the ledger
// signed it. The time is that of proof.Policy.Check. If there is no such checkpoint, the Note is nil.
func readCosigned(dir string, policy *proof.Policy, vkeys []string) (c proof.Checkpoint, at time.Time, err error) {
	raw, err := Dir(dir).Cosigned()
	if errors.Is(err, fs.ErrNotExist) {
		return c, at, nil
	}
	if err != nil {
		return c, at, err
	}
	if c, err = proof.OpenCheckpoint(raw, vkeys...); err == nil {
		at, err = policy.Check(raw)
	}
	if err != nil {
		return proof.Checkpoint{}, time.Time{}, err
	}
	return c, at, nil
}

// storeCosigned makes a cosigned checkpoint durable.
func (l *Log) storeCosigned(signed []byte) error {
	return replaceFile(filepath.Join(l.opts.Dir, fileCosigned), signed, 0o644, !l.opts.NoSync)
}

// Cosigned returns the newest checkpoint that enough witnesses of the policy have cosigned, and the time of
// proof.Policy.Check. It reports false if there is none.
func (l *Log) Cosigned() (c proof.Checkpoint, at time.Time, ok bool) {
	if l.witnesses == nil {
		return c, at, false
	}
	l.witnesses.mu.Lock()
	defer l.witnesses.mu.Unlock()
	return l.witnesses.cosigned, l.witnesses.at, l.witnesses.cosigned.Note != nil
}

// AwaitCosigned waits until the witnesses were asked about a checkpoint of at least this size, or ctx is
// done. It reports whether enough cosigned it. It does not wait for a witness that failed and is not due
// yet.
func (l *Log) AwaitCosigned(ctx context.Context, size uint64) bool {
	for l.witnesses != nil {
		l.witnesses.mu.Lock()
		cosigned, tried, changed := l.witnesses.cosigned.Size, l.witnesses.tried, l.witnesses.changed
		l.witnesses.mu.Unlock()
		if cosigned >= size || tried >= size {
			return cosigned >= size
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
	return false
}

// HasWitnesses reports whether the log has a policy of witnesses.
func (l *Log) HasWitnesses() bool { return l.witnesses != nil }
