package audit_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"daybook/audit"
	"daybook/events"
	"daybook/internal/dev/tier"
	"daybook/internal/dev/verdicts"
	"daybook/internal/translog/translogtest"
	"daybook/proof"
)

var (
	ledgerCount = flag.Int("ledgers", tier.Choose(10, 250), "how many ledgers TestRandomLedgers makes")
	ledgerSeed  = flag.Uint64("ledger-seed", 20261128, "seed of the first ledger of TestRandomLedgers; ledger n has the seed plus n")
)

// randomLedger is a ledger of random events, statements and checkpoints. The holders of its keys contradict
// themselves.
type randomLedger struct {
	*handmade
	rng *rand.Rand
	// keys are the verification keys of all keys that were made, and by has the keys.
	keys []string
	by   map[string]note.Signer
	did  []string // what each step did, for messages
}

func (l *randomLedger) key(name string) (note.Signer, string) {
	signer, vkey := translogtest.NewSigner(l.t, name)
	l.keys, l.by[vkey] = append(l.keys, vkey), signer
	return signer, vkey
}

// any returns a random key of a list.
func (l *randomLedger) any(list []string) (note.Signer, string) {
	vkey := list[l.rng.IntN(len(list))]
	return l.by[vkey], vkey
}

func (l *randomLedger) size() uint64 { return l.rng.Uint64N(l.last() + 1) }

// step does one random thing.
func (l *randomLedger) step() {
	current := l.signers.Origin()
	signer, vkey := l.any(l.signers.Keys())
	speaker := signer
	if roots := l.signers.Roots(); len(roots) > 0 && l.rng.IntN(2) == 0 {
		speaker, _ = l.any(roots)
	}
	what := "events"
	switch n := l.rng.IntN(20); {
	case n < 6:
		l.request(events.DefaultTenant, 1+l.rng.IntN(3))
	case n < 11:
		by := signer
		if l.rng.IntN(3) == 0 {
			by = l.checkpointKey(l.keys)
		}
		size := l.last()
		if l.rng.IntN(3) == 0 {
			size = l.size()
		}
		if l.rng.IntN(12) == 0 {
			what = fmt.Sprintf("a wrong checkpoint of %d by %s", size, by.Name())
			l.record(l.contradict(by, size))
		} else {
			what = fmt.Sprintf("a checkpoint of %d by %s", size, by.Name())
			l.record(l.sign(by, size))
		}
	case n < 13:
		what = "introduce"
		_, other := l.key(current)
		l.state(speaker, proof.IntroduceSigner, other, nil)
	case n < 14:
		what = "introduce again"
		for _, k := range l.keys {
			if strings.HasPrefix(k, current+"+") {
				vkey = k
			}
		}
		l.state(speaker, proof.IntroduceSigner, vkey, nil)
	case n < 15:
		what = "root"
		_, root := l.key(proof.RootKeyPrefix + "x")
		l.state(speaker, proof.AddRoot, root, nil)
	case n < 17:
		if len(l.signers.Keys()) < 2 {
			return
		}
		size := l.size()
		what = fmt.Sprintf("retire at %d", size)
		l.state(speaker, proof.RetireSigner, vkey, func(st *proof.Statement) { st.Size = size })
	case n < 18:
		if l.last() < 3 {
			return
		}
		origin := fmt.Sprintf("%s/%d", firstOrigin, len(l.signers.Statements())+1)
		size := l.size()
		what = fmt.Sprintf("succeed at %d as %s", size, origin)
		next, key := l.key(origin)
		l.state(next, proof.StartOrigin, key, func(st *proof.Statement) {
			st.Origin, st.Predecessor, st.Size, st.Root = origin, current, size, l.root(size)
			if l.rng.IntN(15) == 0 {
				st.Root[3] ^= 1
			}
		})
	case n < 19:
		if len(l.did) > 0 && l.rng.IntN(2) == 0 && !strings.Contains(strings.Join(l.did, " "), "lost") {
			what = "lost"
			l.leaveOut(uint64(1+l.rng.IntN(3)), nil)
		}
	default:
		what = "another start"
		other, otherKey := translogtest.NewSigner(l.t, "example.org/other")
		st := (&proof.Signers{}).Next(proof.StartOrigin, otherKey, 0)
		st.Origin = "example.org/other"
		st, err := st.Sign(other)
		l.must(err)
		l.add(eventOf(st))
	}
	l.did = append(l.did, fmt.Sprintf("%d: %s", l.last(), what))
}

