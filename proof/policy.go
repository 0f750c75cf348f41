package proof

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
)

// MaxPolicyBytes is the maximum length of a policy in bytes.
const MaxPolicyBytes = 1 << 20

// aheadLimit is how far the time of a cosignature may be in the future.
const aheadLimit = 10 * time.Minute

// Policy says which witnesses must have cosigned a checkpoint (C2SP tlog-policy). ParsePolicy returns it.
// It is never changed and safe for concurrent use.
type Policy struct {
	// Logs are the logs whose checkpoints are valid. If there is none, the policy does not say whose.
	Logs []PolicyLog
	// Witnesses are the witnesses, in the order of the file.
	Witnesses []PolicyWitness
	quorum    *policyNode // nil for "none"
	trust     *Trust      // see Following; nil without a list
}

// Following returns the policy for a ledger with a list of signers. A checkpoint then satisfies the policy too
// if a key signed it that the keys of Logs introduced, as the list permits. A key of Logs may be a root key.
func (p *Policy) Following(list *Signers) *Policy {
	following := *p
	following.trust = list.Trust(p.logKeys())
	return &following
}

// Follows reports whether a signature of a key counts for the policy.
func (p *Policy) Follows(vkey string) bool {
	if len(p.Logs) == 0 {
		return true
	}
	if p.trust != nil {
		return slices.Contains(p.trust.Keys, vkey) && !p.trust.Retired(vkey)
	}
	return slices.Contains(p.logKeys(), vkey)
}

func (p *Policy) logKeys() (keys []string) {
	for _, log := range p.Logs {
		keys = append(keys, log.VKey)
	}
	return keys
}

// PolicyLog is a log of a policy.
type PolicyLog struct {
	// VKey is its verification key. The name of the key is the origin.
	VKey string
	// URL is empty if the policy has none.
	URL string
}

// PolicyWitness is a witness of a policy.
type PolicyWitness struct {
	// Name is its name in the policy, which may differ from that of its key.
	Name string
	Key  WitnessKey
	// URL is the address that add-checkpoint is below. It is empty if the policy has none.
	URL string
}

// policyNode is a witness or a group.
type policyNode struct {
	witness int // index in Policy.Witnesses; unused in a group
	members []*policyNode
	needed  int // of members; 0 in a witness
	member  bool
}

// ParsePolicy parses a policy file. An error names the line.
func ParsePolicy(file []byte) (*Policy, error) {
	if len(file) > MaxPolicyBytes {
		return nil, fmt.Errorf("a policy of %d bytes is longer than 1 MiB", len(file))
	}
	p := &policyParser{policy: &Policy{}, names: map[string]*policyNode{}, keys: map[string]bool{}}
	number := 0
	for line := range bytes.Lines(file) {
		number++
		if err := p.line(string(bytes.TrimSuffix(line, []byte("\n")))); err != nil {
			return nil, fmt.Errorf("line %d of the policy: %w", number, err)
		}
	}
	if !p.hasQuorum {
		return nil, errors.New("the policy has no quorum; add a line such as: quorum none")
	}
	return p.policy, nil
}

type policyParser struct {
	policy    *Policy
	names     map[string]*policyNode
	keys      map[string]bool // public keys, with the role before
	hasQuorum bool
}

func (p *policyParser) line(line string) error {
	if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
		return errors.New("it has a control character")
	}
	if err := refuseSigningKey(line); err != nil {
		return err
	}
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
		return nil
	}
	switch rest := fields[1:]; {
	case fields[0] == "log" && (len(rest) == 1 || len(rest) == 2):
		return p.log(rest)
	case fields[0] == "witness" && (len(rest) == 2 || len(rest) == 3):
		return p.witness(rest)
	case fields[0] == "group" && len(rest) >= 3:
		return p.group(rest[0], rest[1], rest[2:])
	case fields[0] == "quorum" && len(rest) == 1:
		return p.quorum(rest[0])
	}
	return fmt.Errorf("%.80q is none of: log VKEY [URL], witness NAME VKEY [URL], group NAME all|any|K MEMBER..., quorum NAME|none", strings.Join(fields, " "))
}

func (p *policyParser) log(fields []string) error {
	if _, err := note.NewVerifier(fields[0]); err != nil {
		return fmt.Errorf("%w: %.200q: the key of a log has the form name+hash+base64 and is an Ed25519 key (type 1)", ErrBadKey, fields[0])
	}
	raw, _ := base64.StdEncoding.DecodeString(strings.SplitN(fields[0], "+", 3)[2])
	if err := p.once("log", raw[1:]); err != nil {
		return err
	}
	p.policy.Logs = append(p.policy.Logs, PolicyLog{VKey: fields[0], URL: strings.Join(fields[1:], "")})
	return nil
}

func (p *policyParser) witness(fields []string) error {
	key, err := ParseWitnessKey(fields[1])
	if err != nil {
		return err
	}
	if err := p.once("witness", key.public); err != nil {
		return err
	}
	p.policy.Witnesses = append(p.policy.Witnesses, PolicyWitness{Name: fields[0], Key: key, URL: strings.Join(fields[2:], "")})
	return p.define(fields[0], &policyNode{witness: len(p.policy.Witnesses) - 1})
}

// once fails if a key was given before for the same role.
func (p *policyParser) once(role string, public []byte) error {
	id := role + string(public)
	if p.keys[id] {
		return fmt.Errorf("another %s has the same public key", role)
	}
	p.keys[id] = true
	return nil
}

