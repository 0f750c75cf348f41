package modules

import (
	"fmt"

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
	return v, err == nil && !v.IsWildcard()
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
