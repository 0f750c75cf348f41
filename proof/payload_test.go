package proof_test

import (
	"fmt"
	"strings"
	"testing"

	"daybook/proof"
)

func TestCheckPayload(t *testing.T) {
	t.Parallel()
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, `"a%d":1,`, i)
	}
	for payload, sound := range map[string]bool{
		`{}`:   true,
		`null`: true,
		`7`:    true,
		"{\"a\" :\t1 ,\n\"b_1\":[ {\"a\":2},{\"a\":3} ] }":               true,
		`{"a":{"a":{"a":"a","b":"a"}},"b":["a","a",{"b":"\"a"}],"c":""}`: true,
		`{"a":1,"a":1}`:                   false,
		`{"a":1,"b":2,"a":null}`:          false,
		`{"a":1,"A":1}`:                   false,
		`{"A":1}`:                         false,
		`{"":1}`:                          false,
		`{"rea\u017fon":1}`:               false,
		"{\"rea\u017fon\":1}":             false,
		`{"\u0061":1}`:                    true,
		`{"\u0061":1,"a":2}`:              false,
		`{"a\"":1}`:                       false,
		`{"a\\":1}`:                       false,
		`{"a":[{"b":{"c":1,"c":2}}]}`:     false,
		`{"a":{"b":1},"c":{"b":1},"a":1}`: false,
		`{"tags":{"A":1,"a":2,"a":[{"B":1,"B":{"C":1}}]},"b":1}`:               true,
		`{"tags":{"a":1},"B":1}`:                                               false,
		`{"tags":[{"A":1}],"b":{"args":{"A":1}},"c":{"custom":{"A":{"B":2}}}}`: true,
		`{"tags":{},"tags":{}}`:                                                false,
		`{"tags":1,"b":{"C":1}}`:                                               false,
		`{"b":{"tags":{"A":1}},"c":{"D":1}}`:                                   false,
		`[{"tags":1},{"A":1}]`:                                                 false,
		`{` + many.String() + `"b":1}`:                                         true,
		`{` + many.String() + `"a0":1}`:                                        false,
		`{` + many.String() + `"a999":1}`:                                      false,
		`{"a":1`:                                                               false,
		``:                                                                     false,
		"{\"a\":\"\xff\"}":                                                     false,
		`{"a":1} {}`:                                                           false,
	} {
		if err := proof.CheckPayload([]byte(payload)); (err == nil) != sound {
			t.Errorf("%.80s: %v", payload, err)
		}
	}
}
