package modules

import (
	"fmt"
	"strings"

	"deps.dev/util/semver"
)

// maxVersionText is the maximum length of a version or a range, in bytes.
const maxVersionText = 256

// parseVersion parses a version by the rules of npm. It returns false for a text that is no
// complete version.
func parseVersion(text string) (*semver.Version, bool) {
	if len(text) > maxVersionText {
		return nil, false
	}
	v, err := semver.NPM.Parse(text)
	core, _, _ := strings.Cut(text, "-")
	core, _, _ = strings.Cut(core, "+")
	isComplete := strings.Count(core, ".") == 2 && core[0] != 'v' // the library reads v1.2 too
	return v, err == nil && isComplete && !v.IsWildcard()
}

// parseRange parses a range such as ^1.2 || 3.x by the rules of npm. An empty text means
// every release.
func parseRange(text string) (*semver.Constraint, error) {
	if len(text) > maxVersionText {
		return nil, fmt.Errorf("a version range has at most %d characters", maxVersionText)
	}
	r, err := semver.NPM.ParseConstraint(text)
	if err != nil {
		return nil, fmt.Errorf("%.80q is not a version range such as ^1.2 or 3.x", text)
	}
	return r, nil
}