func (p *policyParser) define(name string, node *policyNode) error {
	if name == "none" || p.names[name] != nil {
		return fmt.Errorf("the name %.80q is taken", name)
	}
	p.names[name] = node
	return nil
}

func (p *policyParser) group(name, threshold string, members []string) error {
	node := &policyNode{}
	for _, m := range members {
		member := p.names[m]
		switch {
		case member == nil:
			return fmt.Errorf("no line before defines the member %.80q", m)
		case member.member:
			return fmt.Errorf("%.80q is a member of a group already", m)
		}
		member.member = true
		node.members = append(node.members, member)
	}
	switch threshold {
	case "all":
		node.needed = len(members)
	case "any":
		node.needed = 1
	default:
		k, err := strconv.Atoi(threshold)
		if err != nil || strconv.Itoa(k) != threshold || k < 1 || k > len(members) {
			return fmt.Errorf("%.80q is not all, any, or a number from 1 to %d", threshold, len(members))
		}
		node.needed = k
	}
	return p.define(name, node)
}

func (p *policyParser) quorum(name string) error {
	if p.hasQuorum {
		return errors.New("the policy has two quorums")
	}
	p.hasQuorum = true
	if name == "none" {
		return nil
	}
	if p.policy.quorum = p.names[name]; p.policy.quorum == nil {
		return fmt.Errorf("no line before defines %.80q", name)
	}
	return nil
}

// ErrNoQuorum is wrapped by errors about a checkpoint that too few witnesses cosigned.
var ErrNoQuorum = errors.New("too few witnesses cosigned the checkpoint")

// RequiresWitnesses reports whether the policy needs any cosignature.
func (p *Policy) RequiresWitnesses() bool { return p.quorum != nil }

// Check verifies that a signed checkpoint satisfies the policy now; see checkAt.
func (p *Policy) Check(signed []byte) (time.Time, error) { return p.checkAt(signed, time.Now()) }

// checkAt verifies that a signed checkpoint satisfies the policy: that one of its logs signed it under
// the name of the key, unless the policy has no logs, and that enough witnesses cosigned it. A wrong
// signature of any key of the policy is an error. A cosignature that is more than ten minutes after now
// does not count.
//
// The result is the latest time for which the witnesses that have cosigned at that time or later satisfy
// the quorum: they stated that they knew no larger checkpoint of the origin then. It is the zero time if
// the policy requires no witness. The error wraps ErrUnknownKey if no log signed, and ErrNoQuorum if
// too few witnesses did.
func (p *Policy) checkAt(signed []byte, now time.Time) (time.Time, error) {
	c, times, err := p.open(signed)
	if err != nil {
		return time.Time{}, err
	}
	if p.quorum == nil {
		return time.Time{}, nil
	}
	counted, early := make([]time.Time, len(times)), ""
	for i, at := range times {
		switch {
		case at.IsZero():
		case at.After(now.Add(aheadLimit)):
			early = fmt.Sprintf("; the cosignature of %s is of the future (%s): compare the clocks", p.Witnesses[i].Name, at.Format(time.RFC3339))
		default:
			counted[i] = at
		}
	}
	at, ok := p.quorum.since(counted)
	if !ok {
		return time.Time{}, fmt.Errorf("checkpoint of %s at %d: %w: %s did%s", c.Origin, c.Size, ErrNoQuorum, p.whoCosigned(counted), early)
	}
	return at, nil
}

// open parses and verifies a signed checkpoint. times has the newest verified time of each witness.
func (p *Policy) open(signed []byte) (c Checkpoint, times []time.Time, err error) {
	n, err := ParseNote(signed)
	if err != nil {
		return c, nil, err
	}
	if c, err = parseText(n.Text, signed); err != nil {
		return c, nil, err
	}
	switch {
	case len(p.Logs) == 0:
	case p.trust != nil:
		c, err = p.trust.Open(signed)
	default:
		c, err = OpenCheckpoint(signed, p.logKeys()...)
	}
	if err != nil {
		return c, nil, err
	}
	times = make([]time.Time, len(p.Witnesses))
	for i, w := range p.Witnesses {
		at, _, err := w.Key.Cosigned(n)
		if err != nil {
			return c, nil, fmt.Errorf("checkpoint of %s at %d: %w", c.Origin, c.Size, err)
		}
		times[i] = at
	}
	return c, times, nil
}

func (p *Policy) whoCosigned(times []time.Time) string {
	var names []string
	for i, w := range p.Witnesses {
		switch {
		case !times[i].IsZero():
			names = append(names, w.Name)
		case !w.Key.Verifiable():
			names = append(names, "(not checked: "+w.Name+", whose ML-DSA-44 key this version cannot verify)")
		}
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// since returns the latest time t for which the witnesses with a time of t or later satisfy the node. A
// witness with the zero time has not cosigned.
func (n *policyNode) since(times []time.Time) (time.Time, bool) {
	if n.needed == 0 {
		return times[n.witness], !times[n.witness].IsZero()
	}
	var of []time.Time
	for _, m := range n.members {
		if at, ok := m.since(times); ok {
			of = append(of, at)
		}
	}
	if len(of) < n.needed {
		return time.Time{}, false
	}
	slices.SortFunc(of, func(a, b time.Time) int { return b.Compare(a) })
	return of[n.needed-1], true
}
