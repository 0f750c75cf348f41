package typescript

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFindLinks(t *testing.T) {
	for source, want := range map[string][]Link{
		"import './a'; import type { T } from './a'; import { type U } from './a'; export type { T } from './b'; export const from = 1": nil,
		"import d, { a, b as c } from './a'\nexport { c, d as default, x }":                                                             {{"./a", "default", "", 1, 1}, {"./a", "a", "", 1, 1}, {"./a", "b", "", 1, 1}, {"./a", "b", "c", 1, 1}, {"./a", "default", "default", 1, 1}},
		"import * as ns from './a'; export { ns as n }":                                                                                 {{"./a", "*", "", 1, 1}, {"./a", "*", "n", 1, 1}},
		"\n  export { a, b as 'c d', default as e } from './a'":                                                                         {{"./a", "a", "a", 2, 3}, {"./a", "b", "c d", 2, 3}, {"./a", "default", "e", 2, 3}},
		"export { type T, a } from './a'":                                                                                               {{"./a", "a", "a", 1, 1}},
		"export * from './a'; export * as b from './b'":                                                                                 {{"./a", "*", "*", 1, 1}, {"./b", "*", "b", 1, 22}},
		"export * as 'b c' from './b'":                                                                                                  {{"./b", "*", "", 1, 1}},
		`import { a } from './\u0061'; export { b } from "./\b"`:                                                                        nil,
		"import { from '":      nil,
		"export default from;": nil,
		"export const a = 1; export { a as b }; const from = 2": nil,
	} {
		if diff := cmp.Diff(want, links(source)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", source, diff)
		}
	}
}

func links(source string) []Link {
	all, _ := FindLinks([]byte(source))
	return all
}

// A module whose names or specifiers have escapes may have more links than those found.
func TestFindLinksWithEscapes(t *testing.T) {
	for source, want := range map[string]bool{
		"import { a } from './a'; export { a as b }; export * from './b'; export * as c from './c'; const d = 'from \\u0061'": true,
		"export const a = 1":                              true,
		`import { a } from './\u0061'`:                    false,
		`import { \u0061 as b } from './a'`:               false,
		`import { '\u0061' as b } from './a'`:             false,
		`export * from './\u0061'`:                        false,
		`export * as \u0061 from './a'`:                   false,
		`export { \u0061 as b } from './a'`:               false,
		`export { a as \u0062 } from './a'`:               false,
		`export { 'a' as '\u0062' } from './a'`:           false,
		`import { a } from './a'; export { a as \u0062 }`: false,
		"import { from '":                                 false,
	} {
		if _, complete := FindLinks([]byte(source)); complete != want {
			t.Errorf("%s: complete is %t", source, complete)
		}
	}
}

func FuzzFindLinks(f *testing.F) {
	f.Add("import d, { a as b } from './a'; export { b as c } from './c'; export * as d from 'e'; export { type T } from 'f'")
	f.Fuzz(func(_ *testing.T, source string) { FindLinks([]byte(source)) })
}