// statuses has the exit status of verify.py for each verdict. It is 2 for a refused request.
var statuses = map[audit.Verdict]int{
	audit.Intact: 0, audit.NotIntact: 1, audit.WrongKey: 6, audit.Unauthenticated: 7, audit.IntactUpTo: 8, audit.Forked: 9, audit.RolledBack: 10,
}

// Both verifiers give the same verdict on random ledgers, of which some exports show an older list of signers, with
// random keys and kept checkpoints.
func TestRandomLedgers(t *testing.T) {
	t.Parallel()
	python := verdicts.PathOfPython(t)
	counts := map[int]int{}
	for i := range *ledgerCount {
		seed := *ledgerSeed + uint64(i)
		l := &randomLedger{handmade: newHandmade(t), rng: rand.New(rand.NewPCG(seed, 1)), by: map[string]note.Signer{}}
		signer, vkey := l.key(firstOrigin)
		l.state(signer, proof.StartOrigin, vkey, func(st *proof.Statement) { st.Origin, st.Size = firstOrigin, 0 })
		lists := []*proof.Signers{l.signers.Clone()}
		for range 5 + l.rng.IntN(15) {
			l.step()
			lists = append(lists, l.signers.Clone())
		}
		by := l.checkpointKey(l.signers.Keys())
		if l.rng.IntN(4) == 0 {
			by = l.checkpointKey(l.keys)
		}
		if l.finish(by); l.rng.IntN(20) == 0 {
			l.newest = l.contradict(by, l.last())
		}
		opts, args := audit.VerifyOptions{SkipBlobs: true}, []string{"-B", "../examples/verify-python/verify.py"}
		for _, k := range l.keys {
			if l.rng.IntN(3) == 0 {
				opts.Keys, args = append(opts.Keys, k), append(args, "--key", k)
			}
		}
		for range l.rng.IntN(3) {
			trusted := slices.DeleteFunc(slices.Clone(opts.Keys), func(k string) bool { return strings.HasPrefix(k, proof.RootKeyPrefix) })
			if len(trusted) == 0 || l.rng.IntN(6) == 0 {
				trusted = l.keys
			}
			c := l.sign(l.checkpointKey(trusted), 1+l.rng.Uint64N(l.last()))
			if l.rng.IntN(4) == 0 {
				c = l.contradict(l.checkpointKey(trusted), 1+l.rng.Uint64N(l.last()+3))
			}
			path := filepath.Join(t.TempDir(), "kept")
			l.must(os.WriteFile(path, c.Note, 0o600))
			opts.Known, args = append(opts.Known, c), append(args, "--checkpoint", path)
		}
		if l.rng.IntN(3) == 0 {
			l.signers = lists[l.rng.IntN(len(lists))]
		}
		for _, s := range []proof.ExportSelection{{}, {From: 2}} {
			dir := filepath.Join(t.TempDir(), "export")
			if _, err := audit.Export(t.Context(), l.local(), audit.ExportOptions{Dir: dir, Selection: s}); err != nil {
				continue // the list does not go with the checkpoint
			}
			want := 2
			r, err := audit.VerifyExport(t.Context(), dir, opts)
			if err == nil {
				want = statuses[r.Verdict]
			} else if _, ok := errors.AsType[*audit.KnownError](err); !ok {
				t.Fatalf("seed %d: %v", seed, err)
			}
			counts[want]++
			cmd := exec.CommandContext(t.Context(), python, append(slices.Clone(args), dir)...)
			out, _ := cmd.CombinedOutput()
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("seed %d, %+v: verify.py ends with %d, want %d: %s\npackage audit: %v\n%s\nkeys %q, given %q\n%s", seed, s, got, want, out, err, r, l.keys, args[2:], strings.Join(l.did, "\n"))
			}
		}
	}
	t.Logf("how often each exit status: %v", counts)
}

// checkpointKey returns a random key of a list that may sign checkpoints.
func (l *randomLedger) checkpointKey(list []string) note.Signer {
	for {
		if signer, _ := l.any(list); !strings.HasPrefix(signer.Name(), proof.RootKeyPrefix) {
			return signer
		}
	}
}
