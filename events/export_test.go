package events

import (
	"encoding/json"
	"reflect"
)

// DecodeBothWays decodes a body as Decode does if it has the canonical form, and with
// encoding/json.
func DecodeBothWays(t Type, body []byte) (canonical Data, isCanonical bool, plain Data, err error) {
	k := kindsByType[t]
	canonical, plain = k.new(), k.new()
	p := canonicalParser{rest: body}
	isCanonical = k.reader() != nil && k.reader()(&p, reflect.ValueOf(canonical).Elem()) && len(p.rest) == 0
	return canonical, isCanonical, plain, json.Unmarshal(body, plain)
}
